package guest

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// command is what is about to be started.
type command struct {
	id    *identity
	path  string
	argv  []string
	env   []string
	dir   string
	files []uintptr
	pty   bool
	pidFD int // of the process, once it was started, where the guest asks for one
}

// prepare turns a request into a command, without its descriptors.
func (s *Server) prepare(id *identity, cfg *envd.ProcessConfig) (*command, error) {
	if cfg.Cmd == "" {
		return nil, api.Errorf(api.KindInvalid, "the request names no command")
	}
	c := &command{id: id, env: id.env, dir: id.base}
	if cfg.Cwd != nil && *cfg.Cwd != "" {
		c.dir = s.resolve(id, *cfg.Cwd)
	}
	path := id.envMap["PATH"]
	if len(cfg.Envs) > 0 {
		env := maps.Clone(id.envMap)
		for k, v := range cfg.Envs {
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
				return nil, api.Errorf(api.KindInvalid, "environment variable %q: its name or value is not allowed", k)
			}
			env[k] = v
		}
		c.env, path = envList(env), env["PATH"]
	}
	c.argv = append([]string{cfg.Cmd}, cfg.Args...)
	for _, a := range c.argv {
		if strings.Contains(a, "\x00") {
			return nil, api.Errorf(api.KindInvalid, "an argument holds a NUL byte")
		}
	}
	var err error
	c.path, err = lookPath(cfg.Cmd, path)
	return c, err
}

func envList(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// lookPath finds a command as execvp does. Relative entries of PATH are passed
// over: they would mean another program in every directory.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // the kernel says whether it is there
	}
	var denied bool
	for entry := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(entry) {
			continue
		}
		file := entry + "/" + name
		var st unix.Stat_t
		if unix.Stat(file, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if st.Mode&0o111 != 0 {
			return file, nil
		}
		denied = true
	}
	if denied {
		return "", api.Errorf(api.KindDenied, "permission denied: %s", name)
	}
	return "", api.Errorf(api.KindNotFound, "command not found: %s", name)
}

// spawner forks. What a command must not have is given up by the thread that
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
type spawner struct {
	cfg   *birth.Config
	swtch bool
	// pidFDs says that this kernel has descriptors of processes, by which the pump
	// sees a command's end without being told by the reaper.
	pidFDs bool
	cell   *cell                  // nil where the guest shares its kernel
	links  *netlink               // nil where the commands' netlink sockets are not counted
	kept   map[string]chan func() // by identity; what is sent runs on its thread
}

