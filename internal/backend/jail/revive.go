package jail

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/sandbox"
)

// Revive boots a guest from what Save wrote. See sandbox.Restorer.
func (b *Backend) Revive(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Prepared, error) {
	if b.cfg.Kernel == nil && spec.Workspace != nil && spec.Workspace.Upper != "" {
		return nil, api.Errorf(api.KindInvalid, "a durable workspace is no part of a snapshot; nothing starts from one with such a workspace")
	}
	files, err := b.image(dir, os.O_RDONLY)
	defer closeAll(files)
	if err != nil {
		return nil, err
	}
	if err := checkSizes(dir, files); err != nil {
		return nil, err
	}
	w, err := b.boot(ctx, spec, true, files)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Await begins what Revive does while the image is still to be written into dir. Only
// a kernel of its own can wait for its memory. See sandbox.Expecter.
func (b *Backend) Await(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Expected, error) {
	if b.cfg.Kernel == nil {
		return nil, api.Errorf(api.KindUnsupported, "capability %s is missing: the %s backend restores files alone", api.CapCheckpoint, b.cfg.Name)
	}
	files, err := b.image(dir, os.O_RDONLY|os.O_CREATE)
	defer closeAll(files)
	if err != nil {
		return nil, err
	}
	u, err := b.begin(ctx, spec, true, files, true)
	if err != nil {
		return nil, err
	}
	return &expected{u, dir}, nil
}

// expected is a guest whose kernel is being made and has no state yet.
type expected struct {
	unborn *unborn
	dir    string // of the image
}

// Restore gives it the state that was saved meanwhile.
func (e *expected) Restore(ctx context.Context) (sandbox.Prepared, error) {
	u := e.unborn
	if u.undo == nil {
		return nil, api.Errorf(api.KindConflict, "sandbox %s is restored already, or dropped", u.spec.ID)
	}
	files, err := u.m.b.image(e.dir, os.O_RDONLY)
	if err == nil {
		err = checkSizes(e.dir, files)
	}
	closeAll(files)
	if err != nil {
		u.drop()
		return nil, err
	}
	// A stage that failed by now is gone, and has said why: finish reads it.
	_ = u.conn.send([]byte(keeper.GoOn), nil)
	w, err := u.finish(ctx)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Drop ends it, unless it was restored.
func (e *expected) Drop() { e.unborn.drop() }

// image opens what a save writes.
func (b *Backend) image(dir string, how int) (files []*os.File, err error) {
	have := []string{filesName}
	if b.cfg.Kernel != nil {
		have = b.cfg.Kernel.Files()
	}
	for _, name := range have {
		f, err := os.OpenFile(filepath.Join(dir, name), how|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return files, api.Errorf(api.KindConflict, "the image lacks %s: %w", name, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
