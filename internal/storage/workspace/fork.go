package workspace

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Fork makes a copy of a workspace that nobody uses: KindConflict otherwise. The copy lies on
// the same layers and has the same quota; n says the rest. The cost is that of what was
// written above the layers: its content is shared until it changes where the file system
// can, else copied.
func (s *Store) Fork(ctx context.Context, id api.WorkspaceID, n New) (api.Workspace, error) {
	l, err := s.Lease(ctx, id)
	if err != nil {
		return api.Workspace{}, err
	}
	// While it is leased nobody removes it.
	defer l.Release()
	w := s.record(n)
	w.Parent, w.Layers, w.QuotaBytes = id, l.rec.Layers, l.rec.QuotaBytes
	from, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return api.Workspace{}, api.Errorf(api.KindInternal, "fork workspace %s: %w", id, err)
	}
	defer unix.Close(from)
	return s.insert(ctx, w, func(upper *os.File) error {
		_, err := s.copyInto(ctx, from, upper)
		return err
	})
}

// copyInto copies an upper layer into an empty directory, beside which it makes and removes
// another one.
func (s *Store) copyInto(ctx context.Context, from int, to *os.File) (Usage, error) {
	links := filepath.Join(filepath.Dir(to.Name()), "links")
	if err := os.Mkdir(links, 0o700); err != nil {
		return Usage{}, err
	}
	d, err := os.Open(links)
	if err != nil {
		return Usage{}, err
	}
	defer d.Close()
	u, err := s.copyUpper(ctx, from, int(to.Fd()), int(d.Fd()))
	if err != nil {
		return u, err
	}
	return u, os.RemoveAll(links)
}
