package jail

import (
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/sandbox"
)

// Restore boots a guest from an image. See sandbox.Backend.
func (b *Backend) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	if b.cfg.Kernel == nil && spec.Workspace != nil && spec.Workspace.Upper != "" {
		return nil, api.Errorf(api.KindInvalid, "a snapshot cannot be restored with a durable workspace: snapshots do not contain one")
	}
	if b.cfg.Kernel != nil {
		x, err := b.Expect(ctx, spec)
		if err != nil {
			return nil, err
		}
		return x.Restore(ctx, dir)
	}
	files, err := image.Open(dir, []string{image.FilesName}, os.O_RDONLY)
	defer image.Close(files)
	if err != nil {
		return nil, err
	}
	w, err := b.boot(ctx, launch.Request{Spec: spec, Waits: true, Files: files[0], Image: dir})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Expect begins what Restore does before the image is written. It needs a
// kernel of the sandbox's own, which can wait for its memory. See sandbox.Backend.
func (b *Backend) Expect(ctx context.Context, spec sandbox.Spec) (sandbox.Expected, error) {
	if b.cfg.Kernel == nil {
		return nil, api.Errorf(api.KindUnsupported, "capability %s is missing: the %s backend restores files only", api.CapCheckpoint, b.cfg.Name)
	}
	s, err := b.begin(ctx, launch.Request{Spec: spec, Waits: true, Memory: true})
	if err != nil {
		return nil, err
	}
	return &guestRestore{s}, nil
}

// guestRestore is a guest whose kernel waits for its memory.
type guestRestore struct {
	start *guestStart
}

// Restore lets the kernel read the image, which was written meanwhile.
func (e *guestRestore) Restore(ctx context.Context, dir string) (sandbox.Machine, error) {
	s := e.start
	if s.undo == nil {
		return nil, api.Errorf(api.KindConflict, "sandbox %s is already restored or dropped", s.m.id)
	}
	if err := s.sendImage(dir); err != nil {
		s.undo.run()
		return nil, err
	}
	w, err := s.finish(ctx)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// sendImage opens the files of an image, and sends them to the keeper with the call that reads them.
func (s *guestStart) sendImage(dir string) error {
	k := s.m.b.cfg.Kernel
	names := k.Files()
	bases, shared, err := image.ReadBases(dir)
	if err != nil {
		return err
	}
	var refer []string
	if shared && (k.Shared() || len(bases.Others) > 0) {
		refer = bases.Names()
		if err := image.Keep(dir, names[len(names)-1], bases, s.m.b.basesDir(s.m.id)); err != nil {
			return err
		}
		names = append(names, bases.Files()...)
	}
	files, err := image.Open(dir, names, os.O_RDONLY)
	defer image.Close(files)
	if err == nil {
		err = image.CheckSizes(dir, files)
	}
	if err != nil {
		return err
	}
	if refer != nil {
		held, err := s.m.b.held.open(dir, bases)
		defer held.Close()
		if err != nil {
			return err
		}
		files = inOrder(bases, files, held)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	// A stage that has failed has sent the reason, which finish reads.
	_ = s.child.Send(k.Restore(refer), fds)
	return nil
}

// inOrder returns the files of an image, those of its bases in the order of their names. on are those on
// the disk: first those that every image has.
func inOrder(b image.Bases, on []*os.File, held image.Held) []*os.File {
	first := len(on) - len(b.Files())
	out, on := slices.Clone(on[:first]), on[first:]
	for _, name := range b.Others {
		if f := held[name]; f != nil {
			out = append(out, f)
			continue
		}
		out, on = append(out, on[0]), on[1:]
	}
	return out
}

// Drop ends the guest, unless it was restored.
func (e *guestRestore) Drop() { e.start.undo.run() }

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
