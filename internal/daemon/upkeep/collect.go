package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/layer"
)

// collection is one run of Collect.
type collection struct {
	k   *Keeper
	dry bool
	// cutoff is the newest time of a file that is old, and ended that of a row. cutoff is zero if only the budget of layers counts.
	cutoff, ended time.Time
	out           admin.Collected
	links         links // of files in what was taken
}

// Collect removes what nothing refers to and lists it. A thing that could not be
// removed is listed with its error, and the collection continues.
func (k *Keeper) Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error) {
	age := admin.DefaultKeep
	if ms := req.OlderThanMS; ms != nil {
		if *ms < 0 || *ms > (100*365*24*time.Hour).Milliseconds() {
			return admin.Collected{}, api.Errorf(api.KindInvalid, "an age of %d ms is invalid", *ms)
		}
		age = time.Duration(*ms) * time.Millisecond
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &collection{k: k, dry: req.DryRun, cutoff: k.cfg.Now().Add(-age), ended: k.cfg.RowsNow().Add(-age)}
	c.out = admin.Collected{DryRun: req.DryRun, Items: []admin.CollectedItem{}}
	for _, part := range []func(context.Context) error{c.sandboxes, c.tasks, c.workspaces, c.snapshots, c.repositories, c.packages, c.images, c.layers, c.files} {
		if err := part(ctx); err != nil {
			return c.out, err
		}
	}
	if !c.dry {
		k.cfg.Logger.Info("collected", "items", len(c.out.Items), "bytes", c.out.Bytes)
	}
	return c.out, nil
}

// errHeld is what a remove gives for a thing that somebody uses by now: it is no
// candidate after all.
var errHeld = errors.New("in use")

// unlessHeld is errHeld for the error of removing what somebody uses.
func unlessHeld(err error) error {
	if api.KindOf(err) == api.KindConflict {
		return errHeld
	}
	return err
}

// take lists a thing and removes it, unless this is a dry run.
func (c *collection) take(ctx context.Context, part, name, path, why string, remove func() error) error {
	// What has names elsewhere is freed with the last one.
	if !c.dry || c.links == nil {
		c.links = links{}
	}
	n, err := c.k.sizeOf(ctx, c.links.last, part, path)
	if err != nil {
		return err
	}
	it := admin.CollectedItem{Part: part, Name: name, Bytes: n, Why: why}
	if !c.dry {
		err := remove()
		if errors.Is(err, errHeld) {
			return nil
		}
		if it.Error = api.AsError(err); err != nil {
			c.k.cfg.Logger.Error("cannot remove unused data", "part", part, "name", name, "error", err)
		}
	}
	if it.Error == nil {
		c.out.Bytes += n
	}
	c.out.Items = append(c.out.Items, it)
	return ctx.Err()
}

// sandboxes takes what sandboxes left.
func (c *collection) sandboxes(ctx context.Context) error {
	orphans, err := c.k.cfg.Orphans(ctx)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		err := c.take(ctx, admin.PartSandboxes, o.Backend+"/"+string(o.ID), o.Path, "left by a sandbox that no longer exists",
			func() error { return c.k.cfg.Reclaim(ctx, o) })
		if err != nil {
			return err
		}
	}
	return nil
}

// tasks takes the output of tasks that are done for long, or that no row knows.
func (c *collection) tasks(ctx context.Context) error {
	dir := filepath.Join(c.k.cfg.Dir, "tasks")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindInternal, "output of tasks: %w", err)
	}
	for _, e := range entries {
		id := api.TaskID(e.Name())
		if !id.Valid() || !e.IsDir() {
			continue // not made by the engine
		}
		t, err := c.k.cfg.Task(ctx, id)
		why := ""
		switch {
		case api.KindOf(err) == api.KindNotFound:
			// The row stands before the directory is made.
			why = "the task no longer exists"
		case err != nil:
			return err
		case c.longDone(t):
			why = "output of a task that ended " + t.EndedAt.Format(time.DateOnly)
		default:
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := c.take(ctx, admin.PartTasks, e.Name(), path, why, func() error { return os.RemoveAll(path) }); err != nil {
			return err
		}
	}
	return nil
}

