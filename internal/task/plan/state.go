package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/store"
)

// moves are the states of a plan that may follow one.
var moves = map[words.State][]words.State{
	words.Planning: {words.Proposed, words.Queued, words.Done},
	words.Proposed: {words.Queued, words.Done},
	words.Queued:   {words.Running, words.Paused, words.Done},
	words.Running:  {words.Paused, words.Done},
	words.Paused:   {words.Queued, words.Done},
	words.Done:     {words.Queued, words.Planning},
}

// itemMoves are the states of an item that may follow one.
var itemMoves = map[words.ItemState][]words.ItemState{
	words.Pending:    {words.InProgress, words.Skipped},
	words.InProgress: {words.InProgress, words.Pending, words.Completed, words.Failed},
	words.Failed:     {words.Pending},
	words.Skipped:    {words.Pending},
}

// record is a plan as it is stored, without its items.
type record struct {
	words.Plan
	// By requested it: the work is done on behalf of that principal.
	By api.Principal `json:"by"`
	// Approve is true if a person has to approve the items, and Canceling if the plan is being canceled.
	Approve   bool `json:"approve,omitempty"`
	Canceling bool `json:"canceling,omitempty"`
	// Again is set while the planner divides again what is not completed, and Note is what a person said about it.
	Again bool   `json:"again,omitempty"`
	Note  string `json:"note,omitempty"`
	// QueuedAt is when it was to begin, or to begin again after its end.
	QueuedAt time.Time `json:"queuedAt,omitzero"`
	// Arrived counts the results that came to the merge queue.
	Arrived int `json:"arrived,omitempty"`
	// How is the request of the last delivery by hand, which rounds repeat; nil for that of the plan.
	How *api.DeliverTask `json:"how,omitempty"`
	// Seen are the remarks that were handled or ignored, by the number of the merge request and their IDs. Looked is the commit whose
	// failed checks were handled, and Pushed are the commits that were delivered. Failures counts looks that failed, since the last
	// that did not.
	Seen     []string `json:"seen,omitempty"`
	Looked   string   `json:"looked,omitempty"`
	Pushed   []string `json:"pushed,omitempty"`
	Failures int      `json:"failures,omitempty"`
	// Final is the task that runs the gate on Judged, the last commit, and Passed what came of it.
	Final  api.TaskID `json:"final,omitempty"`
	Judged string     `json:"judged,omitempty"`
	Passed bool       `json:"passed,omitempty"`
	// Archived names the commits of the plan in the archive, from which another node continues.
	Archived string `json:"archived,omitempty"`
}

// item is an item as it is stored.
type item struct {
	words.Progress
	// Arrived is its place in the merge queue.
	Arrived int `json:"arrived,omitempty"`
	// Message is added to the request of its next task, and Start is the commit that the task continues.
	Message string `json:"message,omitempty"`
	Start   string `json:"start,omitempty"`
	// Granted are globs that it may change beside its touches.
	Granted []string `json:"granted,omitempty"`
	// Repairs counts the conflicts and the failed checks.
	Repairs int `json:"repairs,omitempty"`
}

// openPlan is a plan that somebody works on, under its lock.
type openPlan struct {
	record
	items []item
	// changed are the items that are to be stored, by their index, and facts the events that are appended with them.
	changed map[int]bool
	facts   []fact
	now     time.Time
}

type fact struct {
	what api.EventType
	data any
}

// tell notes an event, which is stored with the rows.
func (o *openPlan) tell(t api.EventType, data any) { o.facts = append(o.facts, fact{t, data}) }

// move changes the state of the plan.
func (o *openPlan) move(to words.State, why string) error {
	if !slices.Contains(moves[o.State], to) {
		return api.Errorf(api.KindConflict, "plan %s is %s", o.ID, o.State).WithHint("hortus plan show %s", o.ID)
	}
	if to == words.Queued && o.State != words.Paused {
		o.QueuedAt = o.now
	}
	o.State, o.Why = to, why
	o.tell(words.EventState, words.StateEvent{State: to, Why: why})
	return nil
}

