package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/storedir"
)

// New describes a workspace that is to be made.
type New struct {
	// Layers are what it lies on, the lowest first: 1 to MaxLayers.
	Layers []layer.Digest
	// The other fields are as in api.Workspace.
	Task    api.TaskID
	Session api.SessionID
	Name    string
	Account string
	Quota   int64
	Keep    bool
	// Pending says that it belongs to nobody until Keep. If this process ends before, the next Recover removes it.
	Pending bool
	// Parent is what it was made of, if that is not the one that it is forked from.
	Parent api.WorkspaceID
	// Remote and Version are set for one that is shared between hosts.
	Remote  *Remote
	Version *api.WorkspaceVersion
	// Archived is the state in the archive that has the same files; nil if none is known.
	Archived *api.WorkspaceArchive
}

// record is that of a new workspace, without its layers.
func (s *Store) record(n New) record {
	return record{Workspace: api.Workspace{
		ID: api.NewWorkspaceID(), State: api.WorkspaceIdle, Task: n.Task, Session: n.Session, Name: n.Name, Account: n.Account,
		QuotaBytes: n.Quota, Keep: n.Keep, Owner: s.cfg.Owner, CreatedAt: s.cfg.Now().UTC(), Version: n.Version, Archived: n.Archived, Parent: n.Parent,
	}, Pending: n.Pending, Remote: n.Remote}
}

// Create is Make for the workspace of a task, which may be empty.
func (s *Store) Create(ctx context.Context, task api.TaskID, layers []layer.Digest) (api.WorkspaceID, error) {
	w, err := s.Make(ctx, New{Task: task, Layers: layers})
	return w.ID, err
}

// Make makes an empty workspace. Its layers have to be in the layer store, and stay there
// while the workspace does.
//
// Errors: KindInvalid for layers that cannot be stacked, KindNotFound for one that
// is not there, KindExhausted if the disk is full.
func (s *Store) Make(ctx context.Context, n New) (api.Workspace, error) {
	return s.MakeOf(ctx, n, Files{})
}

// Files are what was written in a workspace, from another host.
type Files struct {
	// Root has what was written over the layers; empty for nothing. Beside has the files for the directory Beside, and is moved there.
	Root, Beside string
	// Bytes is at most how much that is.
	Bytes int64
}

// MakeOf is Make with files.
func (s *Store) MakeOf(ctx context.Context, n New, f Files) (api.Workspace, error) {
	if c := len(n.Layers); c == 0 || c > MaxLayers {
		return api.Workspace{}, api.Errorf(api.KindInvalid, "a workspace over %d layers: use 1 to %d", c, MaxLayers)
	}
	w := s.record(n)
	for _, d := range n.Layers {
		w.Layers = append(w.Layers, string(d))
	}
	if f.Root == "" {
		return s.insert(ctx, w, 0, nil)
	}
	return s.insert(ctx, w, f.Bytes, func(upper *os.File) error { return s.take(ctx, f, upper) })
}

// take puts files into the directory of a new workspace.
func (s *Store) take(ctx context.Context, f Files, upper *os.File) error {
	from, err := os.Open(f.Root)
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := s.copyInto(ctx, int(from.Fd()), upper, false); err != nil {
		return err
	}
	return os.Rename(f.Beside, filepath.Join(filepath.Dir(upper.Name()), Beside))
}

// insert stores the row of a new workspace of about need bytes and makes its directory; fill, unless it is nil,
// fills its upper layer.
func (s *Store) insert(ctx context.Context, w record, need int64, fill func(upper *os.File) error) (api.Workspace, error) {
	done, err := s.cfg.Space.ReserveOf(ctx, w.Account, "workspace "+string(w.ID), need)
	if err != nil {
		return api.Workspace{}, err
	}
	defer done()
	release, err := s.claim(w.Layers)
	if err != nil {
		return api.Workspace{}, err
	}
	defer release()
	// The row comes first: whatever a crash leaves behind has a row that leads to it.
	if s.cfg.Rows != nil {
		if err := s.cfg.Rows.InsertWorkspace(ctx, w.Workspace); err != nil {
			return api.Workspace{}, err
		}
	}
	if w.Pending {
		s.starting.Store(w.ID, true)
	}
	rec := w
	rec.Archived = nil // the row has it
	err = s.make(rec, fill, func(tmp string) error {
		return unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, s.path(w.ID), unix.RENAME_NOREPLACE)
	})
	if err != nil {
		s.starting.Delete(w.ID)
		s.row(w, func(w *api.Workspace) { w.State, w.Reason = api.WorkspaceRemoved, "it could not be created" })
		return api.Workspace{}, s.diskError(err, "create workspace "+string(w.ID))
	}
	return w.Workspace, nil
}

