package upkeep

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/egress/registrycache"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/workspace"
)

// Orphan is what a sandbox left that does not live.
type Orphan struct {
	Backend string
	ID      api.SandboxID
	Path    string // its directory; it need not be there
}

// Config is what a keeper needs. All fields but Workspaces, Snapshots, Images, Packages, Repositories, Now, RowsNow and Logger must be
// set.
type Config struct {
	// Dir is the data directory, which the caller owns. Its layout is
	// hortus.db*, daemon.log*, inventory.json, tokens.key, layers/, tasks/ID/, workspaces/ID/, snapshots/ID/, volumes/ID/, builds/, packages/, images/,
	// run/BACKEND/ID/.
	Dir    string
	Layers *layer.Store
	// LayerBytes is the maximum size of all layers together; 0 is no limit. Layers that are in
	// use may take more.
	LayerBytes int64
	// Workspaces are what tasks changed in repositories; nil where there are none.
	Workspaces *workspace.Store
	// Snapshots are saved states of sandboxes; nil where there are none.
	Snapshots *snapshot.Store
	// Images are the container images; nil where there are none.
	Images *oci.Images
	// Packages is the package cache; nil where there is none.
	Packages *registrycache.Cache
	// Repositories are the copies of repositories; nil where there are none. Busy
	// says that a task may be reading them. Connected returns the names of those that
	// somebody connected, which are kept; nil for none.
	Repositories *cache.Cache
	Busy         func() bool
	Connected    func(ctx context.Context) (map[string]bool, error)
	// Named calls f with the layers that templates name now, and lets nobody be
	// given the layers of a template until f returns.
	Named func(ctx context.Context, f func(named []layer.Digest) error) error
	// Task reads a task's row; KindNotFound when there is none.
	Task func(ctx context.Context, id api.TaskID) (api.Task, error)
	// Orphans lists what sandboxes left; Reclaim destroys it, and does nothing to
	// a sandbox that lives.
	Orphans func(ctx context.Context) ([]Orphan, error)
	Reclaim func(ctx context.Context, o Orphan) error
	// Now is the clock of files, RowsNow that of rows; nil means time.Now.
	Now, RowsNow func() time.Time
	Logger       *slog.Logger
}

// Keeper looks after one data directory. Its methods may be called from several
// goroutines.
type Keeper struct {
	cfg   Config
	mu    sync.Mutex // one collection at a time
	sizes map[layer.Digest]int64
}