// longDone reports whether a task ended before the cutoff.
func (c *collection) longDone(t api.Task) bool {
	return t.State == api.TaskDone && !t.EndedAt.IsZero() && !t.EndedAt.After(c.ended)
}

// files takes old logs and old copies of the database.
func (c *collection) files(ctx context.Context) error {
	entries, err := os.ReadDir(c.k.cfg.Dir)
	if err != nil {
		return api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	for _, e := range entries {
		part, why := "", ""
		switch name := e.Name(); {
		case name == "daemon.log.old":
			part, why = admin.PartLogs, "an old log"
		case strings.HasPrefix(name, "hortus.db.bak-v"):
			part, why = admin.PartDatabase, "a backup from before a migration"
		default:
			continue
		}
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || st.ModTime().After(c.cutoff) {
			continue
		}
		path := filepath.Join(c.k.cfg.Dir, e.Name())
		why = fmt.Sprintf("%s, last written %s", why, st.ModTime().Format(time.DateOnly))
		if err := c.take(ctx, part, e.Name(), path, why, func() error { return os.Remove(path) }); err != nil {
			return err
		}
	}
	return nil
}

// snapshots takes the files of those that are broken or should be gone, and plain
// ones that are old: no template and no paused sandbox hangs on them. Removing one
// that a sandbox starts from now is put off until it has.
func (c *collection) snapshots(ctx context.Context) error {
	s := c.k.cfg.Snapshots
	if s == nil {
		return nil
	}
	ids, err := s.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := s.Snapshot(ctx, id)
		why, forget := "", false
		switch {
		case api.KindOf(err) == api.KindNotFound:
			why, forget = "the snapshot no longer exists", true
		case err != nil:
			return err
		case r.State.Final():
			why = "left by a snapshot that is " + string(r.State)
		case r.State == api.SnapshotReady && r.Name == "" && !r.Paused && !r.CreatedAt.After(c.ended):
			why = "not used by any template or paused sandbox, created " + r.CreatedAt.Format(time.DateOnly)
		default:
			continue
		}
		err = c.take(ctx, admin.PartSnapshots, string(id), filepath.Join(s.Dir(), string(id)), why, func() error {
			if forget {
				return s.Forget(id)
			}
			_, err := s.Remove(ctx, id, "collected: "+why)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// workspaces takes those of tasks that are done for long, or that no row knows, and
// those of no task that are as old, but none that is to be kept.
func (c *collection) workspaces(ctx context.Context) error {
	s := c.k.cfg.Workspaces
	if s == nil {
		return nil
	}
	ids, err := s.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		w, err := s.Get(id)
		if api.KindOf(err) == api.KindNotFound {
			continue // gone since
		}
		if err != nil {
			c.k.cfg.Logger.Error("cannot read a workspace; it is kept", "workspace", id, "error", err)
			continue
		}
		why, err := c.outlived(ctx, w)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		err = c.take(ctx, admin.PartWorkspaces, string(id), filepath.Join(s.Dir(), string(id)), why, func() error {
			return unlessHeld(s.Remove(ctx, id, "collected: "+why))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outlived returns why a workspace may go; empty when it stays. One that a person made stays
// until a person removes it.
func (c *collection) outlived(ctx context.Context, w api.Workspace) (string, error) {
	if w.Keep || w.Session != "" {
		return "", nil // a session removes its own
	}
	if w.Task == "" {
		if w.CreatedAt.After(c.ended) {
			return "", nil
		}
		return "without a task, created " + w.CreatedAt.Format(time.DateOnly), nil
	}
	t, err := c.k.cfg.Task(ctx, w.Task)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return "its task no longer exists", nil
	case err != nil:
		return "", err
	case c.longDone(t):
		return "of a task that ended " + t.EndedAt.Format(time.DateOnly), nil
	}
	return "", nil
}

// named calls f with the layers that templates, workspaces and snapshots name. Until f returns,
// templates and snapshots name no others, and the layers that new workspaces name are leased.
func (c *collection) named(ctx context.Context, f func(named []layer.Digest) error) error {
	return c.k.cfg.Named(ctx, func(named []layer.Digest) error {
		all := append([]layer.Digest{}, named...)
		last := func(more []layer.Digest) error { return f(append(all, more...)) }
		snapshots := func(more []layer.Digest) error {
			if all = append(all, more...); c.k.cfg.Snapshots == nil {
				return last(nil)
			}
			return c.k.cfg.Snapshots.Named(ctx, last)
		}
		if c.k.cfg.Workspaces == nil {
			return snapshots(nil)
		}
		return c.k.cfg.Workspaces.Named(snapshots)
	})
}

// sizeOf is size, for workspaces by the store's own measure: guests wrote them, and
// one that cannot be measured whole must not keep the rest from being seen.
func (k *Keeper) sizeOf(ctx context.Context, counts func(unix.Stat_t) bool, part, path string) (int64, error) {
	s := k.cfg.Workspaces
	if part != admin.PartWorkspaces || s == nil {
		return sizeIf(ctx, counts, path)
	}
	ids := []api.WorkspaceID{api.WorkspaceID(filepath.Base(path))}
	if !ids[0].Valid() { // all of them
		var err error
		if ids, err = s.List(); err != nil {
			return 0, err
		}
	}
	var total int64
	for _, id := range ids {
		u, err := s.Usage(ctx, id)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil && api.KindOf(err) != api.KindNotFound {
			k.cfg.Logger.Warn("cannot measure a workspace completely", "workspace", id, "error", err)
		}
		total += u.Bytes
	}
	return total, nil
}

// images takes the container images that no template names and that were not used for long. Their
// layers are taken with those that nothing names.
func (c *collection) images(ctx context.Context) error {
	images := c.k.cfg.Images
	if images == nil {
		return nil
	}
	for _, img := range images.Unused(c.cutoff) {
		why := "the image " + img.Reference + " has no template and was not used since " + img.UsedAt.UTC().Format(time.DateOnly)
		err := c.take(ctx, admin.PartLayers, "image "+img.ID, filepath.Join(c.k.cfg.Dir, "images", img.ID+".json"), why, func() error {
			_, err := images.Remove(img.ID)
			if api.KindOf(err) == api.KindNotFound {
				return errHeld
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// packages takes the packages that no sandbox has used for long, as one item; and all of them if
// the package cache is switched off.
func (c *collection) packages(ctx context.Context) error {
	path := filepath.Join(c.k.cfg.Dir, "packages")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	cache := c.k.cfg.Packages
	if cache == nil {
		return c.take(ctx, admin.PartPackages, "packages", path, "the package cache is switched off", func() error { return os.RemoveAll(path) })
	}
	n, bytes, err := cache.Collect(ctx, c.cutoff, c.dry)
	if err != nil || n == 0 {
		return err
	}
	c.out.Bytes += bytes
	c.out.Items = append(c.out.Items, admin.CollectedItem{
		Part: admin.PartPackages, Name: fmt.Sprintf("%d packages", n), Bytes: bytes,
		Why: "not used since " + c.cutoff.Format(time.DateOnly),
	})
	return nil
}

// repositories takes the copies that no task has used for long and that nobody connected. The
// results of tasks are in them: those that are as old go too. While a task runs none is taken.
func (c *collection) repositories(ctx context.Context) error {
	cache := c.k.cfg.Repositories
	if cache == nil || c.k.cfg.Busy != nil && c.k.cfg.Busy() {
		return nil
	}
	all, err := cache.List()
	if err != nil {
		return err
	}
	var kept map[string]bool
	if c.k.cfg.Connected != nil {
		if kept, err = c.k.cfg.Connected(ctx); err != nil {
			return err
		}
	}
	for _, r := range all {
		if kept[r.Name] || r.Used.After(c.cutoff) {
			continue
		}
		err := c.take(ctx, admin.PartRepositories, r.Name, r.Path, "last used "+r.Used.Format(time.DateOnly), func() error {
			return unlessHeld(cache.Remove(ctx, r.Name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