// diskError says which disk is full, if that is the reason of an error.
func (s *Store) diskError(err error, doing string) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return api.Errorf(api.KindExhausted, "%s: no space left on the disk of %s: %w", doing, s.dir, err).
			WithHint("free disk space: hortus gc, or remove workspaces: hortus workspace rm")
	}
	return api.Errorf(api.KindOf(err), "%s: %w", doing, err).WithHint("%s", api.HintOf(err))
}

// make writes a workspace's directory aside; place renames it into place. The directory is
// locked until then.
func (s *Store) make(w record, fill func(upper *os.File) error, place func(tmp string) error) error {
	held, err := storedir.MakeLocked(s.dir, aside)
	if err != nil {
		return err
	}
	defer unlock(held)
	tmp := held.Name()
	err = func() error {
		for name, mode := range map[string]os.FileMode{Upper: 0o755, Work: 0o700} {
			p := filepath.Join(tmp, name)
			if err := os.Mkdir(p, mode); err != nil {
				return err
			}
			if err := os.Chmod(p, mode); err != nil {
				return err
			}
		}
		// The directory itself is what /workspace shows.
		if err := Own(filepath.Join(tmp, Upper)); err != nil {
			return err
		}
		if fill != nil {
			upper, err := os.Open(filepath.Join(tmp, Upper))
			if err != nil {
				return err
			}
			defer upper.Close()
			if err := fill(upper); err != nil {
				return err
			}
		}
		b, err := json.MarshalIndent(w, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tmp, recordName), b, 0o600); err != nil {
			return err
		}
		if err := unix.Syncfs(int(held.Fd())); err != nil {
			return err
		}
		return place(tmp)
	}()
	if err != nil {
		return errors.Join(err, RemoveAll(context.Background(), tmp))
	}
	return storedir.Sync(s.dir)
}

// claims are leases of layers whose names get into a record. Who collects the names reads one
// record after the other, while others write theirs: a record that comes too late for it keeps
// its leases until the names were used.
type claims struct {
	mu sync.Mutex
	// readers is how many calls of Named run, kept what is released when the last one ends.
	readers int
	kept    map[layer.Digest]*layer.Lease
}

// claim leases the layers that a record is about to name, so that nobody removes them. The
// record is in place, or will never be, when release is called.
func (s *Store) claim(digests []string) (release func(), err error) {
	leases := make(map[layer.Digest]*layer.Lease, len(digests))
	release = func() { s.claims.release(leases) }
	for _, text := range digests {
		d := layer.Digest(text)
		if leases[d] != nil {
			continue
		}
		tree, l, err := s.cfg.Layers.Lease(d)
		if err == nil {
			leases[d] = l
			err = plain(d, tree)
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// release releases leases, or keeps them until the last call of Named that runs has ended: it
// may have read the records before the one that they are for.
func (c *claims) release(leases map[layer.Digest]*layer.Lease) {
	c.mu.Lock()
	if c.readers > 0 {
		for d, l := range leases {
			if c.kept[d] == nil {
				c.kept[d] = l
				delete(leases, d)
			}
		}
	}
	c.mu.Unlock()
	for _, l := range leases {
		l.Release()
	}
}

// read notes a call of Named, until done is called.
func (c *claims) read() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers++
	return func() {
		var over map[layer.Digest]*layer.Lease
		c.mu.Lock()
		if c.readers--; c.readers == 0 {
			over, c.kept = c.kept, map[layer.Digest]*layer.Lease{}
		}
		c.mu.Unlock()
		for _, l := range over {
			l.Release()
		}
	}
}

// Named calls f with the layers that workspaces lie on. Workspaces are made meanwhile; the layers
// that a new one names are leased until f returns, so f must remove nothing that is leased. A
// record that cannot be read fails it: what it names is not known.
func (s *Store) Named(f func(named []layer.Digest) error) error {
	defer s.claims.read()()
	ids, err := s.List()
	if err != nil {
		return err
	}
	var named []layer.Digest
	for _, id := range ids {
		w, err := s.Get(id)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		for _, d := range w.Layers {
			named = append(named, layer.Digest(d))
		}
	}
	return f(named)
}
