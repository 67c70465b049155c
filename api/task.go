package api

import (
	"encoding/json"
	"time"
)

// TaskState is where a task stands: pending, running, then done.
type TaskState string

const (
	TaskPending TaskState = "pending"
	TaskRunning TaskState = "running"
	TaskDone    TaskState = "done"
)

// Outcome is how a task that is done ended.
type Outcome string

const (
	// OutcomeVerified: a program really ran and met its plan.
	OutcomeVerified Outcome = "verified"
	// OutcomeAnswered: a turn of a session ended with an answer, and no gate judged its work.
	OutcomeAnswered Outcome = "answered"
	// OutcomeNeedsHuman: the attempts are used up; Diagnosis and Question say
	// what was found and what a person must decide.
	OutcomeNeedsHuman Outcome = "needs_human"
	// OutcomeDeclined: the model says that the request is beyond it.
	OutcomeDeclined Outcome = "declined"
	// OutcomeCanceled: a person stopped it.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeFailed: Hortus or its host failed; Error says how.
	OutcomeFailed Outcome = "failed"
	// OutcomeLost: the daemon that ran it died in the middle.
	OutcomeLost Outcome = "lost"
)

// CreateTask requests a verified program. Exactly one of Request, Artifact and
// Replay is set.
type CreateTask struct {
	// Request is the sentence.
	Request string `json:"request,omitempty"`
	// Artifact runs a hand-made program once, without any model.
	Artifact *CodeArtifact `json:"artifact,omitempty"`
	// Replay runs the same artifact of an earlier task again, exactly.
	Replay *Replay `json:"replay,omitempty"`
	// Model names the model of all roles; "offline" is the default. Models
	// names others for some of them.
	Model  string `json:"model,omitempty"`
	Models Models `json:"models,omitzero"`
	// Record is where the daemon writes down every exchange with the models: the
	// absolute path of a file that is not there yet. Like the path of a model
	// "replay:PATH" it is of the daemon's machine and for its own user: a server
	// that serves anybody else refuses both.
	Record string `json:"record,omitempty"`
	// Files are put into the program's directory before it runs: at most MaxInputFiles
	// with MaxInputBytes, for requests and artifacts. A replay and a reply take those of
	// the task before.
	Files []InputFile `json:"files,omitempty"`
	// Schema is a JSON Schema, of at most 64 KiB, for all that a program prints to stdout, or
	// for the value that the agent of a repository returns. The task is verified only with one
	// JSON value that is valid. A replay and a reply take the schema of the task before.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Attempts bounds the passes; default and most are 3 and 10.
	Attempts int `json:"attempts,omitempty"`
	// InstallTimeoutMS and RunTimeoutMS bound one pass; the defaults are 120 s
	// and 30 s.
	InstallTimeoutMS int64 `json:"installTimeoutMs,omitempty"`
	RunTimeoutMS     int64 `json:"runTimeoutMs,omitempty"`
	// Sandbox is what each attempt runs in. Its Task field must be empty. Its Egress is what
	// the sandbox may connect to, except while the install command of a program runs.
	Sandbox CreateSandbox `json:"sandbox,omitzero"`
	// SetupEgress is what the sandbox may connect to while the install command of a program
	// runs. Nil is the package registry of the program's language, if the backend can open
	// it; the zero policy is nothing. A task on a repository has no such phase.
	SetupEgress *EgressPolicy `json:"setupEgress,omitempty"`
	// SetupSecrets are the secrets that the setup of a repository may use; those of Sandbox
	// are for the agent and the gate.
	SetupSecrets []SecretGrant `json:"setupSecrets,omitempty"`
	// Keep leaves the last attempt's sandbox alive until its TTL.
	Keep bool `json:"keep,omitempty"`
	// Repo makes Request a request about a repository.
	Repo *RepoTask `json:"repo,omitempty"`
}

// Replay names an attempt to run again.
type Replay struct {
	Task    TaskID `json:"task"`
	Attempt int    `json:"attempt"`
}

// Defaults of a task.
const (
	DefaultAttempts       = 3
	MaxAttempts           = 10
	DefaultInstallTimeout = 120 * time.Second
	DefaultRunTimeout     = 30 * time.Second
)

