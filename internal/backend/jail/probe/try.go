package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/diagnosis"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/sandbox"
)

const (
	timeout    = 10 * time.Second
	removeWait = 5 * time.Second
	prefix     = "probe-"
)

// RemoveLeftovers removes the directories of trials of an earlier daemon that was killed.
// They do not have the name of a sandbox, so nothing else removes them.
func RemoveLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// trial is a sandbox that is built and destroyed.
type trial struct {
	p     *Prober
	dir   string
	ids   *ids.Range
	child *child.Child
	spec  *initns.Spec
	fds   []int
}

// add takes a descriptor for the stage and returns its index in the packet.
func (t *trial) add(fd int) int {
	t.fds = append(t.fds, fd)
	return len(t.fds) - 1
}

// try builds a sandbox up to its guest, or up to an answer of the guest if it has a kernel
// of its own, and destroys it. It returns why that is not possible, or "". more adds to
// the sandbox, which then has no guest; userns is its user namespace, or -1.
func (p *Prober) try(ctx context.Context, more func(is *initns.Spec, userns int, add func(int) int) error) (reason, fix string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	const writable = "Make the run directory writable."
	dir, err := os.MkdirTemp(p.cfg.Dir, prefix)
	if err != nil {
		return err.Error(), writable
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{"proc", "dev", "etc"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err.Error(), writable
		}
	}
	t := &trial{p: p, dir: dir, spec: p.cfg.Launcher.Base()}
	if p.cfg.IDs != nil {
		if t.ids, err = p.cfg.IDs.Get(); err != nil {
			return "lease a uid range: " + err.Error(), "Make the directory " + ids.Dir + " writable."
		}
		defer p.cfg.IDs.Put(t.ids)
	}
	id := p.name()
	g, err := p.cfg.Cgroups.Create(string(id), cgroup.Limits{})
	if err != nil {
		return err.Error(), "Make the control group hierarchy writable, or hide it from the daemon."
	}
	defer p.remove(id, g)
	if t.child, err = p.cfg.Launcher.Spawn(g, t.ids); err != nil {
		return diagnosis.Spawn(err)
	}
	defer t.child.Conn.Close()
	defer t.child.Kill()
	stop := context.AfterFunc(ctx, func() { t.child.Conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		for _, fd := range t.fds {
			unix.Close(fd)
		}
	}()
	return t.build(more)
}

// build sends the child what to build.
func (t *trial) build(more func(is *initns.Spec, userns int, add func(int) int) error) (reason, fix string) {
	is := t.spec
	is.Hostname, is.Probe, is.DiskBytes, is.DiskInodes = "probe", true, 1<<20, 1024
	lower, userns := initns.Lower{FD: -1, Path: t.dir}, -1
	if t.ids != nil {
		var err error
		userns, err = unix.Open(fmt.Sprintf("/proc/%d/ns/user", t.child.Proc.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "open the user namespace of a child: " + err.Error(), "Give the daemon CAP_SYS_PTRACE."
		}
		defer unix.Close(userns)
		fd, err := ids.TryMapMount(t.dir, userns)
		if err != nil {
			return err.Error(), "Use a file system that supports id-mapped mounts for the run directory, such as ext4, xfs, btrfs or tmpfs."
		}
		lower = initns.Lower{FD: t.add(fd)}
	}
	is.Roots = []initns.Lower{lower}
	if more == nil && t.p.cfg.Launcher.Kernel() != nil {
		if err := t.boot(); err != nil {
			return diagnosis.Start(err)
		}
		return "", ""
	}
	if more != nil {
		if err := more(is, userns, t.add); err != nil {
			return err.Error(), ""
		}
	}
	if err := t.child.Send(is, t.fds); err != nil {
		return "send to the first process: " + err.Error(), ""
	}
	disk, err := t.child.AwaitBuilt()
	if err != nil {
		return diagnosis.Start(err)
	}
	unix.Close(disk)
	return "", ""
}

// boot boots a guest with a kernel of its own and waits until it answers: only then it is
// known that the kernel runs on this host.
func (t *trial) boot() error {
	is, l := t.spec, t.p.cfg.Launcher
	link := filepath.Join(t.dir, "link")
	if err := os.Mkdir(link, 0o700); err != nil {
		return err
	}
	fd, err := unix.Open(link, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	is.RunDir = t.add(fd)
	if t.ids != nil {
		if err := unix.Fchown(fd, t.ids.Base, t.ids.Base); err != nil {
			return err
		}
	}
	spec := sandbox.Spec{ID: api.NewSandboxID(), Hostname: is.Hostname, Limits: api.Limits{DiskBytes: is.DiskBytes, MemoryBytes: 64 << 20, Processes: 64}}
	is.Probe = false
	if is.Keeper, err = l.KeeperPlan(spec, false, t.add); err != nil {
		return err
	}
	if err := t.child.Send(is, t.fds); err != nil {
		return err
	}
	if err := t.child.Send(l.GuestConfig(spec, nil), nil); err != nil {
		return err
	}
	disk, err := t.child.AwaitBuilt()
	if err != nil {
		return err
	}
	unix.Close(disk)
	return t.child.AwaitReady()
}