// newSpawner must be called before anything is spawned. The commands of a guest
// that is an init are kept from it by Landlock too, where there is any.
func newSpawner(cfg *birth.Config, ids map[string]*identity) (*spawner, error) {
	rules, swtch := ruleset(-1), cfg.Switch
	sp := &spawner{cfg: cfg, swtch: swtch, kept: make(map[string]chan func())}
	var err error
	if cfg.PID1 {
		if rules, err = newRuleset(); err != nil {
			return nil, err
		}
		defer rules.close()
	}
	if cfg.PID1 && !cfg.OwnKernel {
		if sp.links, err = newNetlink(); err != nil {
			return nil, err
		}
	}
	if sp.cell, err = newCell(cfg); err != nil {
		return nil, &stageError{"cell", err}
	}
	sp.pidFDs = havePidFDs()
	for name, id := range ids {
		if len(id.Caps) == 0 && (swtch || rules < 0 && sp.links == nil) {
			continue
		}
		ch := make(chan func())
		ready := make(chan error)
		go func() {
			runtime.LockOSThread() // for good
			err := sp.giveUp(id.Caps)
			if err == nil && !swtch {
				err = sp.links.filter()
			}
			if err == nil {
				err = rules.restrict()
			}
			if err == nil {
				err = sp.cell.keepUID(uint32(os.Geteuid()))
			}
			ready <- err
			for f := range ch {
				f()
			}
		}()
		if err := <-ready; err != nil {
			return nil, err
		}
		sp.kept[name] = ch
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

// spawn starts a command and gives its pid.
func (sp *spawner) spawn(c *command) (pid int, err error) {
	attr := &syscall.ProcAttr{Dir: c.dir, Env: c.env, Files: c.files, Sys: &syscall.SysProcAttr{AmbientCaps: c.id.Caps}}
	if c.pty {
		attr.Sys.Setsid, attr.Sys.Setctty = true, true
	} else {
		attr.Sys.Setpgid = true
	}
	if sp.swtch {
		attr.Sys.Credential = &syscall.Credential{Uid: c.id.UID, Gid: c.id.GID, Groups: c.id.Groups}
	}
	if thread := sp.kept[c.id.Name]; thread != nil {
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
	if err := sp.giveUp(nil); err != nil {
		return 0, api.Errorf(api.KindInternal, "give up capabilities: %w", err)
	}
	return sp.forkExec(c, attr)
}

// commandSlack is how late a command's timers may be, in nanoseconds: as for every
// process of Linux that was not told otherwise.
const commandSlack = 50_000

// forkExec bounds the child at once, on the thread that forked it: until then it
// may take the guest's own reserve of processes.
func (sp *spawner) forkExec(c *command, attr *syscall.ProcAttr) (int, error) {
	if sp.pidFDs {
		attr.Sys.PidFD = &c.pidFD
	}
	// The guest's own timers may be late; those of commands are not.
	if sp.cell != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(sp.cell.group.Fd())
		attr.Sys.Chroot = sp.cell.root
	}
	if !sp.cfg.OwnKernel { // nobody set one, and gVisor has none
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, commandSlack, 0, 0, 0); err != nil {
			return 0, err
		}
	}
	pid, err := syscall.ForkExec(c.path, c.argv, attr)
	if err == nil {
		limitChild(sp.cfg, pid)
	}
	return pid, err
}

// explain turns a failed fork or exec into what a person needs to know. The
// kernel's answer does not say whether the directory or the command was at
// fault, so that is looked up afterwards.
func (s *Server) explain(c *command, cause error) error {
	var e *api.Error
	if errors.As(cause, &e) {
		return cause
	}
	name := c.argv[0]
	err := s.files.as(c.id, func() error {
		fd, err := unix.Open(c.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS)
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return api.Errorf(api.KindInvalid, "cwd '%s' does not exist", c.dir)
	case errors.Is(err, unix.EACCES):
		return api.Errorf(api.KindDenied, "permission denied: cwd '%s'", c.dir)
	}
	switch {
	case errors.Is(cause, unix.ENOENT):
		file := c.path
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.dir, file)
		}
		if _, err := os.Stat(file); err == nil {
			return api.Errorf(api.KindNotFound, "command not found: %s: the interpreter that it names is missing", name)
		}
		return api.Errorf(api.KindNotFound, "command not found: %s", name)
	case errors.Is(cause, unix.ENOTDIR):
		return api.Errorf(api.KindNotFound, "command not found: %s", name)
	case errors.Is(cause, unix.EACCES), errors.Is(cause, unix.EPERM):
		return api.Errorf(api.KindDenied, "permission denied: %s", name)
	case errors.Is(cause, unix.ENOEXEC):
		return api.Errorf(api.KindDenied, "permission denied: %s: it is not a program that this machine can run", name)
	case errors.Is(cause, unix.E2BIG), errors.Is(cause, unix.ENAMETOOLONG): // which gVisor says
		return api.Errorf(api.KindInvalid, "start %s: its arguments and environment are too long", name)
	case errors.Is(cause, unix.EAGAIN), errors.Is(cause, unix.ENOMEM):
		return api.Errorf(api.KindExhausted, "start %s: no more processes or memory: %w", name, cause)
	}
	return api.Errorf(api.KindInternal, "start %s: %w", name, cause)
}
