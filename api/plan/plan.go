package plan

import (
	"time"

	"hortus.dev/api"
)

// State is where a plan stands.
type State string

const (
	// Planning: a model divides the request into items.
	Planning State = "planning"
	// Proposed: a person reads the items, may change them, and approves.
	Proposed State = "proposed"
	// Queued: others have to end first, which may change the same files.
	Queued State = "queued"
	// Running: items are worked on.
	Running State = "running"
	// Paused: what runs ends, and nothing begins.
	Paused State = "paused"
	// Done: nothing runs. An item that failed can be tried again, with which the plan runs again.
	Done State = "done"
)

// ItemState is where an item stands.
type ItemState string

const (
	// Pending: it waits for the items that it needs, for its turn, or for an answer.
	Pending ItemState = "pending"
	// InProgress: an agent works on it, or its result waits for its merge.
	InProgress ItemState = "in_progress"
	// Completed: its commit is on the plan's branch.
	Completed ItemState = "completed"
	// Skipped: an item that it needs failed, or the plan was canceled before it began.
	Skipped ItemState = "skipped"
	// Failed: it has no verified result.
	Failed ItemState = "failed"
)

// Phase is what happens to an item that is in progress.
type Phase string

const (
	// Works: an agent works on it.
	Works Phase = "works"
	// Merges: its verified result waits for its merge, or is merged.
	Merges Phase = "merges"
	// Checks: the gate runs on the merged result.
	Checks Phase = "checks"
	// Asks: it needs files that it may not change. The planner answers, or a person if there is a question.
	Asks Phase = "asks"
)

// Bounds of plans.
const (
	// MaxItems is how many items a plan has.
	MaxItems = 200
	// MaxGlobs is how many globs touches and creates of an item have, each.
	MaxGlobs = 100
	// MaxRequest is the longest request of an item, in bytes.
	MaxRequest = 16 << 10
	// MaxParallel is how many items of a plan are worked on at a time.
	MaxParallel = 50
	// DefaultParallel is how many that are if the plan does not say.
	DefaultParallel = 4
	// MaxPlans is how many plans of an account are not done.
	MaxPlans = 50
	// MaxTries is how often an item is worked on, those included that continue it after a conflict or an amendment.
	MaxTries = 5
)

// UntilID is the id of the item with which a plan ends whose task has a command Until: it needs all others, and new agents continue the
// whole until the command passes. No agent is started if it passes at once.
const UntilID = "until"

// Item is a part of a plan.
type Item struct {
	// ID is its name in the plan: 1 to 40 lower-case letters, digits and "-".
	ID string `json:"id" yaml:"id"`
	// Title says in a line what it is; the default is the first line of the request.
	Title string `json:"title,omitempty" yaml:"title,omitempty"`
	// Request is what its agent is asked to do.
	Request string `json:"request" yaml:"request"`
	// Needs are the items that must be completed before it begins.
	Needs []string `json:"needs,omitempty" yaml:"needs,omitempty"`
	// Touches are globs of the files that it may change; the default is every file. Two items with a common file must be ordered by
	// needs. Each glob matches a file of the repository, or is one of Creates.
	Touches []string `json:"touches,omitempty" yaml:"touches,omitempty"`
	// Creates are globs of files that are not there yet and that it may create. They belong to Touches.
	Creates []string `json:"creates,omitempty" yaml:"creates,omitempty"`
	// Acceptance is a shell command that must pass on its result, beside the gate of the repository; empty for none.
	Acceptance string `json:"acceptance,omitempty" yaml:"acceptance,omitempty"`
	// Context names documents that its agent gets; empty for those of the plan.
	Context []string `json:"context,omitempty" yaml:"context,omitempty"`
	// Agent and Model are those of the plan if they are empty.
	Agent string `json:"agent,omitempty" yaml:"agent,omitempty"`
	Model string `json:"model,omitempty" yaml:"model,omitempty"`
	// Minutes is how long it is expected to take; 0 if nobody knows.
	Minutes int `json:"minutes,omitempty" yaml:"minutes,omitempty"`
}

