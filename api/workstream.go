package api

import "time"

// Overlap is what happens if others of the account change the same files of a repository: plans, tasks or sessions.
type Overlap string

const (
	// OverlapWait waits until nobody does who began earlier, or works already.
	OverlapWait Overlap = "wait"
	// OverlapRefuse fails.
	OverlapRefuse Overlap = "refuse"
	// OverlapAllow works at the same time.
	OverlapAllow Overlap = "allow"
)

// Check refuses what is no policy: KindInvalid. Empty is the default of what it belongs to.
func (o Overlap) Check() error {
	switch o {
	case "", OverlapWait, OverlapRefuse, OverlapAllow:
		return nil
	}
	return Errorf(KindInvalid, "%.40q is no policy for overlaps: use wait, refuse or allow", string(o))
}

// The kinds of workstreams.
const (
	WorkstreamPlan    = "plan"
	WorkstreamTask    = "task"
	WorkstreamSession = "session"
)

// Workstream is somebody who changes files of a repository now, or waits for that: a plan, a task that belongs to no plan, or a session whose
// turn runs.
type Workstream struct {
	Kind string `json:"kind"`
	// ID is that of the plan or the task, or the key of the session.
	ID string `json:"id"`
	// Title is the first line of the request.
	Title string `json:"title"`
	// Repository is its address.
	Repository string `json:"repository"`
	// Touches are globs of the files.
	Touches []string `json:"touches"`
	// Waits is true if it has not begun, or has to begin again. WaitsFor names the others that it waits for, by kind and ID.
	Waits    bool      `json:"waits,omitempty"`
	WaitsFor []string  `json:"waitsFor,omitempty"`
	Since    time.Time `json:"since"`
}

// Name is the kind and the ID.
func (w Workstream) Name() string { return w.Kind + " " + w.ID }

// OverlapEvent reports that others change the same files as a task: it waits for them, or works at the same time.
type OverlapEvent struct {
	Waits bool         `json:"waits,omitempty"`
	With  []Workstream `json:"with"`
}
