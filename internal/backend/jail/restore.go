package jail

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/sandbox"
)

// Restore boots a guest from an image. See sandbox.Restorer.
func (b *Backend) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Prepared, error) {
	if b.cfg.Kernel == nil && spec.Workspace != nil && spec.Workspace.Upper != "" {
		return nil, api.Errorf(api.KindInvalid, "a snapshot cannot be restored with a durable workspace: snapshots do not contain one")
	}
	files, err := image.Open(dir, b.imageFiles(), os.O_RDONLY)
	defer image.Close(files)
	if err != nil {
		return nil, err
	}
	if err := image.CheckSizes(dir, files); err != nil {
		return nil, err
	}
	w, err := b.boot(ctx, launch.Request{Spec: spec, Waits: true, Image: files})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// BeginRestore begins what Restore does before the image is written into dir. It needs a
// kernel of the sandbox's own, which can wait for its memory. See sandbox.Expecter.
func (b *Backend) BeginRestore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Expected, error) {
	if b.cfg.Kernel == nil {
		return nil, api.Errorf(api.KindUnsupported, "capability %s is missing: the %s backend restores files only", api.CapCheckpoint, b.cfg.Name)
	}
	files, err := image.Open(dir, b.imageFiles(), os.O_RDONLY|os.O_CREATE)
	defer image.Close(files)
	if err != nil {
		return nil, err
	}
	s, err := b.begin(ctx, launch.Request{Spec: spec, Waits: true, Image: files, Held: true})
	if err != nil {
		return nil, err
	}
	return &expected{s, dir}, nil
}

// expected is a guest whose kernel waits for its memory.
type expected struct {
	start *starting
	dir   string // of the image
}

// Restore lets the kernel read the image, which was written meanwhile.
func (e *expected) Restore(ctx context.Context) (sandbox.Prepared, error) {
	s := e.start
	if s.undo == nil {
		return nil, api.Errorf(api.KindConflict, "sandbox %s is already restored or dropped", s.m.id)
	}
	files, err := image.Open(e.dir, s.m.b.imageFiles(), os.O_RDONLY)
	if err == nil {
		err = image.CheckSizes(e.dir, files)
	}
	image.Close(files)
	if err != nil {
		s.undo.run()
		return nil, err
	}
	// A stage that has failed has sent the reason, which finish reads.
	_ = s.child.Send([]byte(keeper.Proceed), nil)
	w, err := s.finish(ctx)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Drop ends the guest, unless it was restored.
func (e *expected) Drop() { e.start.undo.run() }

// imageFiles are the names of the files of an image.
func (b *Backend) imageFiles() []string {
	if b.cfg.Kernel != nil {
		return b.cfg.Kernel.Files()
	}
	return []string{image.FilesName}
}

// filesMark is the mark of images of files: any guest on any kernel can restore them.
func (b *Backend) filesMark() api.ImageMark { return api.ImageMark{Backend: b.Name()} }

// FilesMark is the mark of the images that Save makes of files.
func (b *Backend) FilesMark(kind api.SnapshotKind) (api.ImageMark, error) {
	if kind != api.SnapshotFiles {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "the %s backend supports snapshots of files only, not of kind %q (capability %s)", b.Name(), kind, api.CapCheckpoint)
	}
	return b.filesMark(), nil
}

// restoreError returns why the files of an image could not be restored.
func restoreError(id api.SandboxID, s *child.StepError) error {
	err := fmt.Errorf("sandbox %s: %w", id, s)
	switch s.Errno {
	case unix.EBADMSG:
		return api.Errorf(api.KindConflict, "%w", err)
	case unix.ENOSPC, unix.EDQUOT:
		return api.Errorf(api.KindExhausted, "%w", err).WithHint("Give it a disk of the same size as the saved one.")
	}
	return api.Errorf(api.KindInternal, "%w", err)
}
