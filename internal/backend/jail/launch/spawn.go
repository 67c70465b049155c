package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
)

// namespaces are those of every sandbox.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// The capabilities of root inside, and of the guest, which also changes ids, signals every
// process and drops capabilities of what it starts.
var (
	rootCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID,
		unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE}
	GuestCaps = append([]uintptr{unix.CAP_KILL, unix.CAP_SETPCAP}, rootCaps...)
	// stageCaps are the capabilities of a stage that is not root inside. The file
	// capabilities are for the overlay, which uses those of its mounter.
	stageCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
		unix.CAP_SYS_TIME,     // for the clocks of its namespace
		unix.CAP_SYS_RESOURCE, // for the quotas of its namespace
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD}
)

func Mask(caps []uintptr) uint64 {
	var m uint64
	for _, c := range caps {
		m |= 1 << c
	}
	return m
}

// Spawn forks the stage into new namespaces and the group. r is nil if the sandbox has a
// single id.
func (l *Launcher) Spawn(g *cgroup.Group, r *ids.Range) (_ *child.Child, err error) {
	c, theirs, err := child.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	// With a number of processors the runtime does not read the host's control groups.
	// There are two, because the runtime's monitor runs late (guestSlack): until then a
	// thread that waits in the kernel occupies one. The environment has nothing else.
	processors := "2"
	if l.cfg.Kernel != nil {
		processors = "1" // a keeper is mostly idle
	}
	o := forker.Order{
		Args: []string{initns.Argv0}, Env: []string{"GOMAXPROCS=" + processors}, Namespaces: namespaces,
		Clocks: l.clocks && l.cfg.Ranges, // otherwise the stage makes them, in its user namespace
		// An empty session keyring for all its threads.
		Keyring: l.cfg.Ranges, Slack: guestSlack,
	}
	if r != nil {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: r.Base, Size: ids.Size}}
		o.UIDs, o.GIDs, o.Root = all, all, true
		o.Owner = r.Base
	} else {
		id := ids.UserUID
		if l.cfg.Kernel != nil {
			id = ids.RootUID // the ids of the guest's users exist in its kernel only
		}
		o.UIDs = []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Geteuid(), Size: 1}}
		o.GIDs = []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getegid(), Size: 1}}
		o.Ambient = stageCaps
	}
	if o.Seat, err = g.Seat(); err != nil {
		return nil, err
	}
	defer o.Seat.Close()
	born, err := l.forker.Fork(o, theirs)
	if err != nil {
		return nil, err
	}
	proc, err := os.FindProcess(born.PID)
	if err != nil {
		born.Close() // it ends with its control socket
		return nil, err
	}
	return &child.Child{Child: born, Proc: proc, Conn: c}, nil
}