// Try is one task on an item.
type Try struct {
	Task api.TaskID `json:"task"`
	// Base is the commit of the plan's branch that it works on, and Start the commit with earlier work on the item that it continues.
	Base  string `json:"base"`
	Start string `json:"start,omitempty"`
	// Why is why there is another try: a conflict, a failed check, files that were granted, or that somebody asked for it.
	Why     string      `json:"why,omitempty"`
	Outcome api.Outcome `json:"outcome,omitempty"`
	// Stopped is why the passes of the item until ended.
	Stopped api.StopReason `json:"stopped,omitempty"`
	// Head is its verified commit.
	Head string `json:"head,omitempty"`
	// Merged is Head on the plan's branch, and Check the task that runs the gate on it.
	Merged string     `json:"merged,omitempty"`
	Check  api.TaskID `json:"check,omitempty"`
	// Conflicts are the files that could not be merged.
	Conflicts []string  `json:"conflicts,omitempty"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// Amendment is a request of an item for files that it may not change.
type Amendment struct {
	Paths []string `json:"paths"`
	Why   string   `json:"why,omitempty"`
	// Answer is "granted" or "denied"; empty while it waits. By says who answered: the planner's model, a person or the file policy.
	Answer string `json:"answer,omitempty"`
	By     string `json:"by,omitempty"`
	// Reason is why, if it is not a person who answered.
	Reason string `json:"reason,omitempty"`
}

// Progress is an item with what came of it.
type Progress struct {
	Item
	State ItemState `json:"state"`
	// Phase is what happens now, if it is in progress.
	Phase Phase `json:"phase,omitempty"`
	// Why is the cause of the state: what it waits for, or why it failed or was skipped.
	Why string `json:"why,omitempty"`
	// Question is what a person has to decide.
	Question   string      `json:"question,omitempty"`
	Tries      []Try       `json:"tries,omitempty"`
	Amendments []Amendment `json:"amendments,omitempty"`
	// Commit is its commit on the plan's branch.
	Commit string `json:"commit,omitempty"`
	// Review is what people and checks said of the merge request, for an item that answers it. Its agent gets it as a document: as data.
	Review string `json:"review,omitempty"`
	// Gate is the evidence: how the gate ended on the merged result.
	Gate      string    `json:"gate,omitempty"`
	Usage     api.Usage `json:"usage,omitzero"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// Last is its last try; nil if there is none.
func (p *Progress) Last() *Try {
	if n := len(p.Tries); n > 0 {
		return &p.Tries[n-1]
	}
	return nil
}

// Ended reports whether nothing happens to it any more by itself.
func (p *Progress) Ended() bool {
	return p.State == Completed || p.State == Skipped || p.State == Failed
}

// Create requests a plan.
type Create struct {
	// Task is what the task of each item is made from: its request is that of the plan, and its budget that of all items together.
	// It is about one repository. Its command Until is that of the whole: see UntilID.
	Task api.CreateTask `json:"task"`
	// Items are the plan; without any, the model of the task divides the request.
	Items []Item `json:"items,omitempty"`
	// Parallel is how many items are worked on at a time; the default is DefaultParallel.
	Parallel int `json:"parallel,omitempty"`
	// Approve waits for a person before items are worked on.
	Approve bool `json:"approve,omitempty"`
	// Stacked delivers a merge request for each completed item, each on that of the item before it.
	Stacked bool `json:"stacked,omitempty"`
	// Follow looks at the merge requests regularly once they are open: comments of people who may write to the repository, and failed
	// checks, become an item of the plan, whose result is delivered too. FollowRounds is how often; the default is DefaultFollowRounds.
	Follow       bool `json:"follow,omitempty"`
	FollowRounds int  `json:"followRounds,omitempty"`
}

// Edit replaces the items of a plan. Those that have begun must be the same.
type Edit struct {
	Items []Item `json:"items"`
	// Version is that of the plan which was read; 0 for any.
	Version int `json:"version,omitempty"`
}

// Retry tries items again that failed, with those that were skipped because of them.
type Retry struct {
	// Item is the one to try again; empty for all.
	Item string `json:"item,omitempty"`
	// Message is added to its request.
	Message string `json:"message,omitempty"`
}

// Replan has the planner divide again what is not completed.
type Replan struct {
	// Message says what should be different; it is added to the request of the plan for the planner.
	Message string `json:"message,omitempty"`
	// Approve waits for a person before the new items are worked on.
	Approve bool `json:"approve,omitempty"`
}

// Answer answers the amendment that an item waits for.
type Answer struct {
	Item  string `json:"item"`
	Grant bool   `json:"grant"`
}

// Plan is a request that is divided into items.
type Plan struct {
	ID    api.PlanID `json:"id"`
	State State      `json:"state"`
	// Why is the cause of the state.
	Why string `json:"why,omitempty"`
	// Outcome is set if it is done: verified if all items are completed.
	Outcome api.Outcome `json:"outcome,omitempty"`
	// Version counts the changes of the items.
	Version int `json:"version"`
	// Task and Parallel are as in Create; the request of the task is that of the plan.
	Task     api.CreateTask `json:"task"`
	Parallel int            `json:"parallel"`
	// Commit is what the plan began from, found by the branch Base. Branch is the plan's, and Head its last commit.
	Commit string `json:"commit,omitempty"`
	Base   string `json:"base,omitempty"`
	Branch string `json:"branch"`
	Head   string `json:"head,omitempty"`
	// Counts are the items by their state. Items are the items, in the answer about one plan only.
	Counts map[ItemState]int `json:"counts"`
	Items  []Progress        `json:"items,omitempty"`
	// Planner is the model that divided the request; empty if the caller did. Rejected are the reasons why items of its could not be
	// taken.
	Planner  string   `json:"planner,omitempty"`
	Rejected []string `json:"rejected,omitempty"`
	// Checked is the task that ran the gate on the whole result. Its diff is that of the plan.
	Checked api.TaskID `json:"checked,omitempty"`
	// Delivered is what became of the delivery.
	Delivered *api.Delivery `json:"delivered,omitempty"`
	// Stacked is as in Create, and Stack are the deliveries of the items then. Delivered is the last of them.
	Stacked bool           `json:"stacked,omitempty"`
	Stack   []api.Delivery `json:"stack,omitempty"`
	// Follow is set if the merge requests are followed, or were.
	Follow    *Follow      `json:"follow,omitempty"`
	Receipt   *api.Receipt `json:"receipt,omitempty"`
	Error     *api.Error   `json:"error,omitempty"`
	Usage     api.Usage    `json:"usage,omitzero"`
	Account   string       `json:"account,omitempty"`
	Key       api.KeyID    `json:"key,omitempty"`
	Owner     api.OwnerID  `json:"owner,omitempty"`
	CreatedAt time.Time    `json:"createdAt"`
	StartedAt time.Time    `json:"startedAt,omitzero"`
	EndedAt   time.Time    `json:"endedAt,omitzero"`
}

// Stream is the kind of a plan's log of events.
const Stream api.StreamKind = "plan"

// The events of a plan. The events of the work itself are those of the tasks of its items.
const (
	EventCreated   api.EventType = "plan.created"   // Plan, without its items
	EventPlanned   api.EventType = "plan.planned"   // PlannedEvent: items were proposed, accepted or not
	EventState     api.EventType = "plan.state"     // StateEvent
	EventItem      api.EventType = "plan.item"      // ItemEvent: an item changed its state or its phase
	EventEdited    api.EventType = "plan.edited"    // EditedEvent
	EventAmendment api.EventType = "plan.amendment" // AmendmentEvent: an item asked for files, or was answered
	EventFinished  api.EventType = "plan.finished"  // Plan, without its items: nothing runs any more; there is another one after each retry
)

// PlannedEvent reports that items were proposed for a request.
type PlannedEvent struct {
	Try   int      `json:"try"`             // from 1
	Items []string `json:"items,omitempty"` // their IDs
	// Refused is why the items cannot be taken; empty if they are.
	Refused string `json:"refused,omitempty"`
}

// StateEvent reports that a plan changed its state.
type StateEvent struct {
	State State  `json:"state"`
	Why   string `json:"why,omitempty"`
}

// ItemEvent reports where an item stands, and why.
type ItemEvent struct {
	Item   string     `json:"item"`
	State  ItemState  `json:"state"`
	Phase  Phase      `json:"phase,omitempty"`
	Why    string     `json:"why,omitempty"`
	Task   api.TaskID `json:"task,omitempty"`
	Commit string     `json:"commit,omitempty"`
}

// AmendmentEvent reports that an item asked for files, or that it was answered, by whom and why.
type AmendmentEvent struct {
	Item string `json:"item"`
	Amendment
}

// EditedEvent reports that a person, or another call of the planner, changed the items.
type EditedEvent struct {
	Version int      `json:"version"`
	Items   []string `json:"items"` // the IDs of all items of this version
}
