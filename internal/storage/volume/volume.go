package volume

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Bounds.
const (
	// MaxVolumes is the maximum number of volumes of an account.
	MaxVolumes = 100
	// MaxBytes bounds the files of a volume together, MaxFile one of them.
	MaxBytes = 10 << 30
	MaxFile  = 2 << 30
	// MaxEntries is the maximum number of files and directories of a volume. A list can have them all.
	MaxEntries = 20_000
	// maxUploads is how many files are written to a volume at a time.
	maxUploads = 16
)

// Rows is where the records of volumes are.
type Rows interface {
	// InsertVolume fails with KindExists if the account has one of that name, and with KindExhausted
	// if it has most already.
	InsertVolume(ctx context.Context, v api.Volume, most int) error
	Volume(ctx context.Context, id api.VolumeID) (api.Volume, error)
	// VolumesOf lists those of one account, ListVolumes all.
	VolumesOf(ctx context.Context, account string) ([]api.Volume, error)
	ListVolumes(ctx context.Context) ([]api.Volume, error)
	SetVolumeNode(ctx context.Context, id api.VolumeID, node api.NodeID) error
	RemoveVolume(ctx context.Context, id api.VolumeID) error
}

// Config is what a Store needs. All fields but Node, Now and Logger are required.
type Config struct {
	// Dir is made with mode 0700 if it is missing.
	Dir  string
	Rows Rows
	// Node is the node of a fleet whose directory this is; empty if there is no fleet.
	Node api.NodeID
	// CheckSpace refuses a write of so many bytes that the disk or the account has no space for.
	CheckSpace func(ctx context.Context, account, what string, bytes int64) error
	Now        func() time.Time // nil means time.Now
	Logger     *slog.Logger
}

// Store keeps volumes. Its methods may be called from several goroutines.
type Store struct {
	cfg  Config
	mu   sync.Mutex
	uses map[api.VolumeID]*use
}

// use is what is known of a volume that was used. mu is held while entries of the volume change.
type use struct {
	mu       sync.Mutex
	measured bool
	bytes    int64
	entries  int
	// What is being written, and is not part of the volume yet.
	uploads   int
	uploading int64
}

// aside is the directory of what is not part of a volume yet, or any more.
const aside = "aside"

// Open opens a store, and removes what a crash left.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{cfg: cfg, uses: map[api.VolumeID]*use{}}
	err := os.MkdirAll(cfg.Dir, 0o700)
	if err == nil {
		err = beneath.RemoveAll(ctx, s.path(aside))
	}
	if err == nil {
		err = os.Mkdir(s.path(aside), 0o700)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "volumes: %w", err)
	}
	return s, s.reconcile(ctx)
}

func (s *Store) path(name string) string { return filepath.Join(s.cfg.Dir, name) }

// reconcile removes directories that have no row, and logs which rows of this node have no directory. A volume from before there was a fleet
// becomes this node's if its directory is here.
func (s *Store) reconcile(ctx context.Context) error {
	rows, err := s.cfg.Rows.ListVolumes(ctx)
	if err != nil {
		return err
	}
	known, here := map[api.VolumeID]api.Volume{}, map[api.VolumeID]bool{}
	for _, v := range rows {
		known[v.ID] = v
	}
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return api.Errorf(api.KindInternal, "volumes: %w", err)
	}
	for _, e := range entries {
		id := api.VolumeID(e.Name())
		if !id.Valid() || !e.IsDir() {
			continue // not made by us
		}
		v, ok := known[id]
		if here[id] = true; !ok {
			if err := beneath.RemoveAll(ctx, s.path(e.Name())); err != nil {
				return api.Errorf(api.KindInternal, "remove the files of a removed volume: %w", err)
			}
			s.cfg.Logger.Info("removed the files of a volume that does not exist", "volume", id)
		} else if v.Node == "" && s.cfg.Node != "" {
			if err := s.cfg.Rows.SetVolumeNode(ctx, id, s.cfg.Node); err != nil {
				return err
			}
		}
	}
	for _, v := range rows {
		if v.Node == s.cfg.Node && !here[v.ID] {
			s.cfg.Logger.Error("the directory of a volume is missing", "volume", v.ID, "account", v.Account, "name", v.Name, "directory", s.path(string(v.ID)))
		}
	}
	return nil
}

