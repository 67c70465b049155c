//go:build linux

package gvisorbuild

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/embedded"
)

// Config is what is built, and where.
type Config struct {
	// Source is the source tree; function Source gives the program's own.
	Source string
	// Dir is where the executable is put. It is made, for this user alone, if missing.
	Dir string
	// Go is the go command; empty is the one in PATH.
	Go string
}

// Builder builds gVisor and its guest. Its methods may be called at any time, by several
// processes too.
type Builder struct{ cfg Config }

// New returns a builder.
func New(cfg Config) *Builder {
	if cfg.Go == "" {
		cfg.Go = "go"
	}
	return &Builder{cfg: cfg}
}

// unfinished is how directories of unfinished builds begin.
const unfinished = "build-" + Name + "-"

// stopWait is how long the go command has to end when the context is done.
const stopWait = 5 * time.Second

// Build builds the executable unless it is there. While another process builds it, Build
// waits for that. Errors are of KindUnsupported if there is no go command or no usable
// source, KindUnavailable if the build failed (the message has its last line, the log all
// of it), and KindCanceled.
func (b *Builder) Build(ctx context.Context) error {
	if err := checkSource(b.cfg.Source); err != nil {
		return err
	}
	if err := os.MkdirAll(b.cfg.Dir, 0o700); err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	held, err := b.wait(ctx)
	if err != nil {
		return err
	}
	defer held.Close()
	sum, err := key(b.cfg.Source)
	if err != nil {
		return api.Errorf(api.KindUnsupported, "build gVisor: %w", err)
	}
	if b.built(sum) {
		return nil
	}
	for _, name := range []string{failedName, logName} {
		if err := os.Remove(b.in(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return api.Errorf(api.KindInternal, "build gVisor: %w", err)
		}
	}
	if err := b.build(ctx, sum); err != nil {
		if ctx.Err() != nil {
			return api.Errorf(api.KindCanceled, "the build of gVisor was stopped")
		}
		return b.failed(sum, err)
	}
	return nil
}

// wait takes the lock. Its file's time is when the build began.
func (b *Builder) wait(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(b.in(lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		switch err := lock(f, unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			now := time.Now()
			if err := os.Chtimes(f.Name(), now, now); err != nil {
				f.Close()
				return nil, api.Errorf(api.KindInternal, "build gVisor: %w", err)
			}
			return f, nil
		case errBusy:
		default:
			f.Close()
			return nil, api.Errorf(api.KindInternal, "build gVisor: lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, api.Errorf(api.KindCanceled, "stopped while another process builds gVisor")
		case <-tick.C:
		}
	}
}

// build compiles, checks, and renames into place.
func (b *Builder) build(ctx context.Context, sum string) error {
	goCommand, err := exec.LookPath(b.cfg.Go)
	if err != nil {
		return api.Errorf(api.KindUnsupported, "gVisor cannot be built: there is no go command in PATH").
			WithHint("install Go, or use a release, which includes gVisor")
	}
	old, err := filepath.Glob(b.in(unfinished + "*"))
	if err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	for _, dir := range old {
		os.RemoveAll(dir) // of a process that was killed: we hold the lock
	}
	dir, err := os.MkdirTemp(b.cfg.Dir, unfinished)
	if err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(b.cfg.Source, module)
	// It makes the changed copy of gVisor, and the file that uses it.
	if err := b.run(ctx, "the changes of gVisor", goCommand, "-C", source, "run", "-mod=readonly", "./patch", dir); err != nil {
		return err
	}
	if err := b.compile(ctx, goCommand, source, ".", filepath.Join(dir, Name), "-modfile="+filepath.Join(dir, "gvisor.mod")); err != nil {
		return err
	}
	if err := b.compile(ctx, goCommand, b.cfg.Source, "./cmd/hortus-guest", filepath.Join(dir, guestName)); err != nil {
		return err
	}
	if err := check(filepath.Join(dir, Name), filepath.Join(b.cfg.Source, module, "go.mod")); err != nil {
		return err
	}
	// The guests of other builds of hortus: what runs has copies of them.
	if old, err = filepath.Glob(b.in(guestName + "-*")); err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	for _, path := range old {
		os.Remove(path)
	}
	err = errors.Join(os.Rename(filepath.Join(dir, guestName), GuestPath(b.cfg.Dir)), os.Rename(filepath.Join(dir, Name), Path(b.cfg.Dir)),
		os.WriteFile(b.in(noteName), []byte(sum), 0o600))
	if err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	return nil
}

// compile builds one executable.
func (b *Builder) compile(ctx context.Context, goCommand, dir, pkg, out string, flags ...string) error {
	args := append([]string{"-C", dir, "build", "-trimpath", "-mod=readonly", "-ldflags", "-s -w", "-o", out}, flags...)
	return b.run(ctx, filepath.Base(out), goCommand, append(args, pkg)...)
}

// run runs the go command, whose output is in the log. what names the result in errors.
func (b *Builder) run(ctx context.Context, what, goCommand string, args ...string) error {
	log, err := os.OpenFile(b.in(logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	defer log.Close()
	var last lastLine
	cmd := exec.CommandContext(ctx, goCommand, args...)
	// Without cgo both are linked statically: the guest runs where there is no other file.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	cmd.Stdout = io.MultiWriter(log, &last)
	cmd.Stderr = cmd.Stdout
	// The compilers are its children: a stop ends them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return api.Errorf(api.KindUnavailable, "go build of %s failed: %s", what, strings.TrimSpace(last.text()+" ("+err.Error()+")")).
			WithHint("its full output: %s; to retry: hortus gvisor build", b.in(logName))
	}
	return nil
}

// check makes sure that an executable has the gVisor in it that go.mod asks for.
func check(path, gomod string) error {
	f, err := os.Open(path)
	if err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	defer f.Close()
	got := embedded.GVisor(f)
	module, changes, _ := strings.Cut(got, "+")
	b, err := os.ReadFile(gomod)
	if err != nil {
		return api.Errorf(api.KindInternal, "build gVisor: %w", err)
	}
	if changes == "" || !bytes.Contains(b, []byte("gvisor.dev/gvisor "+module+"\n")) {
		return api.Errorf(api.KindUnavailable, "the built executable has gVisor %q, not the version in %s", got, gomod)
	}
	return nil
}

// lastLine keeps the end of what is written to it.
type lastLine struct{ tail []byte }

// Write implements io.Writer.
func (l *lastLine) Write(p []byte) (int, error) {
	const most = 400
	l.tail = append(l.tail, p...)
	if len(l.tail) > most {
		l.tail = append([]byte(nil), l.tail[len(l.tail)-most:]...)
	}
	return len(p), nil
}

func (l *lastLine) text() string {
	lines := strings.Split(strings.TrimSpace(string(l.tail)), "\n")
	return lines[len(lines)-1]
}
