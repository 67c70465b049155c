package admin

import (
	"time"

	"hortus.dev/api"
)

// Fleet is the nodes that share a database.
type Fleet struct {
	// Initialized is true if the fleet has its certificate authority: nodes can reach each other.
	Initialized bool `json:"initialized"`
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
	// BeatAt is when it renewed its lease, and SilentMS the time since then, by the clock of the database.
	BeatAt   time.Time        `json:"beatAt"`
	SilentMS int64            `json:"silentMs"`
	Capacity api.NodeCapacity `json:"capacity"`
}

// DrainNode has a node take nothing new.
type DrainNode struct {
	// Force ends the sandboxes of the node, too. They lose their memory and all files that are not in a workspace.
	Force bool `json:"force,omitempty"`
}

// DrainedNode is the answer: what is still on the node.
type DrainedNode struct {
	Node FleetNode `json:"node"`
	// Sandboxes stay until they end. Ended counts those that Force ended.
	Sandboxes []api.SandboxID `json:"sandboxes"`
	Ended     int             `json:"ended,omitempty"`
}
