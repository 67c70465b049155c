package sandboxes

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
)

// host has sandboxes that are nothing but rows. It implements Creator, Forker and the parts that sandboxes run in.
type host struct {
	spaces    *workspace.Store
	isolation string
	// refuse is the error of forks; wait makes them wait for the end of their contexts.
	refuse error
	wait   bool
	// The next are errors: of a child of a fork, of a creation, of a pause and of what ends it. noGuest makes those of guests.
	child, create, pause, resume error
	noGuest                      bool
	// standing, which may be nil, is called while a sandbox stands still.
	standing func()
	// leases are those of the workspaces of sandboxes; nil to take none.
	leases map[api.SandboxID]*workspace.Lease

	mu   sync.Mutex
	busy map[api.SandboxID]bool // being copied
	made []creation
	// overlap counts copies of a sandbox that is being copied, stood standstills, and still those under way.
	overlap, stood, still int

	live  map[api.SandboxID]api.Sandbox
	all   []api.Sandbox // also those that have ended, the newest first
	forks []api.ForkSandbox
	most  int
}

// creation is what a sandbox was created from.
type creation struct {
	req api.CreateSandbox
	ws  sandbox.Workspace
}

// copying notes that a sandbox is copied, until done is called.
func (h *host) copying(id api.SandboxID) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy == nil {
		h.busy = map[api.SandboxID]bool{}
	}
	if h.busy[id] {
		h.overlap++
	}
	h.busy[id] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy[id] = false
	}
}

func (h *host) Standstill(ctx context.Context, id api.SandboxID, do func(context.Context) error) error {
	h.mu.Lock()
	_, ok := h.live[id]
	h.mu.Unlock()
	switch {
	case !ok:
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", id)
	case h.pause != nil:
		return h.pause
	}
	defer h.copying(id)()
	count := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stood, h.still = h.stood+max(n, 0), h.still+n
	}
	count(1)
	defer count(-1)
	if h.standing != nil {
		h.standing()
	}
	return errors.Join(h.resume, do(ctx))
}

func (h *host) add(row api.Sandbox) api.Sandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	row.ID = api.NewSandboxID()
	h.live[row.ID], h.all = row, append([]api.Sandbox{row}, h.all...)
	h.most = max(h.most, len(h.live))
	return row
}

// worked are the sandboxes that worked in a workspace, the newest first.
func (h *host) worked(_ context.Context, id api.WorkspaceID) (out []api.Sandbox, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, row := range h.all {
		if row.Workspace == id {
			out = append(out, row)
		}
	}
	return out, nil
}

func (h *host) Create(context.Context, api.CreateSandbox) (api.Sandbox, error) {
	return api.Sandbox{}, errors.New("not used")
}

func (h *host) CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (api.Sandbox, error) {
	if err := errors.Join(h.create, ctx.Err()); err != nil {
		return api.Sandbox{}, err
	}
	row := h.add(api.Sandbox{Isolation: h.isolation, Task: req.Task, Workspace: ws.Upper, EgressPolicy: req.Egress, Secrets: req.Secrets})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made = append(h.made, creation{req, ws})
	return row, h.lease(row)
}

func (h *host) Dial(context.Context, api.SandboxID, int) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

func (h *host) Outline(_ context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	return api.Sandbox{Isolation: h.isolation}, nil
}

func (h *host) ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error) {
	h.mu.Lock()
	parent, ok := h.live[id]
	h.forks = append(h.forks, req)
	h.mu.Unlock()
	if h.wait {
		<-ctx.Done()
		return api.ForkResult{}, ctx.Err()
	}
	if !ok {
		return api.ForkResult{}, api.Errorf(api.KindUnavailable, "sandbox %s has ended", id)
	}
	if h.refuse != nil {
		return api.ForkResult{}, h.refuse
	}
	if h.child != nil {
		return api.ForkResult{Children: []api.ForkChild{{Error: api.AsError(h.child)}}}, nil
	}
	defer h.copying(id)()
	var w api.Workspace
	var err error
	if n := (workspace.New{Task: task}); h.leases == nil {
		w, err = h.spaces.Fork(ctx, parent.Workspace, n)
	} else {
		f := h.spaces.BeginFork(ctx, parent.Workspace, n, workspace.Forkable())
		_ = f.Copy() // Finish returns why
		w, err = f.Finish()
	}
	if err != nil {
		return api.ForkResult{}, err
	}
	row := h.add(api.Sandbox{Isolation: h.isolation, Task: task, Workspace: w.ID, Parent: id})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.lease(row); err != nil {
		return api.ForkResult{}, err
	}
	return api.ForkResult{Children: []api.ForkChild{{Sandbox: &row}}}, nil
}

// lease takes the workspace of a sandbox. The caller holds mu.
func (h *host) lease(row api.Sandbox) (err error) {
	if h.leases != nil {
		h.leases[row.ID], err = h.spaces.Lease(context.Background(), row.Workspace)
	}
	return err
}