// Task is the stored record of a request.
type Task struct {
	ID      TaskID     `json:"id"`
	State   TaskState  `json:"state"`
	Outcome Outcome    `json:"outcome,omitempty"`
	Create  CreateTask `json:"create"`
	// EnvNames are the names of the environment variables of its sandboxes, sorted. Env
	// has their values, which no answer, no event and no log shows; Create has neither.
	EnvNames []string          `json:"envNames,omitempty"`
	Env      map[string]string `json:"-"`
	// Model is that of the Coder. Where not all roles have the same one, Models
	// names them all.
	Model    string         `json:"model"`
	Models   Models         `json:"models,omitzero"`
	Plan     *ExecutionPlan `json:"plan,omitempty"`
	Attempts []Attempt      `json:"attempts,omitempty"`
	// Continues is the task whose question Reply answers; see ReplyTask.
	Continues TaskID `json:"continues,omitempty"`
	Reply     string `json:"reply,omitempty"`
	// Session is the session that it is a turn of, if any; see package api/session.
	Session SessionID `json:"session,omitempty"`
	// Account owns it; empty is the operator's own. Key is the API key that requested it.
	Account string  `json:"account,omitempty"`
	Key     KeyID   `json:"key,omitempty"`
	Owner   OwnerID `json:"owner,omitempty"`
	// Node is the name of the node of a fleet that has it, or had it, in lists and when one task is read; empty for a daemon alone.
	Node      string    `json:"node,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// StartedAt is when a task on a repository began to work: it may have waited for others first, see RepoTask.Overlap.
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Diagnosis and Question are set when the outcome is needs_human.
	Diagnosis string `json:"diagnosis,omitempty"`
	Question  string `json:"question,omitempty"`
	Error     *Error `json:"error,omitempty"`
	Usage     Usage  `json:"usage,omitzero"`
	// Calls is which role asked which model, in the order of their first calls.
	// It is empty until the task is done, and where the task was lost.
	Calls []RoleCalls `json:"calls,omitempty"`
	// Value is the result of a verified task with a Schema, and valid for it. No other task
	// has one.
	Value json.RawMessage `json:"value,omitempty"`
	// Lessons are those of earlier tasks that its models were given, by identifier. LessonsBy counts them by how they
	// were found: fingerprint, text, vector.
	Lessons   []string       `json:"lessons,omitempty"`
	LessonsBy map[string]int `json:"lessonsBy,omitempty"`
	// Repo is what a task on a repository came to.
	Repo *RepoResult `json:"repo,omitempty"`
	// Receipt is what a canceled task had finished and what it skipped.
	Receipt *Receipt `json:"receipt,omitempty"`
	// Moves are the last moves to other nodes of a fleet, MaxMoves at most, the first one first.
	Moves []TaskMove `json:"moves,omitempty"`
}

// MaxMoves is the maximum number of moves that a task names.
const MaxMoves = 20

// TaskMove is that a task continues on another node of a fleet.
type TaskMove struct {
	// From and To are the names of the nodes. To is From if a node that drains found no other one, and continues the task itself.
	From string    `json:"from"`
	To   string    `json:"to"`
	Why  MoveCause `json:"why"`
	At   time.Time `json:"at"`
}

// MoveCause is why a task moved.
type MoveCause string

// The causes. A node that MoveEnded died, or could not reach the database for longer than its lease.
const (
	MoveDrained MoveCause = "drained"
	MoveEnded   MoveCause = "ended"
)

// Sandbox is what each attempt runs in, with its environment.
func (t Task) Sandbox() CreateSandbox {
	sandbox := t.Create.Sandbox
	sandbox.Task, sandbox.Env = t.ID, t.Env
	if t.Create.Repo != nil {
		sandbox.IsolationFrom = t.Create.Repo.IsolationFrom
	}
	return sandbox
}

// Receipt lists what a canceled task did and did not do.
type Receipt struct {
	Completed []string `json:"completed"`
	Skipped   []string `json:"skipped"`
	// ProcessesLeft is 0 when the kill was proven.
	ProcessesLeft int `json:"processesLeft"`
}

// Attempt is one pass of write, run, observe.
type Attempt struct {
	N         int              `json:"n"` // from 1
	Artifact  CodeArtifact     `json:"artifact"`
	Result    *ExecutionResult `json:"result,omitempty"`
	Diagnosis *Diagnosis       `json:"diagnosis,omitempty"`
	Sandbox   SandboxID        `json:"sandbox,omitempty"`
	StartedAt time.Time        `json:"startedAt"`
	EndedAt   time.Time        `json:"endedAt,omitzero"`
	// StdoutPath and StderrPath are empty on the wire; the whole output is
	// read with its own call.
	StdoutPath string `json:"-"`
	StderrPath string `json:"-"`
}

// Usage counts what a model was asked and what it cost.
type Usage struct {
	Requests int `json:"requests,omitempty"`
	// InputTokens are all tokens of the prompts; CachedTokens are those of them
	// that came from the model's cache.
	InputTokens  int64   `json:"inputTokens,omitempty"`
	CachedTokens int64   `json:"cachedTokens,omitempty"`
	OutputTokens int64   `json:"outputTokens,omitempty"`
	CostUSD      float64 `json:"costUsd,omitempty"`
	// Unpriced counts the requests whose cost is not known and not in CostUSD.
	Unpriced int `json:"unpriced,omitempty"`
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Requests:     u.Requests + v.Requests,
		InputTokens:  u.InputTokens + v.InputTokens,
		CachedTokens: u.CachedTokens + v.CachedTokens,
		OutputTokens: u.OutputTokens + v.OutputTokens,
		CostUSD:      u.CostUSD + v.CostUSD,
		Unpriced:     u.Unpriced + v.Unpriced,
	}
}