// New makes a keeper.
func New(cfg Config) *Keeper {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.RowsNow == nil {
		cfg.RowsNow = cfg.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Keeper{cfg: cfg, sizes: map[layer.Digest]int64{}}
}

// Usage returns what the data directory holds, and what of it a collection with
// the default age would free.
func (k *Keeper) Usage(ctx context.Context) (admin.DiskUsage, error) {
	out := admin.DiskUsage{DataDir: k.cfg.Dir}
	would, err := k.Collect(ctx, admin.CollectRequest{DryRun: true})
	if err != nil {
		return out, err
	}
	parts := map[string]*admin.DiskPart{}
	for _, name := range []string{admin.PartLayers, admin.PartTasks, admin.PartWorkspaces, admin.PartRepositories, admin.PartPackages, admin.PartSnapshots, admin.PartSandboxes, admin.PartDatabase, admin.PartLogs, admin.PartOther} {
		out.Parts = append(out.Parts, admin.DiskPart{Name: name})
	}
	for i := range out.Parts {
		parts[out.Parts[i].Name] = &out.Parts[i]
	}
	parts[admin.PartLayers].LimitBytes = k.cfg.LayerBytes
	entries, err := os.ReadDir(k.cfg.Dir)
	if err != nil {
		return out, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	seen := links{}
	for _, e := range entries {
		p := parts[partOf(e.Name())]
		n, err := k.measure(ctx, seen, p, e.Name())
		if err != nil {
			return out, err
		}
		p.Bytes += n
	}
	for _, it := range would.Items {
		parts[it.Part].ReclaimableBytes += it.Bytes
	}
	for _, p := range out.Parts {
		out.Bytes += p.Bytes
		out.ReclaimableBytes += p.ReclaimableBytes
	}
	var st unix.Statfs_t
	if err := unix.Statfs(k.cfg.Dir, &st); err != nil {
		return out, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	out.FreeBytes, out.TotalBytes = int64(st.Bavail)*int64(st.Bsize), int64(st.Blocks)*int64(st.Bsize)
	return out, nil
}

// partOf returns what an entry of the data directory belongs to.
func partOf(name string) string {
	switch {
	case name == "layers", name == "images", name == "inventory.json": // of the templates
		return admin.PartLayers
	case name == "tasks":
		return admin.PartTasks
	case name == "workspaces":
		return admin.PartWorkspaces
	case name == "repositories":
		return admin.PartRepositories
	case name == "packages":
		return admin.PartPackages
	case name == "snapshots", name == "builds":
		return admin.PartSnapshots
	case name == "run", name == "bin", name == "tokens.key", name == "egress.key", name == "oauth.key": // what they run, and are opened with
		return admin.PartSandboxes
	case strings.HasPrefix(name, "hortus.db"):
		return admin.PartDatabase
	case strings.HasPrefix(name, "daemon.log"):
		return admin.PartLogs
	}
	return admin.PartOther
}

// measure returns the size of an entry of the data directory and counts what is in
// it: trees, tasks, sandboxes, or files.
func (k *Keeper) measure(ctx context.Context, seen links, p *admin.DiskPart, name string) (int64, error) {
	path := filepath.Join(k.cfg.Dir, name)
	switch name {
	case "layers", "tasks", "workspaces":
		p.Count += count(path)
	case "snapshots":
		if k.cfg.Snapshots != nil {
			all, err := k.cfg.Snapshots.List()
			if err != nil {
				return 0, err
			}
			p.Count += len(all)
		}
	case "repositories":
		if k.cfg.Repositories != nil {
			all, err := k.cfg.Repositories.List()
			if err != nil {
				return 0, err
			}
			p.Count += len(all)
		}
	case "packages":
		files, err := os.ReadDir(filepath.Join(path, "objects"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, api.Errorf(api.KindInternal, "data directory: %w", err)
		}
		p.Count += len(files)
	case "run":
		backends, err := os.ReadDir(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, api.Errorf(api.KindInternal, "data directory: %w", err)
		}
		for _, b := range backends {
			p.Count += count(filepath.Join(path, b.Name()))
		}
	default:
		if name == "lock" || name == "node" || strings.HasSuffix(name, ".sock") {
			return 0, nil // no matter how, they hold nothing
		}
		if name != "builds" && name != "inventory.json" && name != "tokens.key" && name != "egress.key" && name != "oauth.key" {
			p.Count++
		}
	}
	return k.sizeOf(ctx, seen.first, p.Name, path)
}

// count counts the directories in a directory.
func count(dir string) (n int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.IsDir() {
			n++
		}
	}
	return n
}

// size returns the bytes that a file or a tree takes on its disk. What is mounted
// below is another disk's; what vanishes meanwhile takes nothing; a file with
// several names in the tree is counted once.
func size(ctx context.Context, path string) (int64, error) { return sizeIf(ctx, links{}.first, path) }

// links counts the names of files that were seen.
type links map[inode]uint64

type inode struct{ dev, ino uint64 }

func (l links) see(st unix.Stat_t) uint64 {
	at := inode{uint64(st.Dev), st.Ino}
	l[at]++
	return l[at]
}

// first reports whether a file is seen for the first time.
func (l links) first(st unix.Stat_t) bool { return l.see(st) == 1 }

// last reports whether all names of a file were seen.
func (l links) last(st unix.Stat_t) bool { return l.see(st) == uint64(st.Nlink) }

// sizeIf is size, in which a file with several names counts if counts says so.
func sizeIf(ctx context.Context, counts func(unix.Stat_t) bool, path string) (int64, error) {
	var root unix.Stat_t
	if err := unix.Lstat(path, &root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 0, api.Errorf(api.KindInternal, "measure %s: %w", path, err)
	}
	var total int64
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, fs.ErrPermission) && d != nil && d.IsDir() {
			return fs.SkipDir // a tree of another identity; its own size is counted
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if st.Dev != root.Dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() && !counts(st) {
			return nil
		}
		total += st.Blocks * 512
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, api.Errorf(api.KindInternal, "measure %s: %w", path, err)
	}
	return total, nil
}
