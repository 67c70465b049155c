package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Adopter is a Backend whose machines outlive the process that started them.
type Adopter interface {
	Backend

	// Adopt takes over the machine of a sandbox from a process that has ended. It must
	// not be called for a sandbox that this process runs.
	//
	// Errors: KindNotFound if the machine has ended or never existed; KindConflict if
	// the running processes are not those that were started; KindUnsupported,
	// KindTimeout, KindInternal. An error leaves the machine unchanged; Reclaim destroys
	// it.
	Adopt(ctx context.Context, id api.SandboxID) (Adopted, error)
}

// Adopted is a machine that was taken over.
type Adopted struct {
	// Machine is a Leaver.
	Machine Machine
	// Spec is what it was started with, without the environment.
	Spec Spec
	// Paused reports whether its processes are frozen.
	Paused bool
}

// Leaver is a Machine that this process can release while it runs, for an Adopter.
type Leaver interface {
	Machine

	// Leave releases everything that this process holds of the machine, which continues
	// to run. It closes the link; no other method may be called afterwards. It fails
	// with KindUnavailable if the machine has ended.
	Leave(ctx context.Context) error
}

// Reclaimer is a backend that can find its leftovers: the IDs of sandboxes whose directories
// or cgroups exist.
type Reclaimer interface {
	Orphans(ctx context.Context) ([]api.SandboxID, error)
}
