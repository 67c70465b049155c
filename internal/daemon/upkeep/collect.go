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

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// collection is one run of Collect.
type collection struct {
	k      *Keeper
	dry    bool
	cutoff time.Time // zero if only the budget of layers counts
	out    admin.Collected
	links  links // of files in what was taken
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
	c := &collection{k: k, dry: req.DryRun, cutoff: k.cfg.Now().Add(-age)}
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
	return t.State == api.TaskDone && !t.EndedAt.IsZero() && !t.EndedAt.After(c.cutoff)
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
