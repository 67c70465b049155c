package workdir

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/workspace"
)

// target is where a workspace is mounted.
const target = "/workspace"

// Mounter makes the workspaces of a backend's sandboxes.
type Mounter struct {
	Layers *layer.Store
	// Spaces keeps durable workspaces; nil if there are none.
	Spaces *workspace.Store
	// Space is the file system of the durable ones.
	Space *space.Space
	Log   *slog.Logger
}

// Leases keep layers from being removed.
type Leases []*layer.Lease

// Release releases them.
func (l Leases) Release() {
	for _, le := range l {
		le.Release()
	}
}

// Dir is the workspace of a machine.
type Dir struct {
	lowers []layer.Tree // the top one first
	leases Leases
	upper  *workspace.Lease // nil if it is on the sandbox's own disk
	access []sandbox.PathAccess
	view   bool
}

// Durable reports whether what is written outlives the sandbox.
func (d *Dir) Durable() bool { return d != nil && d.upper != nil }

// Release releases everything after the sandbox's last process has ended.
func (d *Dir) Release() {
	if d != nil {
		d.upper.Release()
		d.leases.Release()
	}
}

// Leave is Release for a sandbox that keeps running: the daemon that adopts it calls
// Reattach.
func (d *Dir) Leave() {
	if d != nil {
		d.upper.Leave()
		d.leases.Release()
	}
}

