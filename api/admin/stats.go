package admin

import (
	"time"

	"hortus.dev/api"
)

// TaskStats is what tasks came to. Tasks that repeat (a replay of a program or
// of a recording) count in Tasks and Replays and in nothing else.
type TaskStats struct {
	// Since is the beginning of the span; zero means all that is stored.
	Since time.Time `json:"since,omitzero"`
	// Tasks is the sum of Requests, which began with a sentence, Programs, which
	// were there already, and Replays.
	Tasks    int `json:"tasks"`
	Requests int `json:"requests"`
	Programs int `json:"programs"`
	Replays  int `json:"replays"`
	// Repositories are those of Requests that were about a repository.
	Repositories int `json:"repositories,omitempty"`
	// Running counts the requests that are not done, Outcomes those that are.
	Running  int                 `json:"running"`
	Outcomes map[api.Outcome]int `json:"outcomes"`
	// SuccessRate is the share of verified requests, 0 to 1, among all that are
	// done and were not canceled; 0 if there is none.
	SuccessRate float64 `json:"successRate"`
	// AttemptsPerSuccess is the mean number of attempts of a verified request for
	// a program, RoundsPerSuccess that of rounds of one about a repository.
	AttemptsPerSuccess float64 `json:"attemptsPerSuccess"`
	RoundsPerSuccess   float64 `json:"roundsPerSuccess,omitempty"`
	// Stops counts why agents' last rounds ended.
	Stops map[api.StopReason]int `json:"stops,omitempty"`
	// Phases is where the time went, in the order of the work: plan, code,
	// create, install, run, debug, agent, gate. Phases that never were are left
	// out.
	Phases []PhaseTime `json:"phases"`
	// Failures counts the attempts that failed, the most frequent first.
	Failures []FailureCount `json:"failures"`
	// Errors counts the tasks that failed because of Hortus, its host or a model.
	Errors map[api.Kind]int `json:"errors"`
	// Models is what was asked of each model, the most asked first.
	Models []ModelUse `json:"models"`
	// Missing is what tasks failed for want of, the most wanted first: at most
	// MaxMissing of them.
	Missing []MissingCount `json:"missing"`
	// Lessons is what lessons of earlier tasks changed; nil if no request had a failure.
	Lessons *LessonStats `json:"lessons,omitempty"`
}

// LessonStats counts the requests that had a failure: those With lessons of earlier tasks and those Without.
type LessonStats struct {
	With    Overcome `json:"with"`
	Without Overcome `json:"without"`
	// By counts the lessons that were given, by how they were found: fingerprint, text, vector.
	By map[string]Given `json:"by,omitempty"`
}

// Given counts lessons that were given to requests, and those of them whose request was verified.
type Given struct {
	Lessons  int `json:"lessons"`
	Verified int `json:"verified"`
}

// Overcome counts requests with a failure, those of them that were verified in the end, and the attempts or rounds
// of the latter.
type Overcome struct {
	Tasks    int `json:"tasks"`
	Verified int `json:"verified"`
	Passes   int `json:"passes"`
}

// MaxMissing is the most that TaskStats names as missing.
const MaxMissing = 50

// PhaseTime is the time of one phase. Count is how often it was: calls of a
// model for plan, code, debug and agent, runs for gate, attempts for the others.
type PhaseTime struct {
	Phase   string `json:"phase"`
	Count   int    `json:"count"`
	TotalMS int64  `json:"totalMs"`
}

// FailureCount counts the attempts that failed with one category, and the tasks
// that they belong to.
type FailureCount struct {
	Category api.Category `json:"category"`
	Attempts int          `json:"attempts"`
	Tasks    int          `json:"tasks"`
}

// ModelUse sums what was asked of one model.
type ModelUse struct {
	Model  string    `json:"model"`
	Calls  int       `json:"calls"`
	Errors int       `json:"errors"`
	MS     int64     `json:"ms"`
	Usage  api.Usage `json:"usage,omitzero"`
}

// MissingCount names a package or command that was missing, and counts the tasks
// that failed because of it. What is named is what programs said.
type MissingCount struct {
	Name string `json:"name"`
	// Language is that of a package; empty for a command.
	Language api.Language `json:"language,omitempty"`
	Tasks    int          `json:"tasks"`
}
