package api

// Models names a model for each role of the pipeline. An empty name leaves the
// Planner and the Coder to the model of all, and the Debugger to the Coder's.
type Models struct {
	Planner  string `json:"planner,omitempty"`
	Coder    string `json:"coder,omitempty"`
	Debugger string `json:"debugger,omitempty"`
	// Large is what a role moves to when its own model gets no further: when
	// it gives nothing usable or declines, and when a failure is of no known
	// category or its category comes again. Empty for none.
	Large string `json:"large,omitempty"`
	// Small writes summaries and answers questions of the agent of a repository, which does both itself if this is empty.
	Small string `json:"small,omitempty"`
}

// RoleCalls sums what one role asked of one model in a task.
type RoleCalls struct {
	Role  string `json:"role"`
	Model string `json:"model"`
	// Calls counts what was asked, Errors those that failed; MS is the time of
	// all, in milliseconds.
	Calls  int   `json:"calls"`
	Errors int   `json:"errors,omitempty"`
	MS     int64 `json:"ms"`
	Usage  Usage `json:"usage,omitzero"`
}

// EscalationEvent reports that a role moves to the larger model, and why. It stays
// there until the task ends. Attempt is 0 before the first.
type EscalationEvent struct {
	Attempt int    `json:"attempt,omitempty"`
	Of      int    `json:"of,omitempty"`
	Role    string `json:"role"`
	From    string `json:"from"`
	To      string `json:"to"`
	Why     string `json:"why"`

	Candidate int `json:"candidate,omitempty"`
}
