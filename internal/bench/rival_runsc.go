package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// runsc runs gVisor by its own command line: the program that the gvisor backend
// runs too, without the jail, keeper and guest around it.
type runsc struct {
	program string
	dir     string // of ours alone
	n       atomic.Int64
}

// newRunsc makes a directory ready. The program is the one that sandboxes run.
func newRunsc(program, dir string) (*runsc, error) {
	switch {
	case program == "":
		return nil, errors.New("this build has none")
	case os.Geteuid() != 0:
		return nil, errors.New("its command line needs root")
	}
	for _, d := range []string{"state", "rootfs"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	return &runsc{program: program, dir: dir}, hostRoot().skeleton(filepath.Join(dir, "rootfs"))
}

// bundle writes a bundle that runs a command, and gives its directory.
func (p *runsc) bundle(name string, argv []string) (string, error) {
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	config := bundleConfig(hostRoot(), argv, os.Geteuid(), os.Getegid())
	config["root"] = object{"path": filepath.Join(p.dir, "rootfs"), "readonly": false}
	b, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644)
}

// id names the next container.
func (p *runsc) id() string {
	return "hortus-bench-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(p.n.Add(1), 10)
}

// command is one of its command lines, with what the gvisor backend says to it as far
// as that is about speed.
func (p *runsc) command(ctx context.Context, args ...string) *exec.Cmd {
	flags := []string{"--root=" + filepath.Join(p.dir, "state"), "--platform=systrap", "--network=none", "--ignore-cgroups",
		"--host-settings=ignore", "--overlay2=root:memory", "--watchdog-action=log"}
	cmd := exec.CommandContext(ctx, p.program, append(flags, args...)...)
	// Told to end it takes its container with it.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// start runs a container that continues by itself. What it writes is lost.
func (p *runsc) start(ctx context.Context, id string, args ...string) error {
	cmd := p.command(ctx, append(args, id)...)
	return silent(cmd)
}

// silent runs a command whose descendants may keep its output open.
func silent(cmd *exec.Cmd) error {
	f, err := os.CreateTemp("", "hortus-bench-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd.Stderr = f
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(f.Name())
		return failure(err, string(said))
	}
	return nil
}

// remove ends a container and forgets it, also after a cancelled context.
func (p *runsc) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rivalCleanup)
	defer cancel()
	return silent(p.command(ctx, "delete", "--force", id))
}

// close removes every container that is left.
func (p *runsc) close(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(p.dir, "state"))
	errs := []error{err}
	seen := map[string]bool{}
	for _, e := range entries {
		// Its state files are named by the container, with more behind it.
		for i := int64(1); i <= p.n.Load(); i++ {
			id := "hortus-bench-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(i, 10)
			if !seen[id] && holds(e.Name(), id) {
				seen[id] = true
				errs = append(errs, p.remove(ctx, id))
			}
		}
	}
	// All its gofers share one empty network namespace, which it keeps by a mount.
	if err := syscall.Unmount(filepath.Join(p.dir, "state", "null-netns"), syscall.MNT_DETACH); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// holds reports whether a state file is that of a container.
func holds(name, id string) bool {
	rest, ok := strings.CutPrefix(name, id)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// plainRunsc is the whole life of a container of gVisor's.
func plainRunsc(program string) rival {
	return rival{
		name: "runsc",
		note: "gVisor's own command line: the same kernel and platform; no limits, no guest and no second command, nothing hidden in /usr, its gofer and its kernel with more rights on the host",
		prepare: func(ctx context.Context, dir string, argv []string) (call, error) {
			p, err := newRunsc(program, dir)
			if err != nil {
				return call{}, err
			}
			bundle, err := p.bundle("bundle", argv)
			if err != nil {
				return call{}, err
			}
			return call{
				command: func(ctx context.Context) *exec.Cmd { return p.command(ctx, "run", "--bundle="+bundle, p.id()) },
				close:   p.close,
			}, nil
		},
	}
}
