package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/storedir"
)

const (
	// MaxLayers bounds the layers of one workspace: each is a descriptor on the
	// way into a sandbox, and a look at every open of a file.
	MaxLayers = 16
	// maxRecord bounds a workspace.json while it is read, in bytes.
	maxRecord = 64 << 10

	// what names the store in errors.
	what = "workspaces"

	// Prefixes of what is being written, and of what is being removed.
	aside = "new-"
	gone  = "gone-"

	// Names in a workspace's directory.
	Upper      = "upper"
	Work       = "work"
	recordName = "workspace.json"
	holderName = "holder"
)

// Rows is where a store keeps what exists. Its methods fail with KindNotFound and
// KindExists as their names suggest.
type Rows interface {
	InsertWorkspace(ctx context.Context, w api.Workspace) error
	UpdateWorkspace(ctx context.Context, w api.Workspace) error
	// ChangeWorkspace changes a row in one transaction; change may be called again.
	ChangeWorkspace(ctx context.Context, id api.WorkspaceID, change func(*api.Workspace) error) (api.Workspace, error)
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	// ListWorkspaces returns those that are not removed.
	ListWorkspaces(ctx context.Context) ([]api.Workspace, error)
}

// Config is what a store needs.
type Config struct {
	// Dir is made with mode 0700 where it is missing.
	Dir string
	// Layers resolves what workspaces lie on.
	Layers *layer.Store
	// Space is the file system of Dir; nil means one without a floor.
	Space *space.Space
	// Rows may be nil for a store without a database, as in the tests of backends.
	Rows Rows
	// Owner is the daemon run whose rows these are.
	Owner api.OwnerID
	// Elsewhere returns the name of the other node that an owner is or was a run of; empty if it is none's. It is nil where there are no nodes.
	Elsewhere func(ctx context.Context, owner api.OwnerID) string
	// Continued returns what other node continues the session or the task of a workspace whose row is not this owner's; empty for none. It may be nil.
	Continued func(ctx context.Context, w api.Workspace) string
	// Released, unless it is nil, is called when a lease of a workspace has ended. It must not wait.
	Released func(id api.WorkspaceID)
	Now      func() time.Time
	Logger   *slog.Logger
}

// Store keeps workspaces below one directory:
//
//	<id>/upper, work      of the overlay; written by guests
//	<id>/workspace.json   the record
//	<id>/holder           the process that it was last mounted for
//	<id>/beside           files that came with it from another node
//	new-*, gone-*         being made or removed, or left by a process that died
//
// Its methods may be called from several goroutines.
type Store struct {
	cfg Config
	dir string

	// claims are the layers whose names get into a record.
	claims claims
	// leases are those of this process.
	leases leases
	// sizes are those of workspaces that nobody changes, and the last ones of others.
	sizes sizes
	// recording has a workspace while SetRemote changes its record: who wants its lock waits for that.
	recording perkey.Locks
	// starting are the pending workspaces of this process.
	starting sync.Map
	// What removes leftovers in the background, one after the other, until Close.
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	removing chan struct{}
	// remove is RemoveAll, but in tests.
	remove func(ctx context.Context, dir string) error

	// opening is held while modes of a guest's directories are changed; see meter.
	opening sync.Mutex
}

// Open opens a store. What a process that is gone left half-made or half-removed is no
// workspace; it is removed in the background, until Close.
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, RemoveAll) }

