package api

import "time"

// WorkspaceState is where a workspace stands: idle until a sandbox or a reader has
// its lease, which makes it active; removed is final.
type WorkspaceState string

const (
	WorkspaceIdle    WorkspaceState = "idle"
	WorkspaceActive  WorkspaceState = "active"
	WorkspaceRemoved WorkspaceState = "removed"
)

// Workspace is durable file state over read-only layers.
type Workspace struct {
	ID    WorkspaceID    `json:"id"`
	State WorkspaceState `json:"state"`
	// Task is the task that it belongs to, if any.
	Task TaskID `json:"task,omitempty"`
	// Layers are the digests that it lies on, the lowest first.
	Layers    []string  `json:"layers"`
	Owner     OwnerID   `json:"owner,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Reason is why it was removed.
	Reason string `json:"reason,omitempty"`
}
