package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Op names a step of the manager's work.
type Op string

const (
	OpCreate  Op = "create"  // from the request until the sandbox responds
	OpAdmit   Op = "admit"   // the wait for capacity on the host
	OpBoot    Op = "boot"    // a backend starts a guest
	OpClaim   Op = "claim"   // a pooled guest gets its sandbox
	OpRestore Op = "restore" // a guest starts from a saved state
	OpExec    Op = "exec"    // from the request for a command to its recorded end
	OpKill    Op = "kill"    // until it is proven that nothing is left
)

// Way is how a sandbox was created.
type Way string

const (
	WayPooled    Way = "pooled"
	WayCold      Way = "cold"
	WayWorkspace Way = "workspace" // never pooled
	WaySnapshot  Way = "snapshot"
)

// Step describes a step when it begins.
type Step struct {
	Op Op
	// Sandbox and Exec are empty if they do not exist yet.
	Sandbox api.SandboxID
	Exec    api.ExecID
	// After is what Watcher.Mark returned for the creation of the sandbox. It is set for
	// the first command only.
	After context.Context
}

// Outcome is how a step ended. Only the kind of Err may be recorded: its text can contain
// user data.
type Outcome struct {
	Sandbox   api.SandboxID
	Isolation string
	Way       Way
	Exit      *api.Exit
	Err       error
}

// Watcher observes what a manager does, for metrics and traces. Its methods are called from
// many goroutines and must not block.
type Watcher interface {
	// Begin is called when a step begins. Work with the returned context belongs to the
	// step. end is called once, when the step has ended.
	Begin(ctx context.Context, s Step) (_ context.Context, end func(Outcome))
	// Mark returns a context that identifies the step of ctx and holds nothing else of
	// it.
	Mark(ctx context.Context) context.Context
}