// set changes the state and the phase of the n-th item. A move that the table does not have is a defect of this package.
func (o *openPlan) set(n int, to words.ItemState, phase words.Phase, why string) *item {
	it := &o.items[n]
	if !slices.Contains(itemMoves[it.State], to) {
		panic(fmt.Sprintf("item %s of plan %s cannot go from %s to %s", it.ID, o.ID, it.State, to))
	}
	it.State, it.Phase, it.Why = to, phase, why
	if it.Ended() {
		it.Phase, it.EndedAt = "", o.now
	}
	if to == words.InProgress && it.StartedAt.IsZero() {
		it.StartedAt = o.now
	}
	o.touch(n)
	e := words.ItemEvent{Item: it.ID, State: to, Phase: it.Phase, Why: why, Commit: it.Commit}
	if t := it.Last(); t != nil && to == words.InProgress {
		e.Task = t.Task
		if phase == words.Checks {
			e.Task = t.Check
		}
	}
	o.tell(words.EventItem, e)
	return it
}

// touch notes that the n-th item is to be stored.
func (o *openPlan) touch(n int) {
	if o.changed == nil {
		o.changed = map[int]bool{}
	}
	o.changed[n] = true
}

// index is the place of an item.
func (o *openPlan) index(id string) int {
	return slices.IndexFunc(o.items, func(it item) bool { return it.ID == id })
}

// count counts the items by their states.
func (o *openPlan) count() map[words.ItemState]int {
	out := map[words.ItemState]int{}
	for i := range o.items {
		out[o.items[i].State]++
	}
	return out
}

// specs are the items as they were requested.
func (o *openPlan) specs() []words.Item {
	out := make([]words.Item, len(o.items))
	for i := range o.items {
		out[i] = o.items[i].Item
	}
	return out
}

// ids are the names of items.
func ids(items []words.Item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.ID
	}
	return out
}

// edited begins another version of the plan, whose items were changed.
func (o *openPlan) edited() {
	o.Version++
	o.tell(words.EventEdited, words.EditedEvent{Version: o.Version, Items: ids(o.specs())})
}

// rows returns the plan with its new events, and the changed items, as they are stored.
func (o *openPlan) rows(repository string) (p store.Plan, items []store.PlanItem, err error) {
	rec := o.record
	rec.Items, rec.Counts = nil, o.count()
	p = store.Plan{ID: o.ID, Account: o.Account, Repository: repository, Owner: o.Owner, Done: o.State == words.Done && !o.watched(), CreatedAt: o.CreatedAt, Items: len(o.items)}
	if p.Done {
		p.EndedAt = o.EndedAt
	}
	if p.Doc, err = json.Marshal(rec); err != nil {
		return p, nil, api.Errorf(api.KindInternal, "plan %s: %w", o.ID, err)
	}
	for _, f := range o.facts {
		data, err := json.Marshal(f.data)
		if err != nil {
			return p, nil, api.Errorf(api.KindInternal, "event %s of plan %s: %w", f.what, o.ID, err)
		}
		p.Events = append(p.Events, api.Event{Stream: stream(o.ID), At: o.now.Truncate(time.Microsecond), Type: f.what, Data: data})
	}
	for n := range o.changed {
		doc, err := json.Marshal(o.items[n])
		if err != nil {
			return p, nil, api.Errorf(api.KindInternal, "item %d of plan %s: %w", n+1, o.ID, err)
		}
		items = append(items, store.PlanItem{N: n + 1, Doc: doc})
	}
	return p, items, nil
}

// read decodes a plan without its items.
func read(row store.Plan) (*openPlan, error) {
	o := &openPlan{}
	if err := json.Unmarshal(row.Doc, &o.record); err != nil {
		return nil, api.Errorf(api.KindInternal, "the row of plan %s: %w", row.ID, err)
	}
	o.Owner = row.Owner
	return o, nil
}

// summary is a plan as its events have it: without its items, which are many, and change.
func (o *openPlan) summary() words.Plan {
	p := o.Plan
	p.Items, p.Counts = nil, o.count()
	return p
}

// view is a plan as callers see it.
func (o *openPlan) view() words.Plan {
	p := o.Plan
	p.Counts = o.count()
	for i := range o.items {
		p.Items = append(p.Items, o.items[i].Progress)
	}
	return p
}