func open(ctx context.Context, cfg Config, remove func(ctx context.Context, dir string) error) (*Store, error) {
	if cfg.Dir == "" || cfg.Layers == nil {
		return nil, api.Errorf(api.KindInvalid, "workspaces: Dir and Layers are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	dir, left, err := storedir.Leftovers(what, cfg.Dir, aside, gone)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, dir: dir, claims: claims{kept: map[layer.Digest]*layer.Lease{}},
		removing: make(chan struct{}, 1), remove: remove,
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, path := range left {
		s.later(path, func() error {
			return storedir.Sweep(path, func(path string) error { return s.remove(s.ctx, path) })
		})
	}
	return s, nil
}

// RemoveAll removes a directory with all that a guest may have put into it.
func RemoveAll(ctx context.Context, dir string) error { return beneath.RemoveAll(ctx, dir) }

// later removes a directory that is no workspace any more in the background.
func (s *Store) later(path string, remove func() error) {
	s.work.Go(func() {
		select {
		case s.removing <- struct{}{}:
			defer func() { <-s.removing }()
		case <-s.ctx.Done():
		}
		if s.ctx.Err() != nil {
			return // the next store continues
		}
		if err := remove(); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Error("cannot remove what is left of a workspace; the next daemon tries again", "path", path, "error", err)
		}
	})
}

// Close ends the removals in the background and waits for them. The next store continues them.
func (s *Store) Close() {
	s.cancel()
	s.work.Wait()
}

// Dir is where the store lives.
func (s *Store) Dir() string { return s.dir }

// Lower finds a layer that a workspace can lie on.
func Lower(layers *layer.Store, d layer.Digest) (layer.Tree, error) {
	tree, err := layers.Resolve(d)
	if err != nil {
		return tree, err
	}
	return tree, plain(d, tree)
}

// plain refuses a layer that a workspace cannot lie on.
func plain(d layer.Digest, tree layer.Tree) error {
	if len(tree.Mounts) > 0 {
		return api.Errorf(api.KindInvalid, "layer %s has further mounts; a workspace needs plain directories", d)
	}
	return nil
}

// Scratch makes an empty directory on the disk of the store, which remove removes
// with whatever was put into it.
func (s *Store) Scratch() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(s.dir, aside)
	if err != nil {
		return "", nil, api.Errorf(api.KindInternal, "workspaces: %w", err)
	}
	return dir, func() error { return RemoveAll(context.Background(), dir) }, nil
}

func (s *Store) path(id api.WorkspaceID) string { return filepath.Join(s.dir, string(id)) }

// openDir opens a workspace's directory.
func (s *Store) openDir(id api.WorkspaceID) (*os.File, error) {
	if !id.Valid() {
		return nil, api.Errorf(api.KindInvalid, "workspace id %q is malformed", string(id))
	}
	f, err := os.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "workspace %s does not exist", id)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "workspace %s: %w", id, err)
	}
	return f, nil
}

// Get reads a workspace's record: what it was made with. Its state is the row's.
func (s *Store) Get(id api.WorkspaceID) (api.Workspace, error) {
	d, err := s.openDir(id)
	if err != nil {
		return api.Workspace{}, err
	}
	defer d.Close()
	rec, err := readRecord(d, id)
	return rec.Workspace, err
}

// record is what the directory of a workspace has about it.
type record struct {
	api.Workspace
	// Shared is how many of its layers, the top ones, have what was written in it, or in those that
	// it was forked from, before a fork. They are what it changes, as its upper layer is.
	Shared int `json:"shared,omitempty"`
	// Below is what those layers hold.
	Below Usage `json:"below,omitzero"`
	// Pending is true if it is for the child of a fork that does not run yet.
	Pending bool `json:"pending,omitempty"`
	// Remote is set if it is shared between hosts; then it has a Version too.
	Remote *Remote `json:"remote,omitempty"`
}

// base are the layers below what was written.
func (r record) base() []string { return r.Layers[:len(r.Layers)-r.Shared] }

// readRecord reads and checks the record in a workspace's directory. It is the
// host's own, but a disk can fail.
func readRecord(dir *os.File, id api.WorkspaceID) (w record, err error) {
	fd, err := beneath.Open(int(dir.Fd()), recordName, unix.O_RDONLY)
	if err != nil {
		return w, api.Errorf(api.KindInternal, "workspace %s: its record: %w", id, err)
	}
	f := os.NewFile(uintptr(fd), recordName)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil {
		w, err = parseRecord(b)
	}
	if err == nil && w.ID != id {
		err = fmt.Errorf("it belongs to %q", string(w.ID))
	}
	if err != nil {
		return w, api.Errorf(api.KindInternal, "workspace %s: its record: %w", id, err)
	}
	return w, nil
}

func parseRecord(b []byte) (w record, err error) {
	if len(b) > maxRecord {
		return w, fmt.Errorf("longer than %d bytes", maxRecord)
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	if !w.ID.Valid() || len(w.Layers) == 0 || len(w.Layers) > MaxLayers || w.Shared < 0 || w.Shared >= len(w.Layers) || w.Below.Bytes < 0 || w.Below.Files < 0 {
		return w, errors.New("it is malformed")
	}
	for _, d := range w.Layers {
		if !layer.Digest(d).Valid() {
			return w, fmt.Errorf("layer %q is malformed", d)
		}
	}
	if (w.Remote == nil) != (w.Version == nil) || w.Remote != nil && !w.Remote.ID.Valid() {
		return w, errors.New("what it says of other hosts is malformed")
	}
	return w, nil
}

// List names the workspaces that are here, sorted.
func (s *Store) List() ([]api.WorkspaceID, error) {
	return storedir.List[api.WorkspaceID](what, s.dir)
}
