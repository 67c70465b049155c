package spawn

import (
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/confinement"
)

// Command is a program to start.
type Command struct {
	Identity *birth.Identity
	Path     string
	Argv     []string
	Env      []string
	Dir      string
	Files    []uintptr // standard input, output and error
	Terminal bool      // Files are a terminal, which becomes the controlling one
	PidFD    int       // descriptor of the process once it is started; see PidFDs
}

// Spawner forks commands. Children inherit privileges from the thread that forks them, so
// that thread permanently drops those that a command must not have.
//
// Most commands are forked on the thread that serves the request, which saves two switches
// between threads. An identity has its own thread in two cases. If it has capabilities: the
// thread's inheritable set must contain only these, and a thread with an empty bounding set
// cannot regain what it dropped. If commands share the guest's uid, and Landlock restricts
// them or their netlink sockets are counted: with Landlock, commands can signal each other
// only if the same thread forked them.
type Spawner struct {
	cfg *birth.Config
	// PidFDs reports whether the kernel has pidfds, by which a pump sees the end of a
	// command without the reaper.
	PidFDs  bool
	cell    *confinement.Cell      // nil if the guest shares its kernel
	netlink *confinement.Netlink   // nil if netlink sockets are not counted
	threads map[string]chan func() // by identity; functions sent run on its thread
}

// New returns a spawner. It must be called before anything is forked. If the guest is an
// init, its commands are restricted by Landlock too, if the kernel has it.
func New(cfg *birth.Config, cell *confinement.Cell) (*Spawner, error) {
	rules := confinement.NoRuleset
	sp := &Spawner{cfg: cfg, cell: cell, threads: make(map[string]chan func())}
	var err error
	if cfg.PID1 {
		if rules, err = confinement.NewRuleset(); err != nil {
			return nil, err
		}
		defer rules.Close()
	}
	if cfg.PID1 && !cfg.OwnKernel && !cfg.Gvisor {
		if sp.netlink, err = confinement.NewNetlink(); err != nil {
			return nil, err
		}
	}
	sp.PidFDs = havePidFDs()
	for _, id := range cfg.Identities {
		if len(id.Caps) == 0 && (cfg.Switch || rules == confinement.NoRuleset && sp.netlink == nil) {
			continue
		}
		ch := make(chan func())
		ready := make(chan error)
		go func() {
			runtime.LockOSThread() // permanently
			err := sp.dropPrivileges(id.Caps)
			if err == nil && !cfg.Switch {
				err = sp.netlink.Filter()
			}
			if err == nil {
				err = rules.Restrict()
			}
			if err == nil {
				err = sp.cell.ForbidUID(uint32(os.Geteuid()))
			}
			ready <- err
			for f := range ch {
				f()
			}
		}()
		if err := <-ready; err != nil {
			return nil, err
		}
		sp.threads[id.Name] = ch
	}
	return sp, nil
}

// havePidFDs reports whether the kernel has pidfds. It tries to open one of a pid that cannot
// exist, because a filter may refuse one of the guest itself.
func havePidFDs() bool {
	const nobody = math.MaxInt32 // higher than any pid
	fd, err := unix.PidfdOpen(nobody, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil || err == unix.ESRCH
}

// Start starts a command and returns its pid.
func (sp *Spawner) Start(c *Command) (pid int, err error) {
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: c.Files, Sys: &syscall.SysProcAttr{AmbientCaps: c.Identity.Caps}}
	if c.Terminal {
		attr.Sys.Setsid, attr.Sys.Setctty = true, true
	} else {
		attr.Sys.Setpgid = true
	}
	if sp.cfg.Switch {
		attr.Sys.Credential = &syscall.Credential{Uid: c.Identity.UID, Gid: c.Identity.GID, Groups: c.Identity.Groups}
	}
	if thread := sp.threads[c.Identity.Name]; thread != nil {
		done := make(chan struct{})
		thread <- func() {
			defer close(done)
			pid, err = sp.forkExec(c, attr)
		}
		<-done
		return pid, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := sp.dropPrivileges(nil); err != nil {
		return 0, api.Errorf(api.KindInternal, "give up capabilities: %w", err)
	}
	return sp.forkExec(c, attr)
}

// commandSlack is the timer slack of commands, in nanoseconds: the default of Linux.
const commandSlack = 50_000

// forkExec forks a command and limits its processes at once: until then it may use the
// guest's reserve.
func (sp *Spawner) forkExec(c *Command, attr *syscall.ProcAttr) (int, error) {
	if sp.PidFDs {
		attr.Sys.PidFD = &c.PidFD
	}
	// The guest's own timers have a larger slack.
	if sp.cell != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(sp.cell.Group.Fd())
		attr.Sys.Chroot = sp.cell.Root
	}
	if !sp.cfg.OwnKernel { // gVisor has no timer slack, also where a cluster has it
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, commandSlack, 0, 0, 0); err != nil && err != unix.EINVAL {
			return 0, err
		}
	}
	pid, err := syscall.ForkExec(c.Path, c.Argv, attr)
	if err == nil {
		limitCommand(sp.cfg, pid)
	}
	return pid, err
}
