package api

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// RepositoryHook says which events of a repository's forge start tasks: a label that is added to an issue, and a comment on one.
type RepositoryHook struct {
	// People are the logins, at the forge, of those who may start tasks. Each must also have the right to write to the repository.
	People []string `json:"people"`
	// Label is the label of an issue that starts a task; empty for none. Command is the first word of a comment that starts one, such
	// as "/hortus"; empty for none.
	Label   string `json:"label,omitempty"`
	Command string `json:"command,omitempty"`
	// TasksPerDay and USDPerDay are the maximum number of tasks and their maximum cost on a day in UTC. A day without both has
	// DefaultHookTasks tasks. A task that runs counts with its whole budget, and one whose cost is not known too.
	TasksPerDay int     `json:"tasksPerDay,omitempty"`
	USDPerDay   float64 `json:"usdPerDay,omitempty"`
	// USDPerTask is the budget of a task; 0 for what is left of the day's.
	USDPerTask float64 `json:"usdPerTask,omitempty"`
	// Model and Agent are those of the tasks; empty for the defaults of a task.
	Model string `json:"model,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Forge is the kind of the forge. The daemon sets it.
	Forge string `json:"forge,omitempty"`
}

// Bounds of a hook.
const (
	DefaultHookTasks = 10
	MaxHookTasks     = 1000
	MaxHookUSD       = 100_000
	MaxHookPeople    = 100
)

// Check refuses a hook that makes no sense.
func (h RepositoryHook) Check() error {
	invalid := func(format string, args ...any) *Error { return Errorf(KindInvalid, "hook: "+format, args...) }
	word := func(s string, most int) bool {
		return s != "" && len(s) <= most && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }) < 0
	}
	if h.Label == "" && h.Command == "" {
		return invalid("neither a label nor a command is set, so nothing would start a task").WithHint("set one: --label hortus or --command /hortus")
	}
	if h.Command != "" && !word(h.Command, 50) {
		return invalid("%.60q is not a command", h.Command).WithHint("use one word of up to 50 bytes, such as /hortus")
	}
	if l := h.Label; l != "" && (len(l) > 100 || l != strings.TrimSpace(l) || !utf8.ValidString(l) || strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) })) {
		return invalid("%.120q is not a label", l).WithHint("use the name of a label of the repository, up to 100 bytes")
	}
	if len(h.People) > MaxHookPeople {
		return invalid("%d people; the maximum is %d", len(h.People), MaxHookPeople)
	}
	for _, p := range h.People {
		if !word(p, 100) || strings.HasPrefix(p, "@") {
			return invalid("%.120q is not a login", p).WithHint("use the name that the person signs in to the forge with, without @")
		}
	}
	if h.TasksPerDay < 0 || h.TasksPerDay > MaxHookTasks {
		return invalid("%d tasks per day; it must be between 1 and %d", h.TasksPerDay, MaxHookTasks)
	}
	for _, usd := range []float64{h.USDPerDay, h.USDPerTask} {
		if !(usd >= 0 && usd <= MaxHookUSD) || math.IsNaN(usd) {
			return invalid("a budget of %v US dollars; it must be between 0 and %d", usd, MaxHookUSD)
		}
	}
	if h.USDPerDay > 0 && h.USDPerTask > h.USDPerDay {
		return invalid("the budget of a task, %v US dollars, is more than that of a day, %v", h.USDPerTask, h.USDPerDay)
	}
	if len(h.Model) > 200 || len(h.Agent) > 100 {
		return invalid("the name of the model or of the agent is too long")
	}
	return nil
}

// SetRepositoryHook sets the hook of a repository.
type SetRepositoryHook struct {
	Hook RepositoryHook `json:"hook"`
	// NewSecret replaces the signing secret. A first hook always gets one.
	NewSecret bool `json:"newSecret,omitempty"`
}

// RepositoryHookState is the hook of a repository, and what it received.
type RepositoryHookState struct {
	// Hook is nil if the repository has none.
	Hook *RepositoryHook `json:"hook,omitempty"`
	// URL is where the forge sends events.
	URL string `json:"url"`
	// Secret is the signing secret, in the answer that created it only.
	Secret string `json:"secret,omitempty"`
	// Steps say what to enter at the forge.
	Steps []string `json:"steps,omitempty"`
	// TasksToday and USDToday are what counts against the budgets of this day.
	TasksToday int     `json:"tasksToday"`
	USDToday   float64 `json:"usdToday"`
	// Events are the last requests for a task, the newest first.
	Events []HookEvent `json:"events"`
}

// HookEventState is how far a request for a task is.
type HookEventState string

const (
	// HookStarting: its task is being created.
	HookStarting HookEventState = "starting"
	// HookStarted: its task runs, or the comment on its end is not written yet.
	HookStarted HookEventState = "started"
	// HookEnded: its task ended.
	HookEnded HookEventState = "ended"
	// HookRefused: no task was started, and Reason says why.
	HookRefused HookEventState = "refused"
)

// NextHookEventState reports whether a request may go from one state to another. It is the whole table.
func NextHookEventState(from, to HookEventState) bool {
	return map[HookEventState]map[HookEventState]bool{
		HookStarting: {HookStarted: true, HookRefused: true},
		HookStarted:  {HookStarted: true, HookEnded: true},
	}[from][to]
}

// HookEvent is a request for a task that a forge sent.
type HookEvent struct {
	Repository RepositoryID `json:"repository"`
	// Cause is what the request is about: a comment, or an issue with a label at a time. No two events of a repository have the same.
	Cause string         `json:"cause"`
	State HookEventState `json:"state"`
	At    time.Time      `json:"at"`
	// Sender is the login of the person. It comes from the forge, as the number and the address of the issue do.
	Sender string `json:"sender"`
	Issue  int    `json:"issue"`
	URL    string `json:"url,omitempty"`
	// Reason is why no task was started.
	Reason string `json:"reason,omitempty"`
	// Task is the task, Outcome how it ended, and Delivery the address of its merge request.
	Task     TaskID  `json:"task,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"`
	Delivery string  `json:"delivery,omitempty"`
	// BudgetUSD is the budget of the task; 0 for none.
	BudgetUSD float64 `json:"budgetUsd,omitempty"`
	// OverBudget is true if it was refused for the budget of the day.
	OverBudget bool `json:"overBudget,omitempty"`
	// Told counts the comments on the issue. CommentError is why the last one was not written.
	Told         int    `json:"told,omitempty"`
	CommentError string `json:"commentError,omitempty"`
}

// HookAnswer is the answer to a forge.
type HookAnswer struct {
	// Task is the task that was started; empty if none was, and Reason says why.
	Task   TaskID `json:"task,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// StreamHook is the stream of the events of a repository's hook, whose ID is that of the repository.
const StreamHook StreamKind = "hook"

// The events of a StreamHook. Their data is the HookEvent.
const (
	EventHookReceived EventType = "hook.received" // a request was stored, or refused
	EventHookStarted  EventType = "hook.started"  // its task was created
	EventHookEnded    EventType = "hook.ended"    // its task ended
	EventHookComment  EventType = "hook.comment"  // a comment was written, or could not be
)
