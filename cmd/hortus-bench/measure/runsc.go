package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
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
		return program.Failure(err, string(said))
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

// plainMB is how much is held by what plain gVisor saves and restores.
const plainMB = 100

// besidePlain measures the gvisor backend beside plain gVisor: a command in a sandbox that
// is there, a sandbox's whole life, a fork. One of ours and one of its own in turn.
// Its clocks are its processes, from the fork of the first to the exit of the last.
func (r *run) besidePlain(ctx context.Context) (err error) {
	const backend = "gvisor"
	if !slices.Contains(r.backends, backend) {
		r.report(figure.Row{Name: rowRival + "runsc", Note: "runsc: the gvisor backend is not measured"})
		return nil
	}
	dir, err := rivalsDir()
	if err != nil {
		return api.Errorf(api.KindInternal, "rivals: %w", err)
	}
	defer os.RemoveAll(dir)
	p, err := newRunsc(r.Runsc, dir)
	if err != nil {
		r.report(figure.Row{Name: rowRival + "runsc", Note: "runsc: " + err.Error()})
		return nil
	}
	defer p.close(ctx) // what is left lies in a directory that goes
	once, err := p.bundle("once", []string{command})
	if err != nil {
		return err
	}
	theirs, holding, err := p.held(ctx)
	if err != nil {
		r.report(figure.Row{Name: rowRival + "runsc", Note: "runsc: " + err.Error()})
		return ctx.Err()
	}
	ours, err := r.held(ctx, roomy(backend, plainMB), plainMB)
	if err != nil {
		return err
	}
	defer r.kill(ours)
	held := strconv.Itoa(plainMB)
	pairs := [][2]*series{
		{
			{row: figure.Row{Name: rowRecorded, Backend: backend}, sample: clocked(func() error { return r.recorded(ctx, ours) })},
			{row: figure.Row{Name: rowRival + "runsc exec"}, sample: clocked(func() error { return silent(p.command(ctx, "exec", theirs, command)) })},
		},
		{
			{row: figure.Row{Name: rowWhole + cold.name, Backend: backend}, sample: clocked(func() error { return r.whole(ctx, cold, backend) })},
			{row: figure.Row{Name: rowRival + "runsc run"}, sample: clocked(func() error { return silent(p.command(ctx, "run", "--bundle="+once, p.id())) })},
		},
		{
			{row: figure.Row{Name: family(rowFork, plainMB, 1), Backend: backend}, sample: func() ([]time.Duration, error) {
				f, err := r.fork(ctx, ours, api.ForkSandbox{Count: 1}, nil)
				return f.each, err
			}},
			{
				row:    figure.Row{Name: rowRival + "runsc checkpoint, restore, exec, " + held + " MB"},
				sample: func() ([]time.Duration, error) { return p.fork(ctx, theirs, holding) },
			},
		},
	}
	for i, pair := range pairs {
		n := max(r.N/8, 1)
		if i == 0 {
			n = r.N
		}
		if err := r.inTurn(ctx, pair[:], n, 1); err != nil {
			return err
		}
		for j, s := range pair {
			if j > 0 {
				s.row.Baseline = pair[0].row.Name
			}
			r.times(s.row, s.times, figure.Median(pair[0].times))
		}
	}
	return nil
}

// held starts a container in which a process holds plainMB.
func (p *runsc) held(ctx context.Context) (id, bundle string, err error) {
	if bundle, err = p.bundle("held", python(holder, strconv.Itoa(plainMB))); err != nil {
		return "", "", err
	}
	id = p.id()
	if err = p.start(ctx, id, "run", "--detach", "--bundle="+bundle); err != nil {
		return "", "", err
	}
	return id, bundle, p.awaitHeld(ctx, id)
}

// awaitHeld waits until the program of a container holds what it is to hold.
func (p *runsc) awaitHeld(ctx context.Context, id string) error {
	const seen = `
import sys, time
while True:
    for line in open("/proc/1/status"):
        if line.startswith("VmRSS:") and int(line.split()[1]) >= int(sys.argv[1]) << 10:
            sys.exit(0)
    time.sleep(0.05)
`
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return silent(p.command(ctx, append([]string{"exec", id}, python(seen, strconv.Itoa(plainMB))...)...))
}

// fork saves a container, which continues, starts another from that, and runs a command
// in it. What comes after is not counted.
func (p *runsc) fork(ctx context.Context, id, bundle string) (_ []time.Duration, err error) {
	image := filepath.Join(p.dir, "image")
	if err := os.Mkdir(image, 0o700); err != nil {
		return nil, err
	}
	child := p.id()
	defer func() {
		err = errors.Join(err, os.RemoveAll(image))
	}()
	start := time.Now()
	if err := silent(p.command(ctx, "checkpoint", "--image-path="+image, "--leave-running", "--compression=none", id)); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := p.start(ctx, child, "restore", "--detach", "--image-path="+image, "--bundle="+bundle); err != nil {
		return nil, fmt.Errorf("restore: %w", errors.Join(err, p.remove(ctx, child)))
	}
	if err := silent(p.command(ctx, "exec", child, command)); err != nil {
		return nil, fmt.Errorf("exec: %w", errors.Join(err, p.remove(ctx, child)))
	}
	took := time.Since(start)
	return []time.Duration{took}, p.remove(ctx, child)
}