func (h *host) Client(context.Context, api.SandboxID) (*envd.Client, error) {
	if h.noGuest {
		return nil, api.Errorf(api.KindUnavailable, "nobody is there")
	}
	return envd.NewClient(envd.ClientConfig{Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("nobody is there") }}), nil
}

func (h *host) StartExec(context.Context, api.SandboxID, api.ExecRequest) (*command.Stream, error) {
	return nil, errors.New("nobody is there")
}

func (h *host) Get(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row, ok := h.live[id]
	if !ok {
		return row, api.Errorf(api.KindUnavailable, "sandbox %s has ended", id)
	}
	return row, nil
}

func (h *host) SetEgress(context.Context, api.SandboxID, api.EgressPolicy) (api.Sandbox, error) {
	return api.Sandbox{}, errors.New("not used")
}

func (h *host) Kill(_ context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := h.live[id]
	if l := h.leases[id]; l != nil {
		l.Release()
		delete(h.leases, id)
	}
	delete(h.live, id)
	return row, api.Proof{How: "it is a row"}, nil
}

// theater is a task whose candidates begin alike.
type theater struct {
	*Provider
	t       *testing.T
	host    *host
	task    api.TaskID
	layers  []repo.Layer
	sandbox api.CreateSandbox
}

func newTheater(t *testing.T) *theater {
	t.Helper()
	layers, err := layer.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spaces, err := workspace.Open(t.Context(), workspace.Config{Dir: t.TempDir(), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	d := layer.Digest("sha256-" + strings.Repeat("a", 64))
	if _, err := layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		return layer.Tree{Root: root}, os.Mkdir(root, 0o755)
	}); err != nil {
		t.Fatal(err)
	}
	h := &host{spaces: spaces, isolation: "gvisor", live: map[api.SandboxID]api.Sandbox{}}
	w := &theater{t: t, host: h, task: api.NewTaskID(), layers: []repo.Layer{repo.Layer(d)}}
	w.Provider = New(Config{Creator: h, Forker: h, Guests: h, Lifecycle: h, Stiller: h, Policies: h, Planner: h, Layers: layers, Workspaces: spaces, Sandboxes: h.worked})
	w.sandbox = api.CreateSandbox{Task: w.task, TTLMS: 60_000, Labels: map[string]string{"of": "test"}, Secrets: []api.SecretGrant{{Name: "key"}}}
	return w
}

// prepare begins a room for so many.
func (w *theater) prepare(of int) (end func(context.Context) int) {
	return w.Prepare(w.task, repo.Preparation{Sandbox: w.sandbox, Layers: w.layers, Of: of})
}

