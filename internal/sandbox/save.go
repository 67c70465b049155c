package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
)

// Saver is a Machine whose state can be saved.
type Saver interface {
	Machine

	// Save writes the state of the sandbox at one instant into dir, an empty directory
	// of the caller, as up to 64 regular files without directories. Then it resumes the
	// machine, also after an error. After an error the content of dir is undefined.
	//
	// If memory is saved, every stream of the link has ended when Save returns. Commands
	// continue, and new streams can read their output from its offset.
	//
	// Errors: KindUnsupported, with the capability, if this host cannot save it or the
	// sandbox cannot be saved; KindUnavailable if the machine has ended; KindExhausted
	// if the disk of dir is full; KindTimeout; KindInternal.
	Save(ctx context.Context, dir string, o SaveOptions) (Saved, error)

	// Release resumes a machine that a save with Hold left paused. It does nothing if
	// the machine runs. Errors: KindUnavailable if it has ended; KindTimeout,
	// KindInternal.
	Release(ctx context.Context) error
}

// SaveOptions are options of Save.
type SaveOptions struct {
	// Files saves files only, without memory and processes.
	Files bool
	// CopyMemory makes the saved state refer to no other one, and what is restored from it
	// have memory of its own from the start. Otherwise memory may be shared until it is
	// written.
	CopyMemory bool
	// Fork says that the saved state is needed for a moment, in this process, until
	// Saved.Done: it may refer to the memory of the machine instead of containing it.
	Fork bool
	// Hold leaves the machine paused until Kill or Release. If this process ends before
	// either, the machine resumes, by itself or when it is adopted: a saved state is
	// valid only once it is recorded, so the machine must not end before that. After an
	// error the machine resumes.
	Hold bool
	// Standstill, if it is not nil, is called once the state is written, while no process of the sandbox runs:
	// what is outside of the state, as a durable workspace is, can be copied for the same instant. Its
	// error is that of the save. Without it a machine with a durable workspace is not saved
	// (KindUnsupported), and its state can be restored only with a workspace that has the same files.
	Standstill func(ctx context.Context) error
}

// Saved describes what a save wrote.
type Saved struct {
	Kind api.SnapshotKind
	// Why is the reason why the backend saved files only, if it cannot save memory.
	Why string
	// Mark identifies what can restore it. If its Backend is empty, it is that of
	// Restorer.Mark.
	Mark api.ImageMark
	// Paused is how long the sandbox was paused.
	Paused time.Duration
	// Done ends the use of a state that was saved for a fork. It may be nil.
	Done func()
}

// Restorer is a Backend whose machines are Savers, and that can start a machine from what
// a Saver wrote.
type Restorer interface {
	Backend

	// Mark returns the mark of images of a kind that can be restored on this host now.
	// The caller must refuse an image with another mark.
	Mark(ctx context.Context, kind api.SnapshotKind) (api.ImageMark, error)

	// Restore boots a guest of the Spec with the state that Save wrote into dir. Layers
	// and the limits of memory and disk of the Spec must be those of the saved sandbox. If
	// that one had a durable workspace, the Spec must have a copy of it, which was made at
	// the standstill of the save, with the same Access and View.
	// The directory is not changed, and not needed after the return. The guest waits for
	// its claim, which sets the identity and the environment of the Spec; until then the
	// restored processes are paused if the backend can do so. Errors are those of Start,
	// and KindConflict for an image that is truncated or of another kind; nothing is
	// left after one.
	Restore(ctx context.Context, spec Spec, dir string) (Prepared, error)
}

// Expecter is a Restorer that can begin a restore before the state is written, so that only
// the work that needs the state remains afterwards.
type Expecter interface {
	Restorer

	// Expect begins a restore of what a Save is going to write. ctx limits this call only.
	// Errors are those of Start; nothing is left after one.
	Expect(ctx context.Context, spec Spec) (Expected, error)
}

// Expected is a machine without a state. Its creator restores or drops it.
type Expected interface {
	// Restore completes the restore of the state in dir as Restorer.Restore does. It is
	// called once, after the Save succeeded. Nothing is left after an error.
	Restore(ctx context.Context, dir string) (Prepared, error)
	// Drop ends the machine. After Restore it does nothing.
	Drop()
}