// Create makes an empty volume.
func (s *Store) Create(ctx context.Context, account, name string) (api.Volume, error) {
	v := api.Volume{ID: api.NewVolumeID(), Account: account, Name: name, CreatedAt: s.cfg.Now().UTC().Truncate(time.Microsecond), Node: s.cfg.Node}
	if !api.ValidVolumeName(name) {
		return v, api.Errorf(api.KindInvalid, `%.80q is not a valid name for a volume: it has 1 to %d letters, digits, "-" and "_"`, name, api.MaxVolumeName)
	}
	if err := s.cfg.CheckSpace(ctx, account, "volume "+name, 0); err != nil {
		return v, err
	}
	if err := os.Mkdir(s.path(string(v.ID)), 0o700); err != nil {
		return v, api.Errorf(api.KindInternal, "make volume %s: %w", name, err)
	}
	err := syncDir(s.cfg.Dir)
	if err == nil {
		err = s.cfg.Rows.InsertVolume(ctx, v, MaxVolumes)
	}
	if err != nil {
		return v, errors.Join(err, os.Remove(s.path(string(v.ID))))
	}
	return v, nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "volumes: %w", err)
	}
	return nil
}

// Get returns a volume.
func (s *Store) Get(ctx context.Context, id api.VolumeID) (api.Volume, error) {
	return s.cfg.Rows.Volume(ctx, id)
}

// List returns the volumes of an account, the newest first.
func (s *Store) List(ctx context.Context, account string) ([]api.Volume, error) {
	return s.cfg.Rows.VolumesOf(ctx, account)
}

// Remove removes a volume with its files.
func (s *Store) Remove(ctx context.Context, id api.VolumeID) error {
	gone := s.path(aside + "/" + rand.Text())
	u := s.useOf(id)
	u.mu.Lock()
	err := s.cfg.Rows.RemoveVolume(ctx, id)
	if err == nil {
		err = os.Rename(s.path(string(id)), gone)
	}
	s.forget(id)
	u.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its directory was missing
	}
	if err == nil {
		err = beneath.RemoveAll(context.WithoutCancel(ctx), gone) // whether or not the client waits
	}
	if err != nil && api.KindOf(err) != api.KindNotFound {
		err = api.Errorf(api.KindOf(err), "remove volume %s: %w", id, err)
	}
	return err
}

// Bytes returns what an account stores in volumes.
func (s *Store) Bytes(ctx context.Context, account string) (int64, error) {
	all, err := s.cfg.Rows.VolumesOf(ctx, account)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, v := range all {
		err := s.locked(ctx, v.ID, func(root int, u *use) error {
			sum += u.bytes + u.uploading
			return nil
		})
		if kind := api.KindOf(err); err != nil && kind != api.KindNotFound && kind != api.KindConflict {
			return 0, err
		}
	}
	return sum, nil
}

// useOf returns the use of a volume.
func (s *Store) useOf(id api.VolumeID) *use {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[id]
	if u == nil {
		u = &use{}
		s.uses[id] = u
	}
	return u
}

// forget is for a volume that has no row. Who has its use already finds no row either.
func (s *Store) forget(id api.VolumeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uses, id)
}

// root opens the directory of a volume.
func (s *Store) root(id api.VolumeID) (int, error) {
	fd, err := unix.Open(s.path(string(id)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return -1, api.Errorf(api.KindConflict, "the files of volume %s are missing on the server", id).
			WithHint("destroy the volume, or restore its directory in the data directory from a backup")
	}
	if err != nil {
		return -1, api.Errorf(api.KindInternal, "open volume %s: %w", id, err)
	}
	return fd, nil
}

// view calls f with the directory of a volume that exists.
func (s *Store) view(ctx context.Context, id api.VolumeID, f func(root int) error) error {
	if _, err := s.cfg.Rows.Volume(ctx, id); err != nil {
		return err
	}
	root, err := s.root(id)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return f(root)
}

// locked is view for what changes entries, one call at a time for each volume. Its size is known.
func (s *Store) locked(ctx context.Context, id api.VolumeID, f func(root int, u *use) error) error {
	u := s.useOf(id)
	u.mu.Lock()
	defer u.mu.Unlock()
	err := s.view(ctx, id, func(root int) error {
		if err := u.measure(ctx, root); err != nil {
			return err
		}
		return f(root, u)
	})
	if api.KindOf(err) == api.KindNotFound {
		if _, rerr := s.cfg.Rows.Volume(ctx, id); api.KindOf(rerr) == api.KindNotFound {
			s.forget(id)
		}
	}
	return err
}

// measure counts what is in the volume, unless that is known. u.mu is held.
func (u *use) measure(ctx context.Context, root int) error {
	if u.measured {
		return nil
	}
	u.bytes, u.entries = 0, 0
	err := u.count(ctx, root)
	u.measured = err == nil
	return err
}

// count adds what is below a directory.
func (u *use) count(ctx context.Context, dir int) error {
	return walk(ctx, dir, "/", maxDepth, func(e api.VolumeEntry) error {
		u.bytes += e.Size
		u.entries++
		return nil
	})
}
