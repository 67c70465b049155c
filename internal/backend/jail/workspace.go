package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// workspaceTarget is where a workspace is seen.
const workspaceTarget = "/workspace"

// attached is a workspace that a machine has: nobody removes its layers or writes to
// it meanwhile.
type attached struct {
	lowers []string // directories, the top one first
	leases []*layer.Lease
	upper  *workspace.Lease // nil: on the sandbox's own disk
}

// release gives everything back, after the last process of the sandbox. It may be
// called for nil.
func (a *attached) release() {
	if a == nil {
		return
	}
	a.upper.Release()
	for _, l := range a.leases {
		l.Release()
	}
}

// attach leases what a Spec wants at /workspace; nil where it wants nothing.
func (b *Backend) attach(ctx context.Context, w *sandbox.Workspace) (_ *attached, err error) {
	if w == nil {
		return nil, nil
	}
	if n := len(w.Layers); n == 0 || n > workspace.MaxLayers {
		return nil, api.Errorf(api.KindInvalid, "a workspace over %d layers; it has 1 to %d", n, workspace.MaxLayers)
	}
	if a, ok := b.Probe(ctx).Has(api.CapWorkspace); !ok {
		return nil, api.Errorf(api.KindUnsupported, "capability %s is missing: %s", api.CapWorkspace, a.Reason).WithHint("%s", a.Fix)
	}
	a := &attached{}
	defer func() {
		if err != nil {
			a.release()
		}
	}()
	for i := len(w.Layers) - 1; i >= 0; i-- {
		_, le, err := b.cfg.Layers.Lease(w.Layers[i])
		if err != nil {
			return nil, err
		}
		a.leases = append(a.leases, le)
		dir, err := workspace.Lower(b.cfg.Layers, w.Layers[i])
		if err != nil {
			return nil, err
		}
		a.lowers = append(a.lowers, dir)
	}
	if w.Upper == "" {
		return a, nil
	}
	if why := b.floor().short(b.cfg.Workspaces.Dir()); why != "" {
		return nil, api.Errorf(api.KindExhausted, "workspace %s: %s", w.Upper, why).WithHint("make room: hortus gc")
	}
	if a.upper, err = b.cfg.Workspaces.Lease(ctx, w.Upper); err != nil {
		return nil, err
	}
	if !slices.Equal(a.upper.Layers(), w.Layers) {
		return nil, api.Errorf(api.KindInvalid, "workspace %s lies on other layers", w.Upper)
	}
	return a, nil
}

// initWorkspace describes a machine's workspace to the stage. userns is the
// sandbox's user namespace, or -1 where one id is mapped; add takes a descriptor.
func (a *attached) initWorkspace(pid, userns int, add func(int) int) (*initns.Workspace, error) {
	if a == nil {
		return nil, nil
	}
	is := &initns.Workspace{Target: workspaceTarget, Upper: workspace.Upper, Work: workspace.Work, UID: userUID, GID: userUID}
	one := func(dir string) (initns.Lower, error) {
		if userns < 0 {
			return initns.Lower{FD: -1, Path: dir}, nil
		}
		fd, err := mappedWhole(dir, userns)
		if err != nil {
			return initns.Lower{}, err
		}
		return initns.Lower{FD: add(fd)}, nil
	}
	for _, dir := range a.lowers {
		l, err := one(dir)
		if err != nil {
			return nil, err
		}
		is.Lowers = append(is.Lowers, l)
	}
	if a.upper == nil {
		return is, nil
	}
	// Before anything is mounted: who comes after a daemon that died must see that
	// this process may still write.
	if err := a.upper.Hold(pid); err != nil {
		return nil, err
	}
	disk, err := one(a.upper.Path())
	if err != nil {
		return nil, err
	}
	is.Disk = &disk
	return is, nil
}

// mappedWhole is mapped, but nothing less will do: with other ids a guest could not
// change its own files.
func mappedWhole(dir string, userns int) (int, error) {
	m, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of %s: %w", dir, err)
	}
	err = unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID,
		Userns_fd: uint64(userns),
	})
	if err != nil {
		unix.Close(m)
		return -1, fmt.Errorf("map ids of %s: %w", dir, err)
	}
	return m, nil
}

// workspaceAbility finds by trying whether a workspace can be mounted here.
func (b *Backend) workspaceAbility(ctx context.Context) api.Ability {
	a := api.Ability{Capability: api.CapWorkspace}
	if b.cfg.Workspaces == nil {
		a.Reason, a.Fix = "this daemon keeps no workspaces", "Give the backend a store of workspaces."
		return a
	}
	dir, remove, err := b.cfg.Workspaces.Scratch()
	if err != nil {
		a.Reason, a.Fix = err.Error(), "Make the data directory writable."
		return a
	}
	defer remove()
	err = func() error {
		for _, d := range []string{workspace.Upper, workspace.Work, "lower", "lower/dir"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				return err
			}
		}
		for _, f := range []string{"lower/file", "lower/dir/file"} {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
				return err
			}
		}
		return workspace.Own(dir)
	}()
	if err != nil {
		a.Reason, a.Fix = err.Error(), "Make the data directory writable."
		return a
	}
	a.Reason, a.Fix = b.tryWith(ctx, func(is *initns.Spec, userns int, add func(int) int) error {
		w := &initns.Workspace{Target: workspaceTarget, Upper: workspace.Upper, Work: workspace.Work, Try: true}
		for _, d := range []struct {
			dir string
			to  *initns.Lower
		}{{filepath.Join(dir, "lower"), new(initns.Lower)}, {dir, new(initns.Lower)}} {
			*d.to = initns.Lower{FD: -1, Path: d.dir}
			if userns >= 0 {
				fd, err := mappedWhole(d.dir, userns)
				if err != nil {
					return err
				}
				*d.to = initns.Lower{FD: add(fd)}
			}
			if d.dir == dir {
				w.Disk = d.to
			} else {
				w.Lowers = []initns.Lower{*d.to}
			}
		}
		is.Workspace = w
		return nil
	})
	if a.OK = a.Reason == ""; a.OK {
		a.Reason = "an overlay on the disk of the data directory; its size is watched by the host, best effort"
	} else if a.Fix == "" {
		a.Fix = workspaceFix
	}
	return a
}

