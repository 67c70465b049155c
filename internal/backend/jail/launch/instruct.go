package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/forklayer"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// Request describes a sandbox to start.
type Request struct {
	Spec  sandbox.Spec
	Trees []*Tree
	// Dir is the run directory.
	Dir     string
	Range   *ids.Range // nil for a single id
	Workdir *workdir.Dir
	// Sealed are layers above Trees, the top one first, with what ancestors of the sandbox wrote: they take
	// SealedBytes and SealedFiles of its disk.
	Sealed                   []*forklayer.Layer
	SealedBytes, SealedFiles int64
	// Files is the open image to restore files from. Memory is true if a kernel of the
	// sandbox's own is to restore memory: it is made, and waits for the call that does.
	Files  *os.File
	Image  string // the directory that has Files
	Memory bool
	// Waits is true if the guest waits for its claim.
	Waits bool
}

// Instruct sends a child everything that it needs to become the guest.
func (l *Launcher) Instruct(c *child.Child, r Request) error {
	is, fds, err := l.describe(c.Proc.Pid, r)
	defer closeAll(fds)
	if err != nil {
		return err
	}
	if err := c.Send(is, append(fds, int(l.guest.Fd()))); err != nil {
		return err
	}
	if r.Memory { // the image contains the configuration
		return nil
	}
	cfg := l.GuestConfig(r.Spec, r.Trees)
	cfg.Waits = r.Waits
	// A stage that has failed has closed the socket, and has sent the reason.
	if err := c.Send(cfg, nil); err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		return err
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// describe describes the sandbox to the stage and opens what it needs. The caller closes the
// descriptors, also after an error; the guest's executable has to follow them.
func (l *Launcher) describe(pid int, r Request) (_ *initns.Spec, fds []int, err error) {
	is := l.Base()
	is.Hostname = r.Spec.Hostname
	is.DiskBytes = r.Spec.Limits.DiskBytes - r.SealedBytes
	is.DiskInodes = workdir.Inodes(r.Spec.Limits.DiskBytes) - r.SealedFiles
	is.Files = NameFiles(r.Spec)
	if l.cfg.Kernel != nil {
		is.Files = append(is.Files, birth.File{Path: birth.Placeholder})
	} else {
		is.Run = RunFiles(r.Spec)
		is.Limits = l.limits(r.Spec.Limits)
	}
	add := func(fd int) int {
		fds = append(fds, fd)
		return len(fds) - 1
	}
	dir, err := unix.Open(r.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fds, err
	}
	is.RunDir = add(dir)
	userns := -1
	if r.Range != nil {
		// The stage binds the socket as root inside; only the daemon can enter the
		// directory above.
		if err := unix.Fchown(dir, r.Range.Base, r.Range.Base); err != nil {
			return nil, fds, err
		}
		if userns, err = unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, fds, err
		}
		defer unix.Close(userns)
	}
	for _, s := range r.Sealed {
		lower, err := sealedLower(s, userns, add)
		if err != nil {
			return nil, fds, err
		}
		is.Roots = append(is.Roots, lower)
	}
	if err := l.describeTrees(is, r.Trees, userns, add); err != nil {
		return nil, fds, err
	}
	if is.Workspace, err = r.Workdir.Stage(pid, userns, add); err != nil {
		return nil, fds, err
	}
	if l.cfg.Ranges { // otherwise the stage makes /dev of the host's nodes
		dev, err := initns.Dev()
		if err != nil {
			return nil, fds, api.Errorf(api.KindUnisolated, "prepare /dev: %w", err)
		}
		is.Dev = add(dev)
	}
	if r.Files != nil {
		fd, err := unix.FcntlInt(r.Files.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fds, err
		}
		is.Saved = add(fd)
	}
	if l.cfg.Kernel != nil {
		if is.Keeper, err = l.KeeperPlan(r.Spec, r.Memory, add); err != nil {
			return nil, fds, err
		}
	}
	if len(fds)+1 > initns.MaxFDs {
		return nil, fds, api.Errorf(api.KindUnsupported, "the sandbox needs %d layers and mounts, the maximum is %d", len(fds), initns.MaxFDs-1)
	}
	is.Guest = len(fds)
	return is, fds, nil
}

// describeTrees adds the layers of the root and the read-only mounts in it.
func (l *Launcher) describeTrees(is *initns.Spec, trees []*Tree, userns int, add func(int) int) error {
	for i := len(trees) - 1; i >= 0; i-- { // the top one first
		lower, err := lowerOf(trees[i].tree, userns, add)
		if err != nil {
			return err
		}
		is.Roots = append(is.Roots, lower)
	}
	for _, t := range trees {
		for _, m := range t.tree.Mounts {
			lowers, err := l.lowers(m.Lowers, add)
			if err != nil {
				return api.Errorf(api.KindUnisolated, "mount the layers of %s: %w", m.Target, err)
			}
			is.Mounts = append(is.Mounts, initns.Mount{Target: m.Target, Lowers: lowers})
		}
	}
	return nil
}

// lowerOf describes the directory of a layer. A packed one is always a mount: its path is of this
// process alone.
func lowerOf(t layer.Tree, userns int, add func(int) int) (initns.Lower, error) {
	if userns < 0 && !t.Packed() {
		return initns.Lower{FD: -1, Path: t.Root}, nil
	}
	fd, err := t.CloneMount()
	if err != nil {
		return initns.Lower{}, err
	}
	if userns < 0 {
		return initns.Lower{FD: add(fd)}, nil
	}
	if fd, err = ids.Map(fd, t.Root, userns); ids.Unmappable(err) {
		fd, err = t.CloneMount()
	}
	if err != nil {
		return initns.Lower{}, err
	}
	return initns.Lower{FD: add(fd)}, nil
}

// sealedLower describes a layer that a fork made. Its owners are ids inside: they must be mapped.
func sealedLower(s *forklayer.Layer, userns int, add func(int) int) (initns.Lower, error) {
	fd, err := s.Clone()
	if err == nil && userns >= 0 {
		fd, err = ids.Map(fd, s.Path(), userns)
	}
	if err != nil {
		return initns.Lower{}, err
	}
	return initns.Lower{FD: add(fd)}, nil
}

// Base describes what is the same for all sandboxes.
func (l *Launcher) Base() *initns.Spec {
	is := &initns.Spec{RunDir: -1, Guest: -1, Dev: -1, Saved: -1, UID: ids.UserUID, GID: ids.UserUID,
		Hidepid: true, Filter: l.filter, Quotas: l.quotas(), Clocks: l.clocks && !l.cfg.Ranges}
	if l.cfg.Ranges {
		is.Switch, is.UID, is.GID = true, ids.GuestUID, ids.GuestUID
		is.Caps, is.Bounding = Mask(GuestCaps), 0
	}
	if l.cfg.Kernel != nil {
		is.Dirs = append(is.Dirs, birth.Dir{Path: keeper.GuestTarget, Mode: 0o755, UID: ids.RootUID, GID: ids.RootUID})
	}
	is.Dirs = append(is.Dirs, OwnDirs()...)
	return is
}
