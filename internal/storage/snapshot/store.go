package snapshot

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/storedir"
)

// what names the store in errors.
const what = "snapshots"

// Prefixes of what is being written, of what is being removed, and of the images
// that are needed for a moment.
const (
	aside     = "new-"
	gone      = "gone-"
	transient = "transient-"
	// fetched is the directory of what was fetched.
	fetched = "fetched"
)

// Rows is where a store keeps what exists. Its methods fail with KindNotFound and
// KindExists as their names suggest, and refuse to take a final row back to life.
type Rows interface {
	InsertSnapshot(ctx context.Context, s api.Snapshot) error
	UpdateSnapshot(ctx context.Context, s api.Snapshot) error
	// ChangeSnapshot changes a row in one transaction; change may be called again.
	ChangeSnapshot(ctx context.Context, id api.SnapshotID, change func(*api.Snapshot) error) (api.Snapshot, error)
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	// ListSnapshots returns the newest first; final ones too when all is set.
	ListSnapshots(ctx context.Context, all bool) ([]api.Snapshot, error)
	FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error)
	// ChangeTemplates stores what change returns, in one transaction. change gets the living
	// snapshots of an account that have a name, the newest first; it may be called again.
	ChangeTemplates(ctx context.Context, account string, change func([]api.Snapshot) ([]api.Snapshot, error)) error
}

// Config is what a store needs. Dir, Layers, Rows and Owner must be set.
type Config struct {
	// Dir is made with mode 0700 where it is missing.
	Dir string
	// Layers has what snapshots depend on.
	Layers *layer.Store
	Rows   Rows
	// Owner is the daemon run whose rows these are.
	Owner api.OwnerID
	// Elsewhere returns the name of the other host whose run an owner is or was; empty if there is none. It may be nil.
	Elsewhere func(context.Context, api.OwnerID) string
	// Artefacts keeps copies in an archive, which other hosts with the same rows open; nil if there is none.
	Artefacts *artefact.Store
	// ArchiveAll has Start store a copy of each snapshot.
	ArchiveAll bool
	// FetchedBytes is the maximum size of what was fetched from the archive; 0 is DefaultFetched.
	FetchedBytes int64
	// Space is the file system of Dir; nil means one without a floor.
	Space  *space.Space
	Now    func() time.Time
	Logger *slog.Logger
}

// Store keeps snapshots below one directory:
//
//	<id>/manifest.json, <id>/...   a snapshot
//	new-*, gone-*                  being written or removed, or left by a process that died
//	transient-<owner>/...          images of one run that are needed for a moment
//	fetched/<id>/...               a copy of a snapshot of the archive
//
// Its methods may be called from several goroutines.
type Store struct {
	cfg Config
	dir string

	// naming is held while a row with names of layers comes to be, so that anyone who
	// removes layers knows all names.
	naming sync.Mutex

	mu   sync.Mutex
	uses map[api.SnapshotID]*use
	sums sums
	// turns has a snapshot while it is fetched, archived or evicted.
	turns perkey.Locks

	// ctx ends with Close, which waits for work.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	saved  chan struct{} // has something when a snapshot became ready
	// scratch is the locked directory of this run; nil until it is needed.
	scratch *os.File

	// step is called as a save continues; tests die in it.
	step func(string)
}

