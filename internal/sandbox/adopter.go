package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Adopter is a Backend whose machines outlive the process that started them.
type Adopter interface {
	Backend

	// Adopt takes over the machine of a sandbox that a process started which is gone.
	// It must not be called for one that this process runs.
	//
	// Errors: KindNotFound when it has ended, or was never there; KindConflict when
	// what is there is not what was started; KindUnsupported, KindTimeout,
	// KindInternal. After one the machine is as it was; Reclaim destroys it.
	Adopt(ctx context.Context, id api.SandboxID) (Adopted, error)
}

// Adopted is a machine that was taken over.
type Adopted struct {
	// Machine is a Leaver.
	Machine Machine
	// Spec is what it was started with, but for its environment.
	Spec Spec
	// Paused says that its processes stand still.
	Paused bool
}

// Leaver is a Machine that a process can let go of while it runs; an Adopter takes it
// over.
type Leaver interface {
	Machine

	// Leave gives up everything that this process holds of the machine, which goes
	// on. Its link is closed; no other method may be called afterwards. An error of
	// KindUnavailable says that the machine has ended.
	Leave(ctx context.Context) error
}

// Reclaimer is a backend that can find what it left behind without being told:
// identifiers whose directories or cgroups exist.
type Reclaimer interface {
	Orphans(ctx context.Context) ([]api.SandboxID, error)
}
