package agenttest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
)

// Localdir runs attempts in temporary folders of this machine, with process
// groups in place of sandboxes. It isolates nothing: it is for tests alone.
type Localdir struct {
	t    testing.TB
	root string
	path string

	Created atomic.Int64 // sandboxes made so far
	Left    atomic.Int64 // sandboxes not closed yet
	mu      sync.Mutex
	asked   []api.CreateSandbox
	// Policies are those that SetEgress was given, in order, of all sandboxes. RefuseEgress,
	// if it is set, is what it answers.
	Policies     []api.EgressPolicy
	RefuseEgress error
}

// Asked lists what Create was requested, in order.
func (l *Localdir) Asked() []api.CreateSandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// NewLocaldir skips the test where python3 is missing.
func NewLocaldir(t testing.TB) *Localdir {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	dirs := []string{filepath.Dir(strings.TrimSpace(string(out)))}
	if node, err := exec.LookPath("node"); err == nil {
		dirs = append(dirs, filepath.Dir(node))
	}
	l := &Localdir{t: t, root: t.TempDir(), path: strings.Join(append(dirs, "/usr/bin", "/bin"), ":")}
	t.Cleanup(func() {
		if n := l.Left.Load(); n != 0 {
			t.Errorf("%d sandboxes were left open", n)
		}
	})
	return l
}

func (l *Localdir) Create(ctx context.Context, req api.CreateSandbox) (agent.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.asked = append(l.asked, req)
	l.mu.Unlock()
	id := api.NewSandboxID()
	dir := filepath.Join(l.root, string(id))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	l.Created.Add(1)
	l.Left.Add(1)
	return &folder{owner: l, id: id, dir: dir}, nil
}

type folder struct {
	owner *Localdir
	id    api.SandboxID
	dir   string
	once  sync.Once
	group int
	err   error
}

func (f *folder) Info() api.Sandbox {
	return api.Sandbox{ID: f.id, State: api.SandboxRunning, Isolation: "localdir", IsolationWhy: "a test"}
}

func (f *folder) WriteFile(_ context.Context, path string, content []byte, executable bool) error {
	p := filepath.Join(f.dir, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	return os.WriteFile(p, content, mode)
}

func (f *folder) ReadFile(_ context.Context, path string, max int64) ([]byte, error) {
	p := filepath.Join(f.dir, path)
	info, err := os.Lstat(p)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, api.Errorf(api.KindNotFound, "no file %s", path)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, api.Errorf(api.KindInvalid, "%s is no regular file", path)
	case info.Size() > max:
		return nil, api.Errorf(api.KindExhausted, "%s is too large", path)
	}
	return os.ReadFile(p)
}

func (f *folder) List(context.Context) ([]agent.FileInfo, error) {
	var files []agent.FileInfo
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.dir, path)
		files = append(files, agent.FileInfo{Path: rel, Size: info.Size(), ModTime: info.ModTime()})
		return err
	})
	return files, err
}

func (f *folder) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	cmd := exec.Command(req.Args[0], req.Args[1:]...)
	cmd.Dir = f.dir
	cmd.Env = []string{"PATH=" + f.owner.path, "HOME=" + f.dir, "PYTHONDONTWRITEBYTECODE=1"}
	for k, v := range req.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var lock sync.Mutex
	pump := func(stream string) io.Writer {
		return writerFunc(func(p []byte) (int, error) {
			lock.Lock()
			defer lock.Unlock()
			return len(p), output(stream, p)
		})
	}
	cmd.Stdout, cmd.Stderr = pump("stdout"), pump("stderr")
	ex := api.Exec{ID: api.NewExecID(), Sandbox: f.id, Args: req.Args, State: api.ExecExited}
	if err := cmd.Start(); err != nil {
		return ex, err
	}
	f.group = cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timeout := time.NewTimer(time.Duration(req.TimeoutMS) * time.Millisecond)
	defer timeout.Stop()
	var err error
	select {
	case err = <-done:
	case <-timeout.C:
		syscall.Kill(-f.group, syscall.SIGKILL)
		<-done
		ex.Exit = api.Exit{Code: 137, Signal: "SIGKILL", Cause: api.CauseTimeout}
		return ex, nil
	case <-ctx.Done():
		syscall.Kill(-f.group, syscall.SIGKILL)
		<-done
		return ex, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		ex.Exit.Code = exit.ExitCode()
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			ex.Exit.Code, ex.Exit.Signal = 128+int(ws.Signal()), ws.Signal().String()
		}
		err = nil
	}
	return ex, err
}

func (f *folder) SetEgress(_ context.Context, p api.EgressPolicy) (map[string]string, error) {
	f.owner.mu.Lock()
	defer f.owner.mu.Unlock()
	f.owner.Policies = append(f.owner.Policies, p)
	if f.owner.RefuseEgress != nil {
		return nil, f.owner.RefuseEgress
	}
	var env map[string]string
	for _, name := range p.Presets {
		env = map[string]string{"PRESET": name}
	}
	return env, nil
}

func (f *folder) Close(context.Context) (api.Proof, error) {
	f.once.Do(func() {
		f.owner.Left.Add(-1)
		if f.group != 0 {
			syscall.Kill(-f.group, syscall.SIGKILL)
			if err := syscall.Kill(-f.group, 0); err == nil {
				f.err = errors.New("a process is left")
			}
		}
		os.RemoveAll(f.dir)
	})
	return api.Proof{How: "process group"}, f.err
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
