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

// step tells the watcher, where there is one.
func (m *Manager) step(ctx context.Context, s Step) (context.Context, func(Outcome)) {
	if m.cfg.Watcher == nil {
		return ctx, func(Outcome) {}
	}
	return m.cfg.Watcher.Begin(ctx, s)
}

// mark notes which step made a sandbox.
func (m *Manager) mark(ctx context.Context, l *live) {
	if m.cfg.Watcher != nil {
		born := m.cfg.Watcher.Mark(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.born = born
	}
}

// first gives, once, what mark noted.
func (l *live) first() (born context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	born, l.born = l.born, nil
	return born
}

// isolation names a wish's backend; empty where it was not made out.
func (w *wish) isolation() string {
	if w.backend == nil {
		return ""
	}
	return w.backend.Name()
}

// way is how a sandbox of a wish is come by that is not taken from the pool.
func (w *wish) way() Way {
	switch {
	case w.snapshot != nil:
		return WaySnapshot
	case w.workspace != nil:
		return WayWorkspace
	}
	return WayCold
}
