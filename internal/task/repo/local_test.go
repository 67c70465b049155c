package repo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
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
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/repo"
)

// local makes sandboxes of plain folders and processes. It isolates nothing: it is
// for the rules of this package, which the stories run over real sandboxes.
type local struct {
	t    testing.TB
	root string
	open atomic.Int64

	mu     sync.Mutex
	layers map[repo.Layer]stack
	spaces map[api.WorkspaceID]stack
	named  map[string]api.WorkspaceID
	gates  int
	// lost, where set, is what a sandbox answers that ended with its command.
	lost atomic.Pointer[api.Error]
	// refuse is the error of Copy.
	refuse error
	// egress is what sandboxes may connect to, and damaged is true if no layer is what was stored.
	egress  string
	damaged bool
	// progress is what was written to repo.ProgressFile.
	progress []string
}

// stack is a folder and the changes above it.
type stack struct {
	dir     string
	changes []cache.Change
}

func newLocal(t testing.TB) *local {
	l := &local{t: t, root: t.TempDir(), layers: map[repo.Layer]stack{}, spaces: map[api.WorkspaceID]stack{}}
	t.Cleanup(func() {
		if n := l.open.Load(); n != 0 {
			t.Errorf("%d computers were left open", n)
		}
	})
	return l
}

func (l *local) dir() string {
	d, err := os.MkdirTemp(l.root, "d")
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// Layer implements repo.Sandboxes.
func (l *local) Layer(ctx context.Context, key string, build func(context.Context, string) error) (repo.Layer, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.layers[repo.Layer(key)]; !ok {
		d := l.dir()
		if err := build(ctx, d); err != nil {
			return "", nil, err
		}
		l.layers[repo.Layer(key)] = stack{dir: d}
	}
	return repo.Layer(key), func() {}, nil
}

// Over implements repo.Sandboxes.
func (l *local) Over(_ context.Context, base []repo.Layer, changes []cache.Change) (repo.Layer, func(), error) {
	dir, err := l.union(base)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gates++
	name := repo.Layer(string(base[0]) + " over " + string(api.NewWorkspaceID()))
	l.layers[name] = stack{dir: dir, changes: changes}
	return name, func() {}, err
}

// union is a folder with the files of layers.
func (l *local) union(layers []repo.Layer) (string, error) {
	d := l.dir()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range layers {
		if from, ok := l.layers[name]; ok {
			if err := copyTree(from.dir, d); err != nil {
				return "", err
			}
		}
	}
	return d, nil
}

// Workspace implements repo.Sandboxes.
func (l *local) Workspace(_ context.Context, _ api.TaskID, layers ...repo.Layer) (api.WorkspaceID, error) {
	id := api.NewWorkspaceID()
	base, err := l.union(layers)
	if err != nil {
		return "", err
	}
	d, err := l.union(layers)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spaces[id] = stack{dir: d}
	l.layers[repo.Layer(id)] = stack{dir: base}
	return id, err
}

// Attach implements repo.Sandboxes: a workspace is found by its name, also over other layers.
func (l *local) Attach(ctx context.Context, task api.TaskID, name string, layers ...repo.Layer) (api.WorkspaceID, error) {
	l.mu.Lock()
	id, ok := l.named[name]
	l.mu.Unlock()
	if ok {
		return id, nil
	}
	id, err := l.Workspace(ctx, task, layers...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named == nil {
		l.named = map[string]api.WorkspaceID{}
	}
	l.named[name] = id
	return id, err
}

// Adopt implements repo.Sandboxes: here nobody owns anything.
func (l *local) Adopt(context.Context, api.WorkspaceID, api.TaskID, api.TaskID) error { return nil }

func copyTree(from, to string) error {
	return exec.Command("cp", "-a", from+"/.", to).Run()
}

// Changes implements repo.Sandboxes.
func (l *local) Changes(_ context.Context, id api.WorkspaceID, _ ...string) (out []cache.Change, _ []api.RefusedChange, _ func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, was := files(l.spaces[id].dir), files(l.layers[repo.Layer(id)].dir)
	for p, c := range now {
		if o, ok := was[p]; !ok || o != c {
			mode := cache.Regular
			switch {
			case c.link:
				mode = cache.Symlink
			case c.exec:
				mode = cache.Executable
			}
			out = append(out, cache.Change{Path: p, Mode: mode, Size: int64(len(c.text)), Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(c.text)), nil
			}})
		}
	}
	for p := range was {
		if _, ok := now[p]; !ok {
			out = append(out, cache.Change{Path: p, Delete: true})
		}
	}
	return out, nil, func() {}, nil
}

type content struct {
	text string
	exec bool
	link bool
}

func files(dir string) map[string]content {
	out := map[string]content{}
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil || d.Name() == ".git" {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			b, _ := os.ReadFile(p)
			out[rel] = content{string(b), info.Mode()&0o111 != 0, false}
		} else if err == nil && d.Type() == fs.ModeSymlink {
			to, _ := os.Readlink(p)
			out[rel] = content{to, false, true}
		}
		return nil
	})
	return out
}

