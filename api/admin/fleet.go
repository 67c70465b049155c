package admin

import (
	"slices"
	"time"

	"hortus.dev/api"
)

// Fleet is the nodes that share a database.
type Fleet struct {
	// Initialized is true if the fleet has its certificate authority: nodes can reach each other.
	Initialized bool `json:"initialized"`
	// Already is true if the authority was there before the request to create it.
	Already bool `json:"already,omitempty"`
	// Self is the node that answers.
	Self  api.NodeID  `json:"self"`
	Nodes []FleetNode `json:"nodes"`
}

// FleetNode is one node of a fleet.
type FleetNode struct {
	ID   api.NodeID `json:"id"`
	Name string     `json:"name"`
	// Address is where other nodes reach it; empty if it has no listener for them.
	Address string        `json:"address,omitempty"`
	State   api.NodeState `json:"state"`
	// Gone is true if its lease has ended.
	Gone bool `json:"gone,omitempty"`
	// Unreached is why the node that answers cannot reach it, in a list of nodes; empty if it can, or if the node is gone.
	Unreached string `json:"unreached,omitempty"`
	// BeatAt is when it renewed its lease, and SilentMS the time since then, by the clock of the database.
	BeatAt   time.Time        `json:"beatAt"`
	SilentMS int64            `json:"silentMs"`
	Capacity api.NodeCapacity `json:"capacity"`
}

// DrainNode has a node take nothing new, and move its sandboxes to other nodes.
type DrainNode struct {
	// Force ends the sandboxes that cannot be moved. They lose their memory and all files that are not in a workspace.
	Force bool `json:"force,omitempty"`
}

// DrainedNode is the answer: what is still on the node, and what it moved since it drains.
type DrainedNode struct {
	Node FleetNode `json:"node"`
	// Already is true if the node was draining before this request.
	Already bool `json:"already,omitempty"`
	// Sandboxes are still on the node. Ended counts those that Force ended.
	Sandboxes []api.SandboxID `json:"sandboxes"`
	Ended     int             `json:"ended,omitempty"`
	// Moves says what becomes of each sandbox. It is empty if the node does not answer for itself.
	Moves []SandboxMove `json:"moves,omitempty"`
	// Work says what becomes of tasks, sessions and plans. It is empty if the node does not answer for itself.
	Work []WorkMove `json:"work,omitempty"`
}

// WorkMove is a task, a session or a plan that continues on another node. One of the three is set. Tasks that are turns or items are not listed.
type WorkMove struct {
	Task    api.TaskID    `json:"task,omitempty"`
	Session api.SessionID `json:"session,omitempty"`
	Plan    api.PlanID    `json:"plan,omitempty"`
	// Key is that of the session among those of its account.
	Key   string    `json:"key,omitempty"`
	State MoveState `json:"state"`
	// To is the name of the other node.
	To string `json:"to,omitempty"`
	// Reason is what it waits for, or why it stays.
	Reason string `json:"reason,omitempty"`
}

// Busy reports whether something is being moved, or is going to be without waiting for anything.
func (d DrainedNode) Busy() bool {
	return slices.ContainsFunc(d.Moves, func(m SandboxMove) bool { return m.State == MovePending || m.State == MoveRunning }) ||
		slices.ContainsFunc(d.Work, func(m WorkMove) bool { return m.State == MovePending && m.Reason == "" })
}

// Waits reports whether a task, a session or a plan is going to continue on another node.
func (d DrainedNode) Waits() bool {
	return slices.ContainsFunc(d.Work, func(m WorkMove) bool { return m.State == MovePending })
}

// MoveState is how far the move of a sandbox is.
type MoveState string

const (
	MovePending MoveState = "pending" // it is going to be moved
	MoveRunning MoveState = "moving"
	MoveDone    MoveState = "moved"
	MoveRefused MoveState = "stays" // it cannot be moved now; the node tries again
)

// SandboxMove is the move of one sandbox to another node.
type SandboxMove struct {
	Sandbox api.SandboxID `json:"sandbox"`
	State   MoveState     `json:"state"`
	// To is the name of the other node, and Resumed is true if the sandbox runs there. One that was paused stays paused.
	To      string `json:"to,omitempty"`
	Resumed bool   `json:"resumed,omitempty"`
	// AwayMS is how long it did not run.
	AwayMS int64 `json:"awayMs,omitempty"`
	// Reason is why it stays or waits, or why it does not run at the other node.
	Reason string `json:"reason,omitempty"`
}
