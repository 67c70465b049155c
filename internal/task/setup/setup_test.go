package setup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/repo"
)

func file(p, text string) File {
	return File{Path: p, Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func link(p, target string) File {
	f := file(p, target)
	f.Link = true
	return f
}

// TestPolicy: a repository gets at most what the task allows.
func TestPolicy(t *testing.T) {
	hosts := &api.EgressPolicy{Presets: []string{"npm"}, Rules: []api.EgressRule{{}}}
	for _, c := range []struct {
		name        string
		asked       []string
		allowed     *api.EgressPolicy
		got, denied string
	}{
		{"registries by default", []string{"go", "npm"}, nil, "go npm", ""},
		{"forges are not registries", []string{"git", "models", "npm"}, nil, "npm", "git models"},
		{"the control: the task allows it", []string{"git"}, &api.EgressPolicy{Presets: []string{"git"}}, "git", ""},
		{"none", []string{"npm"}, &api.EgressPolicy{}, "", "npm"},
		{"one of two", []string{"npm", "pip"}, hosts, "npm", "pip"},
		{"all registries", []string{"apt", "git", "pip"}, &api.EgressPolicy{Presets: []string{"registries"}}, "apt pip", "git"},
		{"nothing is asked for", nil, &api.EgressPolicy{Presets: []string{"npm"}}, "", ""},
	} {
		p, denied := policy(c.asked, c.allowed)
		if got := strings.Join(p.Presets, " "); got != c.got || strings.Join(denied, " ") != c.denied {
			t.Errorf("%s: %q, denied %q", c.name, got, denied)
		}
	}
}

// TestPick: what is of the repository is not sealed, and what lies outside has its place.
func TestPick(t *testing.T) {
	q := repo.SetupRequest{Files: []cache.Entry{{Path: "main.go"}, {Path: "web/package.json"}, {Path: "tool"}}}
	c := pick([]File{
		file("main.go", "changed"), {Path: "web/package.json", Delete: true}, file("tool/inside", "x"),
		file("web/node_modules/a/index.js", "1"), file(outside+"/go/build/00/x-d", "22"), link("node_modules", "web/node_modules"),
	}, q)
	var paths []string
	for _, f := range c.files {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "web/node_modules/a/index.js .git/hortus/go/build/00/x-d node_modules" || c.changed != 3 {
		t.Errorf("%q, %d changed", got, c.changed)
	}
	if c.files[1].ModTime.Year() != 2100 {
		t.Errorf("the time of an entry of Go's cache is %s", c.files[1].ModTime)
	}
}

// TestPickNoAgents: the setup of a repository cannot put anything where agents are, and the installation of an agent can.
func TestPickNoAgents(t *testing.T) {
	all := []File{
		file(outside+"/agents/claude-1/bin/node", "evil"), file(outside+"/agents/home/claude/.claude/settings.json", "evil"),
		file(outside+"/agents-of-mine", "1"), file(outside+"/npm/x", "22"), file(outside+"/setup.json", "{}"),
	}
	for agent, want := range map[bool]string{
		false: ".git/hortus/agents-of-mine .git/hortus/npm/x",
		true:  ".git/hortus/agents/claude-1/bin/node .git/hortus/agents/home/claude/.claude/settings.json .git/hortus/agents-of-mine .git/hortus/npm/x",
	} {
		c := pick(all, repo.SetupRequest{Agent: agent})
		var paths []string
		for _, f := range c.files {
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != want || c.elsewhere != len(all)-len(paths) { // setup.json is the host's
			t.Errorf("agent %v: %q, %d elsewhere", agent, got, c.elsewhere)
		}
	}
	if c := pick([]File{link(outside+"/agents", "/tmp")}, repo.SetupRequest{}); len(c.files) != 0 || c.elsewhere != 1 {
		t.Errorf("a link in the place of all agents: %+v", c)
	}
}

// TestPickOfOneOfSeveral: what a repository wrote outside of its directory is not sealed, but what has a place of its own.
func TestPickOfOneOfSeveral(t *testing.T) {
	q := repo.SetupRequest{Dir: "lib", Files: []cache.Entry{{Path: "main.go"}}}
	c := pick([]File{
		file("lib/main.go", "changed"), file("lib/node_modules/a.js", "1"), file("app/node_modules/a.js", "1"), file("main.go", "1"), file("lib", "a file"), file("library/x", "1"),
		file(outside+"/npm/x", "22"),
	}, q)
	var paths []string
	for _, f := range c.files {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "lib/node_modules/a.js .git/hortus/npm/x" || c.changed != 1 || c.elsewhere != 4 {
		t.Errorf("%q, %d changed, %d elsewhere", got, c.changed, c.elsewhere)
	}
}

// TestWriteStaysInside: no link that the steps left leads the host out of the layer.
func TestWriteStaysInside(t *testing.T) {
	victim := t.TempDir()
	for name, files := range map[string][]File{
		"a link in the way": {link("a", victim), file("a/hit", "x")},
		"a relative link":   {link("a", "../"+filepath.Base(victim)), file("a/hit", "x")},
		"dots":              {file("../hit", "x")},
		"a longer file":     {{Path: "f", Size: 1, Open: file("", "xx").Open}},
		"a shorter file":    {{Path: "f", Size: 3, Open: file("", "xx").Open}},
	} {
		dir := filepath.Join(filepath.Dir(victim), "layer "+name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := write(t.Context(), dir, files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left, _ := os.ReadDir(victim); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
	// The control: without the guard the first one is written outside.
	dir := t.TempDir()
	if err := os.Symlink(victim, filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a/hit"), nil, 0o600); err != nil {
		t.Error("the control failed:", err)
	}
	// A link out of the layer is kept as a link: only a sandbox follows it.
	dir = t.TempDir()
	if err := write(t.Context(), dir, []File{link("out", "/etc/passwd"), file("d/f", "x")}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "out")); err != nil || to != "/etc/passwd" {
		t.Errorf("%q %v", to, err)
	}
}

// store has layers by their keys, and no sandboxes.
type store struct {
	Sandboxes
	mu      sync.Mutex
	layers  map[string]bool
	records map[string]string
	damaged bool
	opened  atomic.Int64
	open    func(context.Context) error
}

func (s *store) Find(_ context.Context, key string) (repo.Layer, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.layers[key] {
		return "", nil, api.Errorf(api.KindNotFound, "no layer %s", key)
	}
	return repo.Layer(key), func() {}, nil
}

func (s *store) ReadLayer(_ context.Context, l repo.Layer, path string, _ int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.records[string(l)]; ok && path == recordPath {
		return []byte(b), nil
	}
	return nil, api.Errorf(api.KindNotFound, "layer %s has no %s", l, path)
}

func (s *store) Layer(ctx context.Context, key string, build func(context.Context, string) error) (repo.Layer, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.layers[key] {
		return "", nil, build(ctx, "")
	}
	return repo.Layer(key), func() {}, nil
}

func (s *store) Workspace(context.Context, api.TaskID, ...repo.Layer) (api.WorkspaceID, error) {
	return api.NewWorkspaceID(), nil
}
func (s *store) Verified(_ context.Context, l repo.Layer) error {
	if s.damaged {
		return api.Errorf(api.KindNotFound, "damaged")
	}
	return nil
}
func (s *store) Disk() string                                   { return "/data" }
func (s *store) Discard(context.Context, api.WorkspaceID) error { return nil }
func (s *store) Open(ctx context.Context, _ api.CreateSandbox, _ api.WorkspaceID, _ []filerule.Access) (repo.Sandbox, error) {
	s.opened.Add(1)
	return nil, s.open(ctx)
}

func request(t *testing.T, account string, files map[string]string) (repo.SetupRequest, func() string) {
	var mu sync.Mutex
	var said []string
	q := repo.SetupRequest{
		Sandbox: api.CreateSandbox{Account: account}, Repository: "r", Branch: "main", Layer: "checkout", NextLog: func() string { return "" },
		Read: func(p string, _ int64) []byte { return []byte(files[p]) },
		Emit: func(_ context.Context, e api.RepoStepEvent) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, e.Detail+e.Error)
		},
		Step: func(_ context.Context, _ api.RepoStepEvent, do func() (string, error)) error {
			_, err := do()
			return err
		},
	}
	for p := range files {
		q.Files = append(q.Files, cache.Entry{Path: p, Mode: cache.Regular})
	}
	return q, func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(said, "\n") }
}

func toolchain(context.Context, api.CreateSandbox) (string, error) { return "tools", nil }

var locked = map[string]string{"package-lock.json": "{}"}

// TestZones: the layer of one account is not found for another.
func TestZones(t *testing.T) {
	refused := errors.New("a sandbox was asked for")
	s := &store{layers: map[string]bool{}, open: func(context.Context) error { return refused }}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	q, _ := request(t, "ada", locked)
	s.layers[layerKey(dependency.Detect(tree(q)).Key("ada", "r", "main", "tools"), 0)] = true
	if got, err := p.Prepare(t.Context(), q); err != nil || len(got.Layers) != 1 {
		t.Errorf("the control: ada's own layer: %+v %v", got, err)
	}
	s.damaged = true
	if got, err := p.Prepare(t.Context(), q); !errors.Is(err, refused) || len(got.Layers) != 0 {
		t.Errorf("a damaged layer: %+v %v", got, err)
	}
	s.damaged = false
	q.Sandbox.Account = "eve"
	if got, err := p.Prepare(t.Context(), q); !errors.Is(err, refused) || len(got.Layers) != 0 {
		t.Errorf("eve got %+v, %v", got, err)
	}
}

// TestOnce: of several tasks with one key, one installs.
func TestOnce(t *testing.T) {
	s := &store{layers: map[string]bool{}}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	const tasks = 4
	waiting := make(chan struct{}, tasks)
	s.open = func(ctx context.Context) error {
		for range tasks - 1 {
			<-waiting
		}
		return api.Errorf(api.KindExhausted, "no capacity")
	}
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range tasks {
		q, _ := request(t, "ada", locked)
		emit := q.Emit
		q.Emit = func(ctx context.Context, e api.RepoStepEvent) {
			emit(ctx, e)
			if strings.HasPrefix(e.Detail, "waits for another task") {
				waiting <- struct{}{}
			}
		}
		wg.Go(func() {
			if _, err := p.Prepare(t.Context(), q); api.KindOf(err) == api.KindExhausted {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if s.opened.Load() != 1 || failed.Load() != tasks || len(p.flights) != 0 {
		t.Errorf("%d sandboxes, %d failures, %d flights left", s.opened.Load(), failed.Load(), len(p.flights))
	}
}

// TestBadRecipe: a task does not begin with a recipe that cannot be read. A link in its place is no recipe.
func TestBadRecipe(t *testing.T) {
	p := New(Config{Sandboxes: &store{}, Toolchain: toolchain})
	q, said := request(t, "ada", map[string]string{dependency.RecipePath: "steps: [{}]"})
	if _, err := p.Prepare(t.Context(), q); api.KindOf(err) != api.KindInvalid || !strings.Contains(said(), "line 1") {
		t.Errorf("%v; %s", err, said())
	}
	q.Files[0].Mode = cache.Symlink
	if got, err := p.Prepare(t.Context(), q); err != nil || len(got.Layers) != 0 {
		t.Errorf("a link: %+v %v", got, err)
	}
	if got := tree(q); slices.Contains(got.Paths, dependency.RecipePath) {
		t.Error("a link is read as a file")
	}
}

// TestWork: what a task installs for its changes is found by that task alone, and what others
// installed is not used for it: installing runs code that nobody has reviewed.
func TestWork(t *testing.T) {
	refused := errors.New("a sandbox was asked for")
	s := &store{layers: map[string]bool{}, open: func(context.Context) error { return refused }}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	q, said := request(t, "ada", locked)
	key := dependency.Detect(tree(q)).Key("ada", "r", "main", "tools")
	s.layers[layerKey(key, 0)] = true
	q.Task, q.Work = "t1", "changes"
	if got, err := p.Prepare(t.Context(), q); !errors.Is(err, refused) || len(got.Layers) != 0 {
		t.Errorf("the layer of the branch: %+v %v", got, err)
	}
	s.layers[layerKey(key+" of t1", 0)] = true
	if got, err := p.Prepare(t.Context(), q); err != nil || len(got.Layers) != 1 || got.Key != key || !strings.Contains(said(), "the work changed what is installed") {
		t.Errorf("the control: its own layer: %+v %v; %s", got, err, said())
	}
	q.Task = "t2"
	if got, err := p.Prepare(t.Context(), q); !errors.Is(err, refused) || len(got.Layers) != 0 {
		t.Errorf("the layer of another task: %+v %v", got, err)
	}
	q.Known = key
	if got, err := p.Prepare(t.Context(), q); err != nil || len(got.Layers) != 0 || got.Key != key {
		t.Errorf("a key that is known: %+v %v", got, err)
	}
	q.Work, q.Known = "", ""
	s.layers = map[string]bool{layerKey(key+" of t2", 0): true}
	if got, err := p.Prepare(t.Context(), q); !errors.Is(err, refused) || len(got.Layers) != 0 {
		t.Errorf("the layer of a work for the branch: %+v %v", got, err)
	}
}

// TestCodeOfACommit: what a commit's script installed is not there for the commit that took the script's code away, nor
// for one that never had it.
func TestCodeOfACommit(t *testing.T) {
	refused := errors.New("a sandbox was asked for")
	for name, script := range map[string]string{"a script that runs a file": `{"scripts":{"postinstall":"node build.js"}}`, "the control: no script": "{}"} {
		s := &store{layers: map[string]bool{}, open: func(context.Context) error { return refused }}
		p := New(Config{Sandboxes: s, Toolchain: toolchain})
		bad, said := request(t, "ada", map[string]string{"package-lock.json": "{}", "package.json": script, "build.js": "bad"})
		good, _ := request(t, "ada", map[string]string{"package-lock.json": "{}", "package.json": script, "build.js": "good"})
		s.layers[layerKey(dependency.Detect(tree(bad)).Key("ada", "r", "main", "tools"), 0)] = true
		if got, err := p.Prepare(t.Context(), bad); err != nil || len(got.Layers) != 1 {
			t.Errorf("%s: the commit itself: %+v %v", name, got, err)
		}
		if got, err := p.Prepare(t.Context(), good); script == "{}" != (err == nil && len(got.Layers) == 1) || err != nil && !errors.Is(err, refused) {
			t.Errorf("%s: another commit got %+v %v", name, got, err)
		}
		if strings.Contains(said(), "of this commit only") != (script != "{}") {
			t.Errorf("%s: %s", name, said())
		}
		// The agent's changes of such files install nothing again.
		work := good
		work.Task, work.Work, work.Known = "t1", "changes", dependency.Detect(tree(bad)).Key("ada", "r", "main", "tools")
		if got, err := p.Prepare(t.Context(), work); err != nil || got.Key != work.Known {
			t.Errorf("%s: the work got %+v %v", name, got, err)
		}
	}
}

// fakeSandbox runs the commands of a setup: each step ends with a code, or with an error of its output.
type fakeSandbox struct {
	repo.Sandbox
	code    int
	err     error
	missing string // a program that it lacks
}

func (b *fakeSandbox) Run(_ context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	if req.Tag != step {
		return api.Exec{State: api.ExecExited}, output("stdout", []byte(b.missing))
	}
	if err := output("stderr", []byte("cannot reach the registry\n")); err != nil {
		return api.Exec{}, err
	}
	return api.Exec{State: api.ExecExited, Exit: api.Exit{Code: b.code}}, b.err
}

func (b *fakeSandbox) Close(context.Context) (api.Proof, error) { return api.Proof{}, nil }

// fakeSandboxes has one sandbox for everybody.
type fakeSandboxes struct {
	store
	sandbox *fakeSandbox
	dir     string
	req     api.CreateSandbox // of the last sandbox
}

func (b *fakeSandboxes) Layer(ctx context.Context, key string, build func(context.Context, string) error) (repo.Layer, func(), error) {
	return repo.Layer(key), func() {}, build(ctx, b.dir)
}

func (b *fakeSandboxes) Open(_ context.Context, req api.CreateSandbox, _ api.WorkspaceID, _ []filerule.Access) (repo.Sandbox, error) {
	b.req = req
	return b.sandbox, nil
}
func (b *fakeSandboxes) Written(context.Context, api.WorkspaceID) (Result, error) {
	return Result{Close: func() {}}, nil
}

// TestSecretsOfSetup: a setup has its own secrets, and neither those nor the headers of the agent's sandboxes.
func TestSecretsOfSetup(t *testing.T) {
	s := &fakeSandboxes{store: store{layers: map[string]bool{}}, sandbox: &fakeSandbox{}, dir: t.TempDir()}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	defer p.Close()
	q, _ := request(t, "ada", locked)
	dir, steps := t.TempDir(), 0
	q.NextLog = func() string { steps++; return filepath.Join(dir, repo.SetupLog(steps)+".out") }
	q.Secrets = []api.SecretGrant{{Name: "registry"}}
	q.Sandbox.Secrets = []api.SecretGrant{{Name: "agent"}}
	q.Sandbox.Headers = []api.HeaderRule{{Host: "api.example.org", Headers: map[string]string{"X-Key": "${secret:agent}"}}}
	if _, err := p.Prepare(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if len(s.req.Secrets) != 1 || s.req.Secrets[0].Name != "registry" || s.req.Headers != nil {
		t.Errorf("%+v %+v", s.req.Secrets, s.req.Headers)
	}
}

// TestRequired: a setup that was found and fails is an error for who asked for nothing else, and an event for a task.
func TestRequired(t *testing.T) {
	for _, c := range []struct {
		name     string
		required bool
		code     int
		want     string
	}{
		{"a task continues", false, 3, ""},
		{"a preparation fails", true, 3, "step npm ci: exit 3: cannot reach the registry"},
		{"a preparation succeeds", true, 0, ""},
	} {
		s := &fakeSandboxes{store: store{layers: map[string]bool{}}, sandbox: &fakeSandbox{code: c.code}, dir: t.TempDir()}
		p := New(Config{Sandboxes: s, Toolchain: toolchain})
		q, said := request(t, "ada", locked)
		q.Task, q.Required = "t1", c.required
		dir, steps := t.TempDir(), 0
		q.NextLog = func() string { steps++; return filepath.Join(dir, repo.SetupLog(steps)+".out") }
		_, err := p.Prepare(t.Context(), q)
		p.Close()
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if got := strings.Contains(said(), "the task continues"); got != (c.code != 0) {
				t.Errorf("%s: %s", c.name, said())
			}
			continue
		}
		last := repo.SetupLog(2) + ".out" // of the second try
		if e := api.AsError(err); e.Kind != api.KindInvalid || !strings.Contains(e.Error(), c.want) || !strings.Contains(e.Hint, "hortus task logs t1 --gate "+repo.SetupLog(2)) {
			t.Errorf("%s: %v (%s)", c.name, e, e.Hint)
		}
		if raw, err := os.ReadFile(filepath.Join(dir, last)); err != nil || string(raw) != "cannot reach the registry\n" {
			t.Errorf("%s: the output is %q, %v", c.name, raw, err)
		}
	}
}

// TestFailedBefore: a task that continues without its setup does not wait for the same failure again. Anything that can
// change the result, a task that asks for it, and some minutes have it tried.
func TestFailedBefore(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &fakeSandboxes{store: store{layers: map[string]bool{}}, sandbox: &fakeSandbox{code: 3}, dir: t.TempDir()}
	p := New(Config{Sandboxes: s, Toolchain: toolchain, Now: func() time.Time { return now }})
	defer p.Close()
	for _, c := range []struct {
		name   string
		change func(q *repo.SetupRequest)
		later  time.Duration
		tried  bool
	}{
		{"the first", nil, 0, true},
		{"the same", nil, failedFor - time.Second, false},
		{"again", func(q *repo.SetupRequest) { q.Again = true }, 0, true},
		{"since then", nil, 0, false},
		{"another policy", func(q *repo.SetupRequest) { q.Egress = &api.EgressPolicy{} }, 0, true},
		{"another variable", func(q *repo.SetupRequest) { q.Sandbox.Env = map[string]string{"A": "b"} }, 0, true},
		{"another account", func(q *repo.SetupRequest) { q.Sandbox.Account = "eve" }, 0, true},
		{"a preparation", func(q *repo.SetupRequest) { q.Required = true }, 0, true},
		{"later", nil, failedFor, true},
		{"it works", func(q *repo.SetupRequest) { q.Again = true; s.sandbox.code = 0 }, 0, true},
		{"nothing is remembered", nil, 0, true},
	} {
		now = now.Add(c.later)
		q, said := request(t, "ada", locked)
		if c.change != nil {
			c.change(&q)
		}
		got, err := p.Prepare(t.Context(), q)
		if (err != nil) != q.Required {
			t.Fatalf("%s: %v", c.name, err)
		}
		if tried := !strings.Contains(said(), "not tried again, because it failed at 03:"); tried != c.tried || !tried && !strings.Contains(said(), ": step npm ci: exit 3") {
			t.Errorf("%s: tried %v; %s", c.name, tried, said())
		}
		if !q.Required && s.sandbox.code != 0 && (len(got.NotInstalled) != 1 || !strings.Contains(got.NotInstalled[0].Why, "exit 3")) {
			t.Errorf("%s: %+v", c.name, got.NotInstalled)
		}
		os.RemoveAll(filepath.Join(s.dir, ".git"))
	}
}

// TestFullDisk: output that cannot be stored because the disk is full names the disk.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		err  error
		want api.Kind
	}{
		{&os.PathError{Op: "write", Path: "setup-01.out", Err: syscall.ENOSPC}, api.KindExhausted},
		{api.Errorf(api.KindUnavailable, "the end was not seen"), api.KindUnavailable},
	} {
		s := &fakeSandboxes{store: store{layers: map[string]bool{}}, sandbox: &fakeSandbox{err: c.err}, dir: t.TempDir()}
		p := New(Config{Sandboxes: s, Toolchain: toolchain})
		q, _ := request(t, "ada", locked)
		_, err := p.Prepare(t.Context(), q)
		p.Close()
		if api.KindOf(err) != c.want || strings.Contains(err.Error(), "the disk of /data") != (c.want == api.KindExhausted) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestNotInstalled: what a setup did not install is part of its result, also if the result is of an earlier task, which is
// named by its commit then. A fresh one does not use it.
func TestNotInstalled(t *testing.T) {
	s := &fakeSandboxes{store: store{layers: map[string]bool{}, records: map[string]string{}}, sandbox: &fakeSandbox{missing: "npm\n"}, dir: t.TempDir()}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	defer p.Close()
	prepare := func(commit string, fresh bool, files map[string]string) (repo.SetupResult, string) {
		t.Helper()
		q, said := request(t, "ada", files)
		q.Commit, q.Fresh = commit, fresh
		got, err := p.Prepare(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return got, said()
	}
	left := api.NotInstalled{Language: api.JavaScript, Program: "npm", Why: "npm ci is left out: the sandbox has no npm"}
	check := func(name string, got repo.SetupResult, layer string, want ...api.NotInstalled) {
		t.Helper()
		if !slices.Equal(got.NotInstalled, want) || layer == "" != (len(got.Layers) == 0) || layer != "" && string(got.Layers[0]) != layer {
			t.Errorf("%s: %+v, layers %q", name, got.NotInstalled, got.Layers)
		}
	}
	got, _ := prepare("c1", false, locked)
	check("nothing can be installed", got, "", left)
	both := map[string]string{"package-lock.json": "{}", "go.mod": "module a\nrequire b v1.0.0\n", "docs/package.json": `{"dependencies":{"a":"1"}}`}
	got, _ = prepare("c1", false, both)
	unlocked := api.NotInstalled{Why: "docs/package.json has no lock file and is in a directory docs, so what it names is not installed: commit a lock file, or write .hortus/setup.yaml"}
	first := string(got.Layers[0])
	check("one of two", got, first, unlocked, left)

	b, err := os.ReadFile(filepath.Join(s.dir, recordPath))
	if err != nil {
		t.Fatal(err)
	}
	s.layers[first], s.records[first] = true, string(b)
	got, said := prepare("c2", false, both)
	check("reused", got, first, unlocked, left)
	if !strings.Contains(said, "(installed for commit c1)") || !strings.Contains(said, left.Why) {
		t.Error(said)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	s.sandbox.missing = ""
	got, _ = prepare("c2", true, both)
	check("fresh", got, first+" fresh 1", unlocked)
	s.layers[string(got.Layers[0])] = true
	got, _ = prepare("c3", false, both)
	check("the newest", got, first+" fresh 1", unlocked)

	s.sandbox.code = 3
	got, _ = prepare("c1", false, locked)
	check("a step fails", got, "", api.NotInstalled{Language: api.JavaScript, Why: "step npm ci: exit 3: cannot reach the registry"})
}

// TestPath: programs that a setup installed come before those of the sandbox, also for who reuses it.
func TestPath(t *testing.T) {
	s := &fakeSandboxes{store: store{layers: map[string]bool{}, records: map[string]string{}}, sandbox: &fakeSandbox{missing: "PATH=/usr/bin:/bin\n"}, dir: t.TempDir()}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	defer p.Close()
	files := map[string]string{"pnpm-lock.yaml": ""}
	const want = "/workspace/.git/hortus/node/node_modules/.bin:/usr/bin:/bin"
	q, said := request(t, "ada", files)
	got, err := p.Prepare(t.Context(), q)
	if err != nil || got.Env["PATH"] != want || len(got.Layers) != 1 {
		t.Fatalf("%v %v; %s", got.Env, err, said())
	}
	b, err := os.ReadFile(filepath.Join(s.dir, recordPath))
	if err != nil {
		t.Fatal(err)
	}
	s.layers[string(got.Layers[0])], s.records[string(got.Layers[0])] = true, string(b)
	q, said = request(t, "ada", files)
	if got, err = p.Prepare(t.Context(), q); err != nil || got.Env["PATH"] != want || !strings.Contains(said(), "reused") {
		t.Errorf("reused: %v %v; %s", got.Env, err, said())
	}
	q, _ = request(t, "ada", files)
	q.Sandbox.Env = map[string]string{"PATH": "/mine"}
	if got, err = p.Prepare(t.Context(), q); err != nil || got.Env["PATH"] != "" {
		t.Errorf("a task with a PATH of its own: %v %v", got.Env, err)
	}
}

// TestWarning: versions that a program chose are said, and are nothing that was left out. A step that may fail is.
func TestWarning(t *testing.T) {
	s := &fakeSandboxes{store: store{layers: map[string]bool{}}, sandbox: &fakeSandbox{}, dir: t.TempDir()}
	p := New(Config{Sandboxes: s, Toolchain: toolchain})
	defer p.Close()
	q, said := request(t, "ada", map[string]string{"package.json": `{"dependencies":{"a":"1"}}`})
	got, err := p.Prepare(t.Context(), q)
	if err != nil || len(got.NotInstalled) != 0 || len(got.Layers) != 1 || !strings.Contains(said(), "package.json has no lock file: npm installs the newest versions") {
		t.Errorf("%+v %v; %s", got, err, said())
	}
	s.sandbox.code, s.dir = 3, t.TempDir()
	q, said = request(t, "ada", map[string]string{"web/package.json": `{"dependencies":{"a":"1"}}`})
	got, err = p.Prepare(t.Context(), q)
	if err != nil || len(got.Layers) != 1 || len(got.NotInstalled) != 1 || !strings.HasPrefix(got.NotInstalled[0].Why, "step npm install in web: exit 3") {
		t.Errorf("%+v %v; %s", got, err, said())
	}
}

// TestSourcesWithoutSetup: the packages of a repository with the layout src are found although its setup failed, and the result says so.
func TestSourcesWithoutSetup(t *testing.T) {
	const project = "[project]\nname = 'shop'\n"
	for _, c := range []struct {
		name, manifest, instead string
		code                    int
	}{
		{name: "the setup fails", manifest: project + "dependencies = ['a']\n", code: 3, instead: "PYTHONPATH=src"},
		{name: "nothing is installed", manifest: project},
	} {
		s := &fakeSandboxes{store: store{layers: map[string]bool{}}, sandbox: &fakeSandbox{code: c.code}, dir: t.TempDir()}
		p := New(Config{Sandboxes: s, Toolchain: toolchain})
		q, said := request(t, "ada", map[string]string{"pyproject.toml": c.manifest, "src/shop/__init__.py": ""})
		got, err := p.Prepare(t.Context(), q)
		p.Close()
		if err != nil || len(got.Layers) != 0 || got.Env["PYTHONPATH"] != "/workspace/src" {
			t.Errorf("%s: %+v %v", c.name, got, err)
		}
		instead := ""
		for _, n := range got.NotInstalled {
			instead += n.Instead
		}
		if instead != c.instead || strings.Contains(said(), "without installed dependencies, and with PYTHONPATH=src") != (c.code != 0) {
			t.Errorf("%s: %q; %s", c.name, instead, said())
		}
	}
}

// TestWhyAStepFailed: the sentence about a failed step has what is wrong, and the registry that the step needs.
func TestWhyAStepFailed(t *testing.T) {
	const maven = "[INFO] x\n[ERROR] [ERROR] Some problems\n[ERROR] Could not transfer artifact a:b:pom:1 from/to central (https://example.org/m): transfer failed for https://example.org/m/a.pom, status: 502 Bad Gateway @ line 625, column 19\n[ERROR]\n[ERROR] [Help 1] http://example.org/a\n[ERROR] [Help 2] http://example.org/b\n"
	if got := tail(maven); got != "Could not transfer artifact a:b:pom:1: status: 502 Bad Gateway" {
		t.Error(got)
	}
	if got := tail("a\nb\nc\nd\n"); got != "b | c | d" {
		t.Error(got)
	}
	for l, want := range map[api.Language]string{api.Java: "--setup-egress repo.maven.apache.org", api.Rust: "--setup-egress index.crates.io,static.crates.io", api.Python: "--setup-egress npm,pip,go"} {
		if got := advise(api.EgressPolicy{}, repo.SetupRequest{}, l); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", l, got)
		}
	}
}