// enter makes the workspace and the sandbox of a candidate, and reports whether services run in it.
func (w *theater) enter() (api.WorkspaceID, repo.Sandbox, bool) {
	w.t.Helper()
	id, err := w.Workspace(w.t.Context(), w.task, w.layers...)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := w.Open(w.t.Context(), w.sandbox, id, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	_, runs := c.(repo.ServiceSandbox)
	return id, c, runs
}

// left checks what lives and which workspaces are there.
func (w *theater) left(sandboxes int, spaces ...api.WorkspaceID) {
	w.t.Helper()
	ids, err := w.host.spaces.List()
	spaces = slices.Sorted(slices.Values(spaces))
	if err != nil || len(w.host.live) != sandboxes || !slices.Equal(ids, spaces) {
		w.t.Errorf("%d sandboxes live, want %d; the workspaces are %v, want %v (%v)", len(w.host.live), sandboxes, ids, spaces, err)
	}
}

// TestForkSource: each candidate gets a child with the request of the task, and the sandbox that was forked ends with the last one.
func TestForkSource(t *testing.T) {
	w := newTheater(t)
	w.left(0)
	end := w.prepare(3)
	w.left(0) // nothing is started before it is needed
	var spaces []api.WorkspaceID
	for range 3 {
		id, c, runs := w.enter()
		if !runs || c.Info().Workspace != id || c.Info().Parent == "" {
			t.Errorf("%t, %+v", runs, c.Info())
		}
		spaces = append(spaces, id)
	}
	w.left(3, spaces...)
	for _, f := range w.host.forks {
		if f.Count != 1 || f.TTLMS != 60_000 || f.Labels["of"] != "test" || !slices.Equal(f.Secrets, []string{"key"}) {
			t.Errorf("forked with %+v", f)
		}
	}
	// One more, and another sandbox of the same workspace, start as any other.
	id, _, runs := w.enter()
	again, err := w.Open(t.Context(), w.sandbox, spaces[0], nil)
	if _, served := again.(repo.ServiceSandbox); err != nil || runs || served {
		t.Errorf("%v, %t, %t", err, runs, served)
	}
	spaces = append(spaces, id)
	w.left(5, spaces...)
	if left := end(t.Context()); left != 0 {
		t.Errorf("%d left", left)
	}
	w.left(5, spaces...)
	if w.source(w.task) != nil {
		t.Error("the room is there")
	}
}

// TestForkSourceOfOthers: what does not begin like the others, or belongs to another task, has nothing of them.
func TestForkSourceOfOthers(t *testing.T) {
	w := newTheater(t)
	end := w.prepare(0)
	other := newTheater(t)
	d := layer.Digest(other.layers[0])
	for name, call := range map[string]func() (api.WorkspaceID, error){
		"another task": func() (api.WorkspaceID, error) {
			return w.Workspace(t.Context(), api.NewTaskID(), w.layers...)
		},
		"other layers": func() (api.WorkspaceID, error) {
			return w.Workspace(t.Context(), w.task, append(w.layers, repo.Layer(d))...)
		},
	} {
		if id, err := call(); err != nil || len(w.host.live) > 0 {
			t.Errorf("%s: %v, %v, %d sandboxes live", name, id, err, len(w.host.live))
		}
	}
	id, err := w.Workspace(t.Context(), w.task, w.layers...)
	if err != nil || len(w.host.live) != 2 {
		t.Fatalf("%v, %d sandboxes live", err, len(w.host.live))
	}
	req := w.sandbox
	req.Secrets = nil
	c, err := w.Open(t.Context(), req, id, nil)
	if _, runs := c.(repo.ServiceSandbox); err != nil || runs || len(w.host.live) != 2 {
		t.Errorf("another request: %v, %t, %d sandboxes live", err, runs, len(w.host.live))
	}
	// What nobody opened ends with the room; its workspace is the candidate's.
	unopened, err := w.Workspace(t.Context(), w.task, w.layers...)
	if err != nil || len(w.host.live) != 3 {
		t.Fatalf("%v, %d sandboxes live", err, len(w.host.live))
	}
	if left := end(t.Context()); left != 0 || len(w.host.live) != 1 {
		t.Errorf("%d left, %d sandboxes live", left, len(w.host.live))
	}
	if _, err := w.host.spaces.Get(unopened); err != nil {
		t.Error(err)
	}
	if end(t.Context()) != 0 {
		t.Error("its second end finds something")
	}
}

// TestForkSourceWithoutForks: where there is no fork candidates start as without a room, and the sandbox that takes the place of one ends.
func TestForkSourceWithoutForks(t *testing.T) {
	for name, spoil := range map[string]func(*theater){
		"refused":         func(w *theater) { w.host.refuse = api.Errorf(api.KindExhausted, "there are enough") },
		"no capacity":     func(w *theater) { w.host.wait, w.cfg.ForkTime = true, 1 },
		"another backend": func(w *theater) { w.host.isolation = "container" },
		"no forker":       func(w *theater) { w.cfg.Forker = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTheater(t)
			spoil(w)
			end := w.prepare(2)
			first, _, runs := w.enter()
			second, _, more := w.enter()
			if runs || more || len(w.host.forks) > 1 {
				t.Errorf("%t, %t, %d forks", runs, more, len(w.host.forks))
			}
			w.left(2, first, second)
			if left := end(t.Context()); left != 0 {
				t.Errorf("%d left", left)
			}
			w.left(2, first, second)
		})
	}
}

// TestForkSourceOfManyAtOnce: candidates come at the same time, and some go before their turn.
func TestForkSourceOfManyAtOnce(t *testing.T) {
	w := newTheater(t)
	end := w.prepare(8)
	var wg sync.WaitGroup
	var mu sync.Mutex
	names := map[api.WorkspaceID]bool{}
	for i := range 8 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%4 == 3 {
				cancel()
			}
			defer cancel()
			id, err := w.Workspace(ctx, w.task, w.layers...)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				names[id] = true
			} else if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(names) < 6 {
		t.Errorf("%d workspaces", len(names))
	}
	end(t.Context())
	w.left(0, slices.Collect(func(yield func(api.WorkspaceID) bool) {
		for id := range names {
			if !yield(id) {
				return
			}
		}
	})...)
}

// TestForkSourceOfTheCanceled: a candidate that ends before it opens its sandbox leaves a child in use. Its files can be read and removed all
// the same, and those of another one stay in use.
func TestForkSourceOfTheCanceled(t *testing.T) {
	w := newTheater(t)
	end := w.prepare(0)
	make := func() api.WorkspaceID {
		id, err := w.Workspace(t.Context(), w.task, w.layers...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	read, removed, other := make(), make(), make()
	w.left(4, append([]api.WorkspaceID{read, removed, other}, w.source(w.task).space)...)
	if _, _, done, err := w.Changes(t.Context(), read); err != nil {
		t.Error(err)
	} else {
		done()
	}
	w.left(3, read, removed, other, w.source(w.task).space)
	if err := w.Discard(t.Context(), removed); err != nil {
		t.Error(err)
	}
	w.left(2, read, other, w.source(w.task).space)
	if _, err := w.Open(t.Context(), w.sandbox, other, nil); err != nil {
		t.Error(err)
	}
	if left := end(t.Context()); left != 0 {
		t.Errorf("%d left", left)
	}
	w.left(1, read, other)
}
