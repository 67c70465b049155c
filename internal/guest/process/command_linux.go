package process

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/credential"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/spawn"
)

// Programs decides what a command is, and starts it.
type Programs interface {
	// Prepare converts a request to a command, without its descriptors.
	Prepare(id *identity.Identity, in *envd.StartRequest) (*spawn.Command, error)
	// Start starts a command, a child of this process, and returns its pid.
	Start(c *spawn.Command) (pid int, err error)
	// Explain converts an error of Start to a readable one.
	Explain(c *spawn.Command, cause error) error
	// PidFDs reports whether Start sets the command's PidFD.
	PidFDs() bool
	// PrepareThreads does work in advance that would delay the first command.
	PrepareThreads() error
}

// Files are the programs of the guest's own file system.
type Files struct {
	Spawner *spawn.Spawner
	Access  *credential.Switcher
}

// Start implements Programs.
func (f Files) Start(c *spawn.Command) (int, error) { return f.Spawner.Start(c) }

// PidFDs implements Programs.
func (f Files) PidFDs() bool { return f.Spawner.PidFDs }

// PrepareThreads implements Programs.
func (f Files) PrepareThreads() error { return f.Spawner.PrepareThreads() }

// Prepare implements Programs.
func (Files) Prepare(id *identity.Identity, in *envd.StartRequest) (*spawn.Command, error) {
	cfg := in.Process
	if cfg.Cmd == "" {
		return nil, api.Errorf(api.KindInvalid, "the request has no command")
	}
	base := id.Environment()
	c := &spawn.Command{Identity: &id.Identity, Env: base.List, Dir: id.Base()}
	if cfg.Cwd != nil && *cfg.Cwd != "" {
		c.Dir = id.Resolve(*cfg.Cwd)
	}
	path := base.Map["PATH"]
	if len(cfg.Envs) > 0 {
		env := maps.Clone(base.Map)
		for k, v := range cfg.Envs {
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
				return nil, api.Errorf(api.KindInvalid, "environment variable %q: the name or value has a character that is not allowed", k)
			}
			env[k] = v
		}
		c.Env, path = identity.EnvList(env), env["PATH"]
	}
	c.Argv = append([]string{cfg.Cmd}, cfg.Args...)
	for _, a := range c.Argv {
		if strings.Contains(a, "\x00") {
			return nil, api.Errorf(api.KindInvalid, "an argument contains a NUL byte")
		}
	}
	var err error
	c.Path, err = lookPath(cfg.Cmd, path)
	return c, err
}

// lookPath finds a program as execvp does, but ignores relative entries of PATH: they name a
// different program in every directory.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // exec reports if it does not exist
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

// Explain implements Programs. The errno does not show whether the directory or the program
// caused it, so it checks the directory.
func (f Files) Explain(c *spawn.Command, cause error) error {
	var e *api.Error
	if errors.As(cause, &e) {
		return cause
	}
	name := c.Argv[0]
	err := f.Access.As(c.Identity, func() error {
		fd, err := unix.Open(c.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS)
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return api.Errorf(api.KindInvalid, "cwd '%s' does not exist", c.Dir)
	case errors.Is(err, unix.EACCES):
		return api.Errorf(api.KindDenied, "permission denied: cwd '%s'", c.Dir)
	}
	switch {
	case errors.Is(cause, unix.ENOENT):
		file := c.Path
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.Dir, file)
		}
		if _, err := os.Stat(file); err == nil {
			return api.Errorf(api.KindNotFound, "command not found: %s: its interpreter does not exist", name)
		}
		return api.Errorf(api.KindNotFound, "command not found: %s", name)
	case errors.Is(cause, unix.ENOTDIR):
		return api.Errorf(api.KindNotFound, "command not found: %s", name)
	case errors.Is(cause, unix.EACCES), errors.Is(cause, unix.EPERM):
		return api.Errorf(api.KindDenied, "permission denied: %s", name)
	case errors.Is(cause, unix.ENOEXEC):
		return api.Errorf(api.KindDenied, "permission denied: %s: not a program that this machine can run", name)
	case errors.Is(cause, unix.E2BIG), errors.Is(cause, unix.ENAMETOOLONG): // gVisor's errno
		return api.Errorf(api.KindInvalid, "start %s: its arguments and environment are too long", name)
	case errors.Is(cause, unix.EAGAIN), errors.Is(cause, unix.ENOMEM):
		return api.Errorf(api.KindExhausted, "start %s: process or memory limit reached: %w", name, cause)
	}
	return api.Errorf(api.KindInternal, "start %s: %w", name, cause)
}
