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

// Spawner forks. What a command must not have is given up by the thread that
// forks it, for good, since what is inherited belongs to threads.
//
// An identity with capabilities needs a thread whose inheritable set holds them,
// and just them; with an empty bounding set a thread that has given some up cannot
// take them back. Commands that Landlock confines need one thread too: they are in
// the domain of the thread that forks them, and could not signal each other across
// domains. Such an identity has a thread that does nothing else and lives as long
// as the process. The others' commands are forked where the request is served,
// which saves two switches between threads: there the guest is out of reach by its
// uid.
type Spawner struct {
	cfg *birth.Config
	// PidFDs says that this kernel has descriptors of processes, by which the pump
	// sees a command's end without being told by the reaper.
	PidFDs  bool
	cell    *confinement.Cell      // nil where the guest shares its kernel
	netlink *confinement.Netlink   // nil where the commands' netlink sockets are not counted
	threads map[string]chan func() // by identity; what is sent runs on its thread
}

// New must be called before anything is spawned. The commands of a guest
// that is an init are kept from it by Landlock too, where there is any.
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
	if cfg.PID1 && !cfg.OwnKernel {
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
			runtime.LockOSThread() // for good
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

// havePidFDs says whether this kernel has descriptors of processes. It is asked for
// one of a process that cannot be, since a filter may refuse one of the guest itself.
func havePidFDs() bool {
	const nobody = math.MaxInt32 // no kernel has so many
	fd, err := unix.PidfdOpen(nobody, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil || err == unix.ESRCH
}

// Start starts a command and gives its pid.
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

// commandSlack is how late a command's timers may be, in nanoseconds: as for every
// process of Linux that was not told otherwise.
const commandSlack = 50_000

// forkExec bounds the child at once, on the thread that forked it: until then it
// may take the guest's own reserve of processes.
func (sp *Spawner) forkExec(c *Command, attr *syscall.ProcAttr) (int, error) {
	if sp.PidFDs {
		attr.Sys.PidFD = &c.PidFD
	}
	// The guest's own timers may be late; those of commands are not.
	if sp.cell != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(sp.cell.Group.Fd())
		attr.Sys.Chroot = sp.cell.Root
	}
	if !sp.cfg.OwnKernel { // nobody set one, and gVisor has none
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, commandSlack, 0, 0, 0); err != nil {
			return 0, err
		}
	}
	pid, err := syscall.ForkExec(c.Path, c.Argv, attr)
	if err == nil {
		limitCommand(sp.cfg, pid)
	}
	return pid, err
}
