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
	"sync"

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
		root, u, err := l.linkInto(ctx, w.dirs, rec.Layers, filepath.Join(dir, "shared"), false)
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

// linkInto makes a directory with a directory of what others show above layers. copies says whether what cannot be linked is copied.
func (l *Lease) linkInto(ctx context.Context, from []int, layers []string, dir string, copies bool) (root string, u Usage, err error) {
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
	u, err = link(ctx, &l.s.opening, from, base.roots, int(f.Fd()), copies)
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
		_, err := s.copyInto(ctx, from, upper, false)
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
	return s.insert(ctx, l.sibling(n), s.sizes.last(l.rec), func(upper *os.File) error {
		return errors.Join(fill(upper), s.keepBeside(l.rec.ID, filepath.Dir(upper.Name())))
	})
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
func (s *Store) copyInto(ctx context.Context, from int, to *os.File, portable bool) (Usage, error) {
	links := filepath.Join(filepath.Dir(to.Name()), "links")
	if err := os.Mkdir(links, 0o700); err != nil {
		return Usage{}, err
	}
	d, err := os.Open(links)
	if err != nil {
		return Usage{}, err
	}
	defer d.Close()
	u, err := s.copyUpper(ctx, from, int(to.Fd()), int(d.Fd()), portable)
	if err != nil {
		return u, err
	}
	return u, os.RemoveAll(links)
}

// leases are the active leases of this process.
type leases struct {
	mu  sync.Mutex
	all map[api.WorkspaceID]*Lease
}

func (a *leases) add(l *Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[api.WorkspaceID]*Lease{}
	}
	a.all[l.rec.ID] = l
}

// remove forgets a lease that is about to end, and waits for a copy of its files. No copy begins until done is called.
func (a *leases) remove(l *Lease) (done func()) {
	l.copying.Lock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[l.rec.ID] == l {
		delete(a.all, l.rec.ID)
	}
	return l.copying.Unlock
}

// hold returns the lease of a workspace, which does not end until release is called; nil if it has none here.
func (a *leases) hold(id api.WorkspaceID) (l *Lease, release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l = a.all[id]; l == nil || !l.copying.TryRLock() {
		return nil, nil
	}
	return l, l.copying.RUnlock
}

// Copyable is what a fork of a stopped workspace copies at most if its caller can do without it. More is for Fork, which
// makes a layer of it.
func Copyable() Usage { return Usage{Files: 4096, Bytes: 64 << 20} }

// Forkable is what a fork of a stopped workspace copies at most if its caller needs it.
func Forkable() Usage { return Usage{Files: 100_000, Bytes: 1 << 30} }

// StoppedFork is a fork of a workspace of which only the copy needs its sandbox to be stopped. It has a goroutine, for which Finish waits;
// Finish must be called.
type StoppedFork struct {
	cancel context.CancelFunc
	// begin is closed when the sandbox is paused, and copied when it need not any more.
	begin, copied, done chan struct{}
	once                sync.Once
	err                 error // of the copy
	made                api.Workspace
	failed              error
}

// BeginFork begins a Fork of a workspace that a sandbox of this process has, all of whose processes are stopped during Copy. What
// was written since the last Fork is copied: the files of a sandbox cannot become a layer. Finish fails with KindConflict if no
// sandbox has it, with KindExhausted if that is more than most.
func (s *Store) BeginFork(ctx context.Context, id api.WorkspaceID, n New, most Usage) *StoppedFork {
	ctx, cancel := context.WithCancel(ctx)
	f := &StoppedFork{cancel: cancel, begin: make(chan struct{}), copied: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.made, f.failed = s.forkStopped(ctx, f, id, n, most)
		f.over(f.failed)
	}()
	return f
}

// over says how the copy ended, the first time.
func (f *StoppedFork) over(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.copied)
	})
}

// Copy copies the files while all processes of the sandbox are stopped. It is called once.
func (f *StoppedFork) Copy() error {
	close(f.begin)
	<-f.copied
	return f.err
}

// Finish returns the fork. Without a Copy there is none.
func (f *StoppedFork) Finish() (api.Workspace, error) {
	select {
	case <-f.begin:
	default:
		f.cancel()
	}
	<-f.done
	f.cancel()
	return f.made, f.failed
}

func (s *Store) forkStopped(ctx context.Context, f *StoppedFork, id api.WorkspaceID, n New, most Usage) (api.Workspace, error) {
	l, release := s.leases.hold(id)
	if l == nil {
		return api.Workspace{}, api.Errorf(api.KindConflict, "no sandbox has workspace %s", id)
	}
	w, need := l.sibling(n), s.sizes.last(l.rec)
	release() // the sandbox may end before it is copied
	out, err := s.insert(ctx, w, need, func(upper *os.File) error {
		select {
		case <-f.begin:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := s.copyStopped(ctx, id, upper, most)
		f.over(err)
		return err
	})
	if err != nil {
		return out, s.diskError(err, "fork workspace "+string(id))
	}
	return out, nil
}

// copyStopped copies the upper layer of a workspace whose sandbox is paused.
func (s *Store) copyStopped(ctx context.Context, id api.WorkspaceID, to *os.File, most Usage) error {
	l, release := s.leases.hold(id)
	if l == nil {
		return api.Errorf(api.KindConflict, "no sandbox has workspace %s", id)
	}
	defer release()
	from, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	u, err := s.measure(ctx, from, Usage{}, most)
	if err != nil {
		return err
	}
	if over := u.Over(most); over != "" {
		return api.Errorf(api.KindExhausted, "workspace %s: %s were written since its last fork, too much to copy while a sandbox has it", id, over)
	}
	_, err = s.copyInto(ctx, from, to, false)
	return err
}

// KeepFork makes a pending workspace one that stays until somebody removes it, also while a sandbox of this process has it.
func (s *Store) KeepFork(ctx context.Context, id api.WorkspaceID) error {
	l, release := s.leases.hold(id)
	if l == nil {
		var err error
		if l, err = s.lease(id); err != nil {
			return err
		}
		release = func() { unlock(l.dir) }
	}
	defer release()
	rec := l.rec
	rec.Pending = false
	defer s.starting.Delete(id)
	return l.rewrite(rec, func(w *api.Workspace) { w.Keep = true })
}

// finishForks ends what owners that are gone have begun: a pending workspace that a sandbox has is kept, because its child runs, and
// the others are removed.
func (s *Store) finishForks(here []api.WorkspaceID, gone func(api.OwnerID) bool) error {
	var errs []error
	for _, id := range here {
		w, err := s.pendingFork(id)
		if err != nil || !w.Pending || w.Owner == s.cfg.Owner || !gone(w.Owner) {
			continue // what cannot be read stays: whose it is is not known
		}
		if l, release := s.leases.hold(id); l != nil {
			release()
			errs = append(errs, s.KeepFork(s.ctx, id))
			continue
		}
		// It may be in use by a sandbox that could not be taken over.
		if err := s.RemoveLater(id, "the child of a fork that it was made for did not start"); err != nil && api.KindOf(err) != api.KindConflict {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Store) pendingFork(id api.WorkspaceID) (record, error) {
	d, err := s.openDir(id)
	if err != nil {
		return record{}, err
	}
	defer d.Close()
	return readRecord(d, id)
}