const workspaceFix = "Put the data directory (--data-dir) on ext4, xfs or btrfs of this machine: an overlay, as a container's own root, and network file systems take no writable overlay above them, and root needs a kernel with id-mapped mounts there (Linux 5.19)."

// floor is what a workspace must leave free of its file system.
type floor struct {
	bytes  int64
	inodes uint64
}

// floor is the configured one; by default a twentieth of the disk, at most 1 GiB,
// and a hundredth of the inodes, at most 10,000.
func (b *Backend) floor() floor { return floor{bytes: b.cfg.DiskFloor} }

// short says what of a file system is short; empty when enough is free. It counts
// what an ordinary user could still have.
func (f floor) short(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "the free space of the host's disk is not known: " + err.Error()
	}
	return f.shortOf(&st)
}

func (f floor) shortOf(st *unix.Statfs_t) string {
	most, inodes := f.bytes, f.inodes
	if most <= 0 {
		most = min(int64(st.Blocks)*st.Bsize/20, 1<<30)
	}
	if inodes == 0 {
		inodes = min(st.Files/100, 10_000)
	}
	free := int64(st.Bavail) * st.Bsize
	switch {
	case free < most:
		return fmt.Sprintf("%d bytes are free on the host's disk, less than the %d that workspaces must leave", free, most)
	case st.Files > 0 && st.Ffree < inodes:
		return fmt.Sprintf("%d inodes are free on the host's disk, less than the %d that workspaces must leave", st.Ffree, inodes)
	}
	return ""
}

// Bounds of a disk watch: how often the file system is asked, how long a measurement
// of a workspace may be put off while the file system has not grown by what is left,
// and how many times its own length a measurement is followed by a rest.
const (
	diskTick = 50 * time.Millisecond
	diskMost = 2 * time.Second
	diskRest = 4
	// diskTries is how often in a row a measurement may fail.
	diskTries = 5
)

// watchDisk enforces Limits.DiskBytes for a durable workspace, and the floor. A look
// at the file system is cheap and says how much everybody together has written: only
// when that could have used up what was left, or after a while, the workspace itself
// is measured. The function that it returns ends the watch.
func (m *machine) watchDisk() (stop func()) {
	if m.ws == nil || m.ws.upper == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if cause := m.overDisk(ctx); cause != "" {
			m.mu.Lock()
			m.cause = cause
			m.mu.Unlock()
			m.group.Thaw(ctx)
			m.proc.Kill()
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// overDisk waits until a limit is passed and names it; empty when ctx ends first.
func (m *machine) overDisk(ctx context.Context) string {
	most := workspace.Usage{Bytes: m.limits.DiskBytes, Files: inodes(m.limits.DiskBytes)}
	floor := m.b.floor()
	tick := time.NewTicker(diskTick)
	defer tick.Stop()
	var (
		used   workspace.Usage // at the last measurement
		since  workspace.Usage // what the file system had then
		next   time.Time       // no measurement before
		due    time.Time       // one at the latest
		failed int
	)
	for {
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(m.ws.upper.Dir().Fd()), &st); err != nil {
			m.b.log.Error("the host's disk cannot be watched", "sandbox", m.id, "error", err)
			return api.CauseFull
		}
		if why := floor.shortOf(&st); why != "" {
			m.b.log.Warn("sandbox ended to keep the host's disk free", "sandbox", m.id, "reason", why)
			return api.CauseFull
		}
		now := time.Now()
		all := workspace.Usage{Bytes: int64(st.Blocks-st.Bfree) * st.Bsize, Files: int64(st.Files - st.Ffree)}
		grown := workspace.Usage{Bytes: used.Bytes + all.Bytes - since.Bytes, Files: used.Files + all.Files - since.Files}
		if due.IsZero() || now.After(due) || grown.Over(most) != "" && now.After(next) {
			got, err := m.ws.upper.Measure(ctx, most)
			if ctx.Err() != nil {
				return ""
			}
			if err == nil && got.Over(most) == "" {
				got.Bytes += m.unlinked(most.Bytes - got.Bytes)
			}
			why := got.Over(most)
			switch {
			case err == nil:
				failed = 0
			case errors.Is(err, workspace.ErrDeep):
				why = err.Error()
			default: // perhaps a directory that was changed under the look
				if failed++; failed >= diskTries {
					why = "it cannot be measured: " + err.Error()
				}
			}
			if why != "" {
				m.b.log.Info("sandbox ended at its disk limit", "sandbox", m.id, "workspace", m.ws.upper.ID(), "has", why)
				return api.CauseDisk
			}
			took := time.Since(now)
			used, since = got, all
			next = time.Now().Add(diskRest * took)
			due = time.Now().Add(max(diskMost, 2*diskRest*took))
			if failed > 0 {
				due = next // at once: nothing is known
			}
		}
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}

// inodes is how many files a disk of that size may have.
func inodes(bytes int64) int64 { return max(bytes/inodeBytes, 1024) }
