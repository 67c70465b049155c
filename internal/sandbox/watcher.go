package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Op names a step of the manager's work.
type Op string

const (
	OpCreate  Op = "create"  // from the request to a sandbox that answers
	OpAdmit   Op = "admit"   // the wait for room on the host
	OpBoot    Op = "boot"    // a backend starts a guest
	OpClaim   Op = "claim"   // a guest that was booted ahead gets its user
	OpRestore Op = "restore" // a guest starts from a saved state
	OpExec    Op = "exec"    // from the request for a command to its recorded end
	OpKill    Op = "kill"    // until it is proven that nothing is left
)

// Way says how a sandbox was come by.
type Way string

const (
	WayPooled    Way = "pooled"
	WayCold      Way = "cold"
	WayWorkspace Way = "workspace" // never pooled
	WaySnapshot  Way = "snapshot"
)

// Step is one step that begins.
type Step struct {
	Op Op
	// Sandbox and Exec are empty where there is none yet.
	Sandbox api.SandboxID
	Exec    api.ExecID
	// After is what Watcher.Mark gave for the sandbox's creation, of the first
	// command in it alone; nil otherwise.
	After context.Context
}

// Outcome is how a step ended. Err holds texts of users': it is for its kind alone.
type Outcome struct {
	Sandbox   api.SandboxID
	Isolation string
	Way       Way
	Exit      *api.Exit
	Err       error
}

// Watcher sees what a manager does, for metrics and traces. Its methods are called
// from many goroutines, and return at once.
type Watcher interface {
	// Begin is told of a step. What hangs on the context that it gives is part of
	// the step; end is called once.
	Begin(ctx context.Context, s Step) (_ context.Context, end func(Outcome))
	// Mark keeps of a context no more than what is needed to find the step in it
	// again.
	Mark(ctx context.Context) context.Context
}