// Open opens a store and removes what a process that is gone left half-written,
// half-removed or for a moment.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.Layers == nil || cfg.Rows == nil || cfg.Owner == "" {
		return nil, api.Errorf(api.KindInvalid, "snapshots: Dir, Layers, Rows and Owner are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.FetchedBytes = cmp.Or(cfg.FetchedBytes, DefaultFetched)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	dir, err := storedir.Open(what, cfg.Dir, os.RemoveAll, aside, gone, transient)
	if err != nil {
		return nil, err
	}
	if cfg.Artefacts != nil {
		if _, err := storedir.Open(what, filepath.Join(dir, fetched), os.RemoveAll, aside, gone); err != nil {
			return nil, err
		}
	}
	s := &Store{cfg: cfg, dir: dir, uses: map[api.SnapshotID]*use{}, saved: make(chan struct{}, 1), step: func(string) {}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Dir is where the store lives.
func (s *Store) Dir() string { return s.dir }

// Close ends what Start began, and removes the images of this run that were needed for a moment.
func (s *Store) Close() error {
	s.cancel()
	s.work.Wait()
	s.mu.Lock()
	f := s.scratch
	s.scratch = nil
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	defer f.Close()
	if err := os.RemoveAll(f.Name()); err != nil {
		return api.Errorf(api.KindInternal, "snapshots: %w", err)
	}
	return nil
}

// Scratch makes an empty directory for an image that is needed for a moment, of
// about need bytes. remove removes it with what was put into it.
func (s *Store) Scratch(need int64) (dir string, remove func() error, err error) {
	if err := s.cfg.Space.Check("an image of a sandbox", need); err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scratch == nil {
		if s.scratch, err = storedir.MakeLocked(s.dir, transient+string(s.cfg.Owner)+"-"); err != nil {
			return "", nil, api.Errorf(api.KindInternal, "snapshots: %w", err)
		}
	}
	if dir, err = os.MkdirTemp(s.scratch.Name(), ""); err != nil {
		return "", nil, api.Errorf(api.KindInternal, "snapshots: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// List names the snapshots that have a directory, sorted.
func (s *Store) List() ([]api.SnapshotID, error) {
	return storedir.List[api.SnapshotID](what, s.dir)
}

// Snapshot reads a row.
func (s *Store) Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	return s.cfg.Rows.Snapshot(ctx, id)
}

// Snapshots lists rows, the newest first: those that can be used or are being
// saved, or all.
func (s *Store) Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	return s.cfg.Rows.ListSnapshots(ctx, all)
}

// Stored returns what snapshots take on the disk. A file that several of them share counts once.
func (s *Store) Stored(ids []api.SnapshotID) (sum int64, err error) {
	seen := map[uint64]bool{}
	for _, id := range ids {
		entries, err := os.ReadDir(s.path(id))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is being saved is not there yet
			return 0, api.Errorf(api.KindInternal, "measure snapshot %s: %w", id, err)
		}
		for _, e := range entries {
			var st unix.Stat_t
			if unix.Lstat(filepath.Join(s.path(id), e.Name()), &st) == nil && !seen[st.Ino] {
				seen[st.Ino] = true
				sum += st.Blocks * 512
			}
		}
	}
	return sum, nil
}

// Template finds the snapshot that a name means to an account now: the account's
// own, or else the operator's, whose account is ""; KindNotFound for none.
func (s *Store) Template(ctx context.Context, account, name string) (api.Snapshot, error) {
	return s.named(ctx, name, func(owner string) bool { return owner == account }, func(owner string) bool { return owner == "" })
}

// LayersOf returns the layers of the snapshot that an account means by the name of a template or by
// an ID, and its ID. It fails with KindNotFound if there is none that the account may start from.
func (s *Store) LayersOf(ctx context.Context, account, name string) ([]layer.Digest, api.SnapshotID, error) {
	var row api.Snapshot
	var err error
	if id := api.SnapshotID(name); id.Valid() {
		row, err = s.Snapshot(ctx, id)
	} else {
		row, err = s.Template(ctx, account, name)
	}
	if err == nil && !row.StartsFor(account) {
		err = api.Errorf(api.KindNotFound, "template %.64q not found", name)
	}
	if err != nil {
		return nil, "", err
	}
	out := make([]layer.Digest, len(row.Layers))
	for i, d := range row.Layers {
		out[i] = layer.Digest(d)
	}
	return out, row.ID, nil
}

// named finds the newest template of a name, of the first owners that have one.
func (s *Store) named(ctx context.Context, name string, owners ...func(account string) bool) (api.Snapshot, error) {
	rows, err := s.cfg.Rows.ListSnapshots(ctx, false)
	if err != nil {
		return api.Snapshot{}, err
	}
	for _, of := range owners {
		for _, r := range rows { // the newest first
			if r.HasName(name) && r.State == api.SnapshotReady && of(r.Account) {
				return r, nil
			}
		}
	}
	return api.Snapshot{}, api.Errorf(api.KindNotFound, "template %.64q not found", name)
}

// Find returns the snapshot that a template's name, or a unique prefix of an id,
// stands for, of whichever account; of equal names the operator's own comes first.
func (s *Store) Find(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error) {
	r, err := s.named(ctx, nameOrPrefix, func(owner string) bool { return owner == "" }, func(string) bool { return true })
	if api.KindOf(err) == api.KindNotFound {
		return s.cfg.Rows.FindSnapshot(ctx, nameOrPrefix)
	}
	return r.ID, err
}

// Named calls f with the layers that snapshots depend on. Until f returns none is
// begun.
func (s *Store) Named(ctx context.Context, f func([]layer.Digest) error) error {
	s.naming.Lock()
	defer s.naming.Unlock()
	rows, err := s.cfg.Rows.ListSnapshots(ctx, false)
	if err != nil {
		return err
	}
	var named []layer.Digest
	for _, r := range rows {
		for _, d := range r.Layers {
			if !slices.Contains(named, layer.Digest(d)) {
				named = append(named, layer.Digest(d))
			}
		}
	}
	return f(named)
}
