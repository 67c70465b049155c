package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
)

// maxShared is the maximum number of layers of a workspace that were made by forks. One more makes
// one layer of all of them.
const maxShared = 4

// little is up to what size a fork copies an upper layer: a layer of so little is not worth a
// place in the stack.
func little() Usage { return Usage{Files: 256, Bytes: 8 << 20} }

// uppers are the directories with what was written in a workspace, the top one first: its upper
// layer and the layers that it shares with forks.
type uppers struct {
	dirs  []int
	upper int
	view  *view
}

func (w *uppers) close() {
	unix.Close(w.upper)
	w.view.close()
}

// written opens the upper layer and the top n of the layers.
func (l *Lease) written(n int) (*uppers, error) {
	upper, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return nil, err
	}
	all := digests(l.rec.Layers)
	v, err := openView(l.s.cfg.Layers, all[len(all)-n:])
	if err != nil {
		unix.Close(upper)
		return nil, err
	}
	return &uppers{append([]int{upper}, v.roots...), upper, v}, nil
}

// share makes a layer of what was written in a workspace since the last fork, and an empty upper
// layer above it. Unlike a seal, what is in the layer still counts as written. The cost is one name
// for each file; the content stays where it is. Until done is called the layer is leased, and the old
// upper layer is there.
//
// It is errNoLinks if the file system cannot, or if there is no place for a layer. A crash leaves the
// workspace as it was, and perhaps a layer that nobody names, or as it is to be. The name of
// the layer is random: until a record names it, its files are also those of an upper layer.
func (l *Lease) share(ctx context.Context) (done func(), err error) {
	s := l.s
	rec := l.rec
	rec.Layers = slices.Clone(rec.Layers)
	merged := 0
	if rec.Shared >= maxShared || len(rec.Layers) >= MaxLayers {
		merged = rec.Shared
		rec.Layers, rec.Shared, rec.Below = rec.base(), 0, Usage{}
	}
	if len(rec.Layers) >= MaxLayers {
		return nil, errNoLinks
	}
	w, err := l.written(merged)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var random [32]byte
	rand.Read(random[:])
	digest := layer.Digest("sha256-" + hex.EncodeToString(random[:]))
	_, err = s.cfg.Layers.Put(ctx, digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		// It is not packed, which would read and write everything: what is packed lies in dir itself.
		root, u, err := l.linkInto(ctx, w.dirs, rec.Layers, filepath.Join(dir, "shared"))
		rec.Below.Files, rec.Below.Bytes = rec.Below.Files+u.Files, rec.Below.Bytes+u.Bytes
		return layer.Tree{Root: root}, err
	})
	if err != nil {
		return nil, err
	}
	release, err := s.claim([]string{string(digest)})
	if err != nil {
		return nil, err
	}
	rec.Layers, rec.Shared = append(rec.Layers, string(digest)), rec.Shared+1
	old, err := s.replace(l, rec)
	if err != nil {
		release()
		return nil, err
	}
	return func() {
		release()
		s.later(old, func() error { return s.remove(s.ctx, old) })
	}, nil
}

// linkInto makes a directory with a directory of what others show above layers.
func (l *Lease) linkInto(ctx context.Context, from []int, layers []string, dir string) (root string, u Usage, err error) {
	root = filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", u, err
	}
	f, err := os.Open(root)
	if err != nil {
		return "", u, err
	}
	defer f.Close()
	base, err := openView(l.s.cfg.Layers, digests(layers))
	if err != nil {
		return "", u, err
	}
	defer base.close()
	u, err = link(ctx, &l.s.opening, from, base.roots, int(f.Fd()))
	return root, u, err
}

// Fork makes a copy of a workspace that nobody uses: KindConflict otherwise. The copy lies on
// the same layers and has the same quota; n says the rest. What was written since the last fork
// becomes a layer of both; a little of it, or where the file system has no hard links, is copied.
func (s *Store) Fork(ctx context.Context, id api.WorkspaceID, n New) (api.Workspace, error) {
	l, err := s.Lease(ctx, id)
	if err != nil {
		return api.Workspace{}, err
	}
	// While it is leased nobody removes it.
	defer l.Release()
	out, err := l.fork(ctx, n)
	if err != nil {
		return out, s.diskError(err, "fork workspace "+string(id))
	}
	return out, nil
}

func (l *Lease) fork(ctx context.Context, n New) (api.Workspace, error) {
	s := l.s
	from, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return api.Workspace{}, err
	}
	defer unix.Close(from)
	fill := func(upper *os.File) error {
		_, err := s.copyInto(ctx, from, upper)
		return err
	}
	u, err := s.measure(ctx, from, Usage{}, little())
	if err != nil {
		return api.Workspace{}, err
	}
	if u.Over(little()) != "" {
		done, err := l.share(ctx)
		switch {
		case err == nil:
			defer done()
			fill = func(upper *os.File) error { return copyTop(from, upper) }
		case !errors.Is(err, errNoLinks):
			return api.Workspace{}, err
		}
	}
	return s.insert(ctx, l.sibling(n), fill)
}

// sibling is the record of a workspace over the same layers.
func (l *Lease) sibling(n New) record {
	w := l.s.record(n)
	w.Parent, w.QuotaBytes = cmp.Or(n.Parent, l.rec.ID), l.rec.QuotaBytes
	w.Layers, w.Shared, w.Below = l.rec.Layers, l.rec.Shared, l.rec.Below
	return w
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