// Open implements repo.Sandboxes.
func (l *local) Open(_ context.Context, req api.CreateSandbox, id api.WorkspaceID, _ []filerule.Access) (repo.Sandbox, error) {
	l.open.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	return &localSandbox{l: l, dir: l.spaces[id].dir, space: id, env: req.Env}, nil
}

// Clean implements repo.Sandboxes.
func (l *local) Clean(_ context.Context, req api.CreateSandbox, _ api.WorkspaceID, layers ...repo.Layer) (repo.Sandbox, error) {
	d, err := l.union(layers)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	top := l.layers[layers[len(layers)-1]]
	l.mu.Unlock()
	for _, c := range top.changes {
		p := filepath.Join(d, c.Path)
		if c.Delete {
			os.Remove(p)
			continue
		}
		r, err := c.Open()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.Remove(p)
		os.RemoveAll(p)
		if c.Mode == cache.Symlink {
			if err := os.Symlink(string(b), p); err != nil {
				return nil, err
			}
			continue
		}
		mode := fs.FileMode(0o644)
		if c.Mode == cache.Executable {
			mode = 0o755
		}
		if err := os.WriteFile(p, b, mode); err != nil {
			return nil, err
		}
	}
	l.open.Add(1)
	return &localSandbox{l: l, dir: d, env: req.Env}, nil
}

// localSandbox runs commands in a folder that stands for the workspace.
type localSandbox struct {
	l      *local
	dir    string
	space  api.WorkspaceID
	env    map[string]string
	closed sync.Once
}

func (b *localSandbox) Info() api.Sandbox {
	return api.Sandbox{ID: api.NewSandboxID(), Isolation: "local", Workspace: b.space, Egress: b.l.egress}
}

func (b *localSandbox) Close(context.Context) (api.Proof, error) {
	b.closed.Do(func() { b.l.open.Add(-1) })
	return api.Proof{How: "local"}, nil
}

func (b *localSandbox) path(p string) string {
	if rest, ok := strings.CutPrefix(p, repo.Workspace); ok {
		p = rest
	}
	return filepath.Join(b.dir, p)
}

// environment is what a sandbox has of the variables of this machine: where programs are and what they speak. CI, which a machine that runs
// these tests may set, is none of them.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains([]string{"PATH", "LANG", "TMPDIR"}, name) && !strings.HasPrefix(name, "GO")
	})
}

func (b *localSandbox) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	if req.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(req.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	args := slices.Clone(req.Args)
	for i := range args { // the sandbox's own /tmp
		args[i] = strings.ReplaceAll(args[i], "/tmp/", b.path("/tmp")+"/")
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = b.path(req.Dir)
	cmd.Env = append(environment(), "HOME="+b.l.root)
	if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+filepath.Join(cache, "go-build")) // or package testing is compiled each time
	}
	for k, v := range b.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	for k, v := range req.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	x := api.Exec{State: api.ExecExited, Args: req.Args}
	var exit *exec.ExitError
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		x.Exit = api.Exit{Code: 137, Cause: api.CauseTimeout}
	case ctx.Err() != nil:
		return x, ctx.Err()
	case errors.As(err, &exit):
		x.Exit.Code = exit.ExitCode()
	case err != nil:
		return x, err
	}
	if out.Len() > 0 {
		err = output("stdout", out.Bytes())
	} else {
		err = nil
	}
	return x, err
}

// Talk implements repo.Sandbox.
func (b *localSandbox) Talk(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
	cmd := exec.CommandContext(ctx, req.Args[0], req.Args[1:]...)
	cmd.Dir, cmd.Env = b.path(req.Dir), environment()
	for k, v := range req.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &program{Reader: out, WriteCloser: in, cmd: cmd}, cmd.Start()
}

// Dial implements repo.Sandbox.
func (b *localSandbox) Dial(context.Context, int) (net.Conn, error) {
	return nil, api.Errorf(api.KindUnsupported, "no ports here")
}

// program is a process that is talked to.
type program struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *program) Close() error {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
	return nil
}

func (*program) Said() string   { return "" }
func (*program) Exec() api.Exec { return api.Exec{State: api.ExecExited} }

func (b *localSandbox) Start(context.Context, api.ExecRequest) (tool.Job, error) {
	return nil, api.Errorf(api.KindUnsupported, "no jobs here")
}

func (b *localSandbox) ReadFile(_ context.Context, p string, max int64) ([]byte, error) {
	if err := b.l.lost.Load(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(b.path(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "no file %s", p)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%w", err)
	}
	return data, nil
}

func (b *localSandbox) WriteFile(_ context.Context, p string, data []byte, executable bool) error {
	if p == repo.ProgressFile { // it is outside of the workspace
		b.l.mu.Lock()
		defer b.l.mu.Unlock()
		b.l.progress = append(b.l.progress, string(data))
		return nil
	}
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	os.MkdirAll(filepath.Dir(b.path(p)), 0o755)
	return os.WriteFile(b.path(p), data, mode)
}
