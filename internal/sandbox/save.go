package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
)

// Saver is a Machine whose state can be saved.
type Saver interface {
	Machine

	// Save writes what the sandbox is at one instant into dir, an empty directory
	// that belongs to the caller, as at most 64 regular files and no directory, and lets it go on, also after an error. What is
	// in dir after an error is worth nothing.
	//
	// Where memory is saved, every stream of the link has ended when it returns;
	// commands go on, and their output can be read from its offset on new streams.
	//
	// Errors: KindUnsupported, naming the capability, for what cannot be saved on
	// this host or of this sandbox; KindUnavailable when the machine has ended;
	// KindExhausted when dir's disk is full; KindTimeout; KindInternal.
	Save(ctx context.Context, dir string, o SaveOptions) (Saved, error)

	// Release has a machine go on that a save left standing still. Of one that does
	// not stand it asks nothing. Errors: KindUnavailable when it has ended;
	// KindTimeout, KindInternal.
	Release(ctx context.Context) error
}

// SaveOptions say what to save.
type SaveOptions struct {
	// Files leaves memory and processes out.
	Files bool
	// Hold leaves the machine standing still from the instant on, until Kill ends it
	// or Release has it go on. One whose process dies before either goes on too, by
	// itself or with who adopts it: what is saved is worth nothing until it is on
	// record, and so the machine is not to end before. After an error it goes on.
	Hold bool
}

// Saved is what a save wrote.
type Saved struct {
	Kind api.SnapshotKind
	// Why says why memory was left out by a backend that cannot save it.
	Why string
	// Mark says what can restore it; without a Backend it is Restorer.Mark's.
	Mark api.ImageMark
	// Paused is how long the sandbox stood still.
	Paused time.Duration
}

// Restorer is a Backend whose machines are Savers, and that can start a machine
// from what one wrote.
type Restorer interface {
	Backend

	// Mark says which images of a kind can be restored here now. An image with
	// another mark must be refused, which is the caller's work.
	Mark(ctx context.Context, kind api.SnapshotKind) (api.ImageMark, error)

	// Restore boots a guest of the Spec with the state that Save wrote into dir,
	// whose layers and limits of memory and disk are the Spec's. The directory is
	// not changed and not needed any more once it returns. The guest waits for its
	// claim, which gives it the identity and the environment of the Spec: until
	// then what was running in the image stands still as far as its backend can
	// bring it to. Errors are those of Start, and leave nothing; KindConflict for
	// an image that is cut short or of another kind.
	Restore(ctx context.Context, spec Spec, dir string) (Prepared, error)
}

// Expecter is a Restorer that can begin with a machine before its state is written,
// so that only what needs the state comes after it.
type Expecter interface {
	Restorer

	// Expect begins what Restore does for what a Save is about to write into dir,
	// which may hold empty files of its names from now on. ctx bounds the beginning
	// alone. Errors are those of Start, and leave nothing.
	Expect(ctx context.Context, spec Spec, dir string) (Expected, error)
}

// Expected is a machine without a state. Whoever made it restores or drops it.
type Expected interface {
	// Restore goes on as Restorer's does; it is called once, after a Save that
	// succeeded. Errors leave nothing.
	Restore(ctx context.Context) (Prepared, error)
	// Drop ends what was begun. After Restore it does nothing.
	Drop()
}