// Attach leases what a Spec needs at /workspace. The result is nil if w is.
func (m *Mounter) Attach(ctx context.Context, w *sandbox.Workspace) (_ *Dir, err error) {
	if w == nil {
		return nil, nil
	}
	d := &Dir{access: w.Access, view: w.View}
	defer func() {
		if err != nil {
			d.Release()
		}
	}()
	for _, digest := range slices.Backward(w.Layers) {
		_, le, err := m.Layers.Lease(digest)
		if err != nil {
			return nil, err
		}
		d.leases = append(d.leases, le)
		tree, err := workspace.Lower(m.Layers, digest)
		if err != nil {
			return nil, err
		}
		d.lowers = append(d.lowers, tree)
	}
	if w.Upper == "" {
		return d, nil
	}
	if d.upper, err = m.Spaces.Lease(ctx, w.Upper); err != nil {
		return nil, err
	}
	if err := m.Space.CheckOf(ctx, d.upper.Account(), "workspace "+string(w.Upper), 0); err != nil {
		return nil, err
	}
	if !slices.Equal(d.upper.Layers(), w.Layers) {
		return nil, api.Errorf(api.KindInvalid, "workspace %s was created over other layers", w.Upper)
	}
	if err = d.checkQuota(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// checkQuota refuses a workspace that is above its quota: its sandbox would be ended at once.
func (d *Dir) checkQuota(ctx context.Context) error {
	quota := d.upper.Quota()
	if quota <= 0 {
		return nil
	}
	most := workspace.Usage{Bytes: quota, Files: Inodes(quota)}
	u, err := d.upper.Measure(ctx, most)
	if err != nil { // Watch decides what follows from that
		return ctx.Err()
	}
	if why := u.Over(most); why != "" {
		return api.Errorf(api.KindExhausted, "workspace %s has %s, which its quota allows", d.upper.ID(), why).
			WithHint("raise its quota: hortus workspace quota %s SIZE", d.upper.ID())
	}
	return nil
}

// Reattach takes over what a running machine has at /workspace. pid is its first process.
func (m *Mounter) Reattach(ctx context.Context, w *sandbox.Workspace, pid int) (_ *Dir, err error) {
	if w == nil {
		return nil, nil
	}
	d := &Dir{}
	if d.leases, err = m.LeaseAgain(w.Layers); err == nil && w.Upper != "" {
		if m.Spaces == nil {
			err = api.Errorf(api.KindUnsupported, "this daemon has no store of workspaces")
		} else {
			d.upper, err = m.Spaces.TakeOver(ctx, w.Upper, pid)
		}
	}
	if err != nil {
		d.leases.Release()
		return nil, err
	}
	return d, nil
}

// LeaseAgain leases the layers of a sandbox that is running: they are not removed while it
// lives. A layer that is missing is logged: its mount keeps working.
func (m *Mounter) LeaseAgain(layers []layer.Digest) (all Leases, err error) {
	for _, d := range layers {
		_, le, err := m.Layers.Lease(d)
		switch {
		case api.KindOf(err) == api.KindNotFound:
			m.Log.Warn("a layer of an adopted sandbox was removed", "layer", d)
		case err != nil:
			return all, err
		default:
			all = append(all, le)
		}
	}
	return all, nil
}

// Stage describes the workspace to the stage of a sandbox whose first process is pid. userns
// is the sandbox's user namespace, or -1 if it has a single id; add takes a descriptor and
// returns its index in the packet.
func (d *Dir) Stage(pid, userns int, add func(int) int) (*initns.Workspace, error) {
	if d == nil {
		return nil, nil
	}
	is := &initns.Workspace{Target: target, Upper: workspace.Upper, Work: workspace.Work, UID: ids.UserUID, GID: ids.UserUID}
	for _, tree := range d.lowers {
		l, err := below(tree, userns, add)
		if err != nil {
			return nil, err
		}
		is.Lowers = append(is.Lowers, l)
	}
	if d.upper == nil {
		return is, nil
	}
	// Before the mount: after a crash the next daemon must see that this process may
	// still write.
	if err := d.upper.Hold(pid); err != nil {
		return nil, err
	}
	disk, err := lower(d.upper.Path(), userns, add)
	is.Disk, is.View = &disk, d.view
	for _, a := range d.access {
		is.Access = append(is.Access, initns.Access{Path: a.Path, ReadOnly: a.ReadOnly})
	}
	return is, err
}

// lower describes a directory to the stage. With several ids its mount must map them: with
// other ids a guest could not change its own files.
func lower(dir string, userns int, add func(int) int) (initns.Lower, error) {
	if userns < 0 {
		return initns.Lower{FD: -1, Path: dir}, nil
	}
	fd, err := ids.MapMount(dir, userns)
	if err != nil {
		return initns.Lower{}, err
	}
	return initns.Lower{FD: add(fd)}, nil
}

// below is lower for a layer. A packed one is always a mount: its path is of this process alone.
func below(t layer.Tree, userns int, add func(int) int) (initns.Lower, error) {
	if userns < 0 && !t.Packed() {
		return initns.Lower{FD: -1, Path: t.Root}, nil
	}
	fd, err := t.CloneMount()
	if err == nil && userns >= 0 {
		fd, err = ids.Map(fd, t.Root, userns)
	}
	if err != nil {
		return initns.Lower{}, err
	}
	return initns.Lower{FD: add(fd)}, nil
}

// Trial is a scratch workspace with which a probe finds out whether one can be mounted.
type Trial struct{ dir string }

// NewTrial prepares a directory for a trial.
func NewTrial(dir string) (Trial, error) {
	for _, d := range []string{workspace.Upper, workspace.Work, "lower", "lower/dir"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return Trial{}, err
		}
	}
	for _, f := range []string{"lower/file", "lower/dir/file"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			return Trial{}, err
		}
	}
	return Trial{dir}, workspace.Own(dir)
}

// Stage describes the trial to the stage, like Dir.Stage.
func (t Trial) Stage(userns int, add func(int) int) (*initns.Workspace, error) {
	below, err := lower(filepath.Join(t.dir, "lower"), userns, add)
	if err != nil {
		return nil, err
	}
	disk, err := lower(t.dir, userns, add)
	return &initns.Workspace{Target: target, Upper: workspace.Upper, Work: workspace.Work, Try: true,
		Lowers: []initns.Lower{below}, Disk: &disk}, err
}
