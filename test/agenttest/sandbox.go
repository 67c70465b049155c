package agenttest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
)

// Sandbox is a folder of this machine as tool.Sandbox, with process groups in place of a
// sandbox. /workspace is its Dir. It isolates nothing: it is for tests alone.
type Sandbox struct {
	Dir string
	// Path is PATH for its commands.
	Path string
}

// NewBox makes an empty one, which goes with the test.
func NewSandbox(t testing.TB) *Sandbox {
	return &Sandbox{Dir: t.TempDir(), Path: os.Getenv("PATH")}
}

func (b *Sandbox) host(path string) string {
	if path == "/workspace" || strings.HasPrefix(path, "/workspace/") {
		return b.Dir + strings.TrimPrefix(path, "/workspace")
	}
	if !filepath.IsAbs(path) {
		return filepath.Join(b.Dir, path)
	}
	return path
}

func boxError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return api.Errorf(api.KindNotFound, "path '%s' does not exist", path)
	case errors.Is(err, os.ErrPermission):
		return api.Errorf(api.KindDenied, "permission denied: '%s'", path)
	}
	return api.Errorf(api.KindInvalid, "path '%s': %v", path, err)
}

// ReadFile implements tool.Sandbox. Like the guest it opens without waiting.
func (b *Sandbox) ReadFile(_ context.Context, path string, max int64) ([]byte, error) {
	f, err := os.OpenFile(b.host(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, boxError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, boxError(path, err)
	case !info.Mode().IsRegular():
		return nil, api.Errorf(api.KindInvalid, "path '%s' is not a regular file", path)
	case info.Size() > max:
		return nil, api.Errorf(api.KindExhausted, "%s has %d bytes; the most is %d", path, info.Size(), max)
	}
	content := make([]byte, info.Size()) // as the guest, which sends that much
	n, err := f.Read(content)
	if len(content) == 0 {
		err = nil
	}
	return content[:n], boxError(path, err)
}

// WriteFile implements tool.Sandbox.
func (b *Sandbox) WriteFile(_ context.Context, path string, content []byte, executable bool) error {
	p := b.host(path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return boxError(path, err)
	}
	if err := os.WriteFile(p, content, 0o644); err != nil {
		return boxError(path, err)
	}
	if executable {
		return boxError(path, os.Chmod(p, 0o755))
	}
	return nil
}

func (b *Sandbox) command(req api.ExecRequest) *exec.Cmd {
	cmd := exec.Command(req.Args[0], req.Args[1:]...)
	cmd.Dir = b.host(req.Dir)
	cmd.Env = []string{"PATH=" + b.Path, "HOME=" + b.Dir, "GIT_CONFIG_NOSYSTEM=1"}
	for k, v := range req.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func start(cmd *exec.Cmd, req api.ExecRequest) error {
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return api.Errorf(api.KindInvalid, "%s is no directory", req.Dir)
	}
	return boxError(req.Args[0], cmd.Start())
}

// Run implements tool.Sandbox.
func (b *Sandbox) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	cmd := b.command(req)
	var lock sync.Mutex
	pump := func(stream string) writerFunc {
		return func(p []byte) (int, error) {
			lock.Lock()
			defer lock.Unlock()
			return len(p), output(stream, p)
		}
	}
	cmd.Stdout, cmd.Stderr = pump("stdout"), pump("stderr")
	x := api.Exec{ID: api.NewExecID(), Args: req.Args, State: api.ExecRunning}
	if err := start(cmd, req); err != nil {
		return x, err
	}
	limit := context.Background()
	if req.TimeoutMS > 0 {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(limit, time.Duration(req.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	group := cmd.Process.Pid
	stop := context.AfterFunc(limit, func() { syscall.Kill(-group, syscall.SIGKILL) })
	stopCtx := context.AfterFunc(ctx, func() { syscall.Kill(-group, syscall.SIGKILL) })
	err := cmd.Wait()
	timedOut := !stop()
	if !stopCtx() {
		return x, ctx.Err()
	}
	x.State, x.Exit = api.ExecExited, exitOf(err)
	if timedOut && x.Exit.Signal != "" {
		x.Exit.Cause = api.CauseTimeout
	}
	return x, nil
}

func exitOf(err error) api.Exit {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return api.Exit{}
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return api.Exit{Code: 128 + int(ws.Signal()), Signal: ws.Signal().String()}
	}
	return api.Exit{Code: exit.ExitCode()}
}

// Start implements tool.Sandbox. The job keeps all of its output.
func (b *Sandbox) Start(_ context.Context, req api.ExecRequest) (tool.Job, error) {
	cmd := b.command(req)
	j := &job{cmd: cmd, done: make(chan struct{}), x: api.Exec{ID: api.NewExecID(), Args: req.Args, State: api.ExecRunning}}
	cmd.Stdout, cmd.Stderr = writerFunc(j.write), writerFunc(j.write)
	if err := start(cmd, req); err != nil {
		return nil, err
	}
	go func() {
		defer close(j.done)
		err := cmd.Wait()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.x.State, j.x.Exit = api.ExecExited, exitOf(err)
	}()
	return j, nil
}

type job struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	x    api.Exec
	out  []byte
}

func (j *job) write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out = append(j.out, p...)
	return len(p), nil
}

func (j *job) Output(offset int64, max int) ([]byte, int64, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.out[offset:min(offset+int64(max), int64(len(j.out)))]
	next := offset + int64(len(p))
	return p, next, next == int64(len(j.out)) && j.x.State != api.ExecRunning
}

func (j *job) Exec() api.Exec {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.x
}

func (j *job) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *job) Kill(ctx context.Context) error {
	select {
	case <-j.done:
		return nil
	default:
	}
	syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL)
	return j.Wait(ctx)
}

func (j *job) Close() { _ = j.Kill(context.Background()) }
