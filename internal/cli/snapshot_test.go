package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/completion"
	"hortus.dev/internal/server/access"
)

const (
	boxOne  = "i4f2a000000000000000"
	boxTwo  = "i4f2b000000000000000"
	snapOne = "s1111000000000000000"
	snapTwo = "s2222000000000000000"
	snapPy  = "s3333000000000000000"
)

// garden plays a daemon with sandboxes and snapshots, and keeps what it was asked.
type garden struct {
	fork  api.ForkResult
	lines string // what the making of a template answers with
	// images serves what the daemon has of images; nil for a daemon without a store of them.
	images *access.Images
	// templates exports.
	templates exports
	user      bool          // the caller is a user, not the operator
	hang      chan struct{} // non-nil: closed when the making began, which then continues until the client leaves

	mu    sync.Mutex
	asked map[string]json.RawMessage
}

// was decodes what a path was requested.
func was[T any](t *testing.T, g *garden, path string) (v T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := json.Unmarshal(g.asked[path], &v); err != nil {
		t.Errorf("%s was asked %q: %v", path, g.asked[path], err)
	}
	return v
}

// saved lists the garden's snapshots.
func saved() []api.Snapshot {
	at := time.Now().Add(-time.Minute)
	return []api.Snapshot{
		{ID: snapPy, State: api.SnapshotReady, Kind: api.SnapshotMemory, Name: "py", Sandbox: boxOne, Template: "host", Bytes: 5 << 20,
			Image: api.ImageMark{Backend: "gvisor", Kernel: "v1", CPU: "amd64-1f2e"}, CreatedAt: at, PausedMS: 120},
		{ID: snapTwo, State: api.SnapshotReady, Kind: api.SnapshotMemory, Sandbox: boxTwo, Paused: true, Template: "host", CreatedAt: at, Image: api.ImageMark{Backend: "gvisor"}},
		{ID: snapOne, State: api.SnapshotReady, Kind: api.SnapshotFiles, Sandbox: boxOne, Template: "host", CreatedAt: at, Image: api.ImageMark{Backend: "container"}, Reason: "\x1b[31m",
			Why: "container saves no memory"},
	}
}

func (g *garden) start(t *testing.T) app.Connect {
	t.Helper()
	g.asked = map[string]json.RawMessage{}
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	ask := func(r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		g.asked[r.URL.Path] = body
	}
	deadline := time.Now().Add(time.Hour)
	sandboxes := []api.Sandbox{
		{ID: boxOne, State: api.SandboxRunning, Isolation: "gvisor", Template: "py", Snapshot: snapPy, ExpiresAt: deadline, CreatedAt: time.Now()},
		{ID: boxTwo, State: api.SandboxPaused, Isolation: "gvisor", Template: "host", Parent: boxOne, ExpiresAt: deadline, CreatedAt: time.Now()},
	}
	mux.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) { reply(w, sandboxes) })
	mux.HandleFunc("GET /v1/sandboxes/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, b := range sandboxes {
			if string(b.ID) == r.PathValue("id") {
				reply(w, b)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		reply(w, api.Error{Kind: api.KindNotFound, Message: "there is no such sandbox"})
	})
	mux.HandleFunc("GET /v1/sandboxes/{id}/execs", func(w http.ResponseWriter, r *http.Request) { reply(w, []api.Exec{}) })
	mux.HandleFunc("POST /v1/sandboxes/{id}/forks", func(w http.ResponseWriter, r *http.Request) { ask(r); reply(w, g.fork) })
	mux.HandleFunc("POST /v1/sandboxes/{id}/snapshots", func(w http.ResponseWriter, r *http.Request) { ask(r); reply(w, saved()[2]) })
	mux.HandleFunc("POST /v1/sandboxes/{id}/pause", func(w http.ResponseWriter, r *http.Request) { ask(r); reply(w, sandboxes[1]) })
	mux.HandleFunc("POST /v1/sandboxes/{id}/resume", func(w http.ResponseWriter, r *http.Request) { reply(w, sandboxes[0]) })
	mux.HandleFunc("GET /v1/snapshots", func(w http.ResponseWriter, r *http.Request) { reply(w, saved()) })
	mux.HandleFunc("/v1/snapshots/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, s := range saved() {
			if id := r.PathValue("id"); id == string(s.ID) || id == s.Name {
				if r.Method == http.MethodDelete {
					ask(r)
					s.State = api.SnapshotRemoved
				}
				reply(w, s)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		reply(w, api.Error{Kind: api.KindNotFound, Message: "there is no such snapshot"})
	})
	mux.HandleFunc("GET /v1/templates", func(w http.ResponseWriter, r *http.Request) {
		py := saved()[0]
		list := []api.Template{{Name: "host"}}
		if g.images != nil {
			images, err := g.images.List(api.WithPrincipal(r.Context(), api.Operator()))
			if err != nil {
				t.Error(err)
			}
			for _, img := range images {
				if img.Name != "" {
					list = append(list, api.Template{Name: img.Name, Image: &img})
				}
			}
		}
		reply(w, append(list, api.Template{Name: "py", Snapshot: &py}))
	})
	mux.HandleFunc("POST /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) { ask(r); reply(w, sandboxes[0]) })
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, r *http.Request) { ask(r); reply(w, api.Task{ID: "t4f2a000000000000000"}) })
	images := g.imageServer()
	mux.Handle("GET /v1/templates/{name}/export", images)
	mux.Handle("/v1/images", images)
	mux.Handle("/v1/images/", images)
	mux.HandleFunc("POST /v1/templates", func(w http.ResponseWriter, r *http.Request) {
		ask(r)
		_, _ = w.Write([]byte(g.lines))
		if g.hang != nil {
			_ = http.NewResponseController(w).Flush()
			close(g.hang)
			<-r.Context().Done()
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return func(context.Context, app.ConnectOptions) (*client.Client, error) {
		return client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
		}}), nil
	}
}

// says wants texts to be there, in any order.
func says(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(text, s) {
			t.Errorf("%s: no %q in\n%s", what, s, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("%s: an escape reached the terminal: %q", what, text)
	}
}

func TestForkCommand(t *testing.T) {
	g := &garden{fork: api.ForkResult{Parent: boxOne, Kind: api.SnapshotMemory, PausedMS: 95, Children: []api.ForkChild{
		{Sandbox: &api.Sandbox{ID: boxTwo}}, {Sandbox: &api.Sandbox{ID: "i5"}},
	}}}
	connect := g.start(t)
	code, stdout, stderr := run(t, connect, "", nil, "sandbox", "fork", boxOne, "--count", "2", "--ttl", "1m", "-e", "A=b=c", "-l", "x=y", "--files-only")
	if code != 0 || stdout != boxTwo+"\ni5\n" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	says(t, "fork", stderr, "2 of 2 children with memory and files", "was paused for 95ms")
	want := api.ForkSandbox{Count: 2, TTLMS: 60000, Env: map[string]string{"A": "b=c"}, Labels: map[string]string{"x": "y"}, FilesOnly: true}
	if got := was[api.ForkSandbox](t, g, "/v1/sandboxes/"+boxOne+"/forks"); !reflect.DeepEqual(got, want) {
		t.Errorf("asked for %+v", got)
	}

	// What there is, is printed; that it is not all, too, and the code says so.
	g.fork.Kind, g.fork.Why = api.SnapshotFiles, "container saves no memory"
	g.fork.Children[1] = api.ForkChild{Error: &api.Error{Kind: api.KindExhausted, Message: "no \x1b[1mroom", Hint: "kill one"}}
	code, stdout, stderr = run(t, connect, "", nil, "sandbox", "fork", boxOne, "-n", "3")
	if code != 1 || stdout != boxTwo+"\n" {
		t.Errorf("one failed: code %d, stdout %q", code, stdout)
	}
	says(t, "one failed", stderr, "1 of 3 children", "files only: container saves no memory",
		`hortus: child 2 of 3 was not made: no \x1b[1mroom`, "  next: kill one")
	code, stdout, stderr = run(t, connect, "", nil, "sandbox", "fork", boxOne, "--json", "--quiet", "-n", "2")
	var out api.ForkResult
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != 1 || len(out.Children) != 2 || out.Children[1].Error == nil || out.Why == "" {
		t.Errorf("as JSON: code %d, %v, %s", code, err, stdout)
	}
	says(t, "quiet", stderr, "child 2 of 2")

	for args, say := range map[string]string{
		"--count 0": "--count", "--count 101": "between 1 and 100", "--count -1": "", "--ttl 48h": "--ttl", "--env PATH": "--env", "--label =": "--label",
	} {
		if code, _, stderr := run(t, connect, "", nil, append([]string{"sandbox", "fork", boxOne}, strings.Fields(args)...)...); code != 2 || !strings.Contains(stderr, say) {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
}

func TestSnapshotCommands(t *testing.T) {
	g := &garden{}
	connect := g.start(t)
	for _, c := range []struct {
		args string
		code int
		out  []string // on stdout
		err  []string // on stderr
	}{
		{"sandbox snapshot " + boxOne + " --name py --files-only", 0, []string{snapOne}, []string{"files alone"}},
		{"sandbox snapshot " + boxOne, 0, []string{snapOne}, []string{"files only: container saves no memory"}},
		{"sandbox pause " + boxOne, 0, nil, []string{"is paused"}},
		{"sandbox pause " + boxOne + " --to-disk", 0, nil, []string{boxTwo + " is paused to disk; to resume it: hortus sandbox resume " + boxTwo}},
		{"sandbox resume " + boxTwo, 0, nil, []string{"is running"}},
		{"sandbox ls", 0, []string{boxOne, "running", "py", snapPy, boxTwo, "paused to disk", boxOne}, nil},
		{"sandbox show " + boxTwo, 0, []string{"paused to disk", "parent", boxOne}, nil},
		{"sandbox show " + boxOne, 0, []string{"running", "snapshot", snapPy}, nil},
		{"snapshot ls", 0, []string{snapOne, snapTwo, snapPy, "memory", "files", "gvisor", "5 MiB", "py", boxTwo, "paused to disk", `\x1b[31m`}, nil},
		{"snapshot show py", 0, []string{snapPy, "memory and files", "amd64-1f2e", "120ms", "kernel"}, nil},
		{"snapshot show " + snapTwo, 0, []string{"hortus sandbox resume " + boxTwo}, nil},
		{"snapshot show " + snapOne, 0, []string{"files alone", "container saves no memory"}, nil},
		{"snapshot show nothing", 1, nil, []string{"no such snapshot", "next: to list them: hortus snapshot ls"}},
		{"snapshot rm nothing", 1, nil, []string{"next: to list them: hortus snapshot ls"}},
		{"template show nothing", 1, nil, []string{"next: to list them: hortus template ls"}},
		{"snapshot show ../x", 2, nil, []string{"neither a template nor a snapshot ID"}},
		{"snapshot rm " + snapOne + " py", 0, nil, []string{snapOne + " is removed", snapPy + " is removed"}},
		{"snapshot rm", 2, nil, []string{"id"}},
		{"template ls", 0, []string{"host", "this machine's tools", "py", snapPy, "gvisor"}, nil},
		{"template show py", 0, []string{snapPy}, nil},
		{"template show " + snapOne, 1, nil, []string{"is a snapshot, not a template", "next: hortus snapshot show " + snapOne}},
		{"template rm py", 0, nil, []string{"template py is removed"}},
		{"template rm host", 2, nil, []string{"is built in"}},
		{"template rm " + snapOne, 1, nil, []string{"is a snapshot, not a template"}},
	} {
		code, stdout, stderr := run(t, connect, "", nil, strings.Fields(c.args)...)
		if code != c.code || len(c.out) == 0 && stdout != "" {
			t.Errorf("%s: code %d, want %d; stdout %q, stderr %q", c.args, code, c.code, stdout, stderr)
		}
		says(t, c.args, stdout, c.out...)
		says(t, c.args, stderr, c.err...)
		if c.code == 0 && !strings.HasPrefix(c.args, "template show") {
			code, stdout, _ := run(t, connect, "", nil, append(strings.Fields(c.args), "--json")...)
			if code != 0 || !json.Valid([]byte(stdout)) {
				t.Errorf("%s --json: code %d, %s", c.args, code, stdout)
			}
		}
	}
	if got := was[api.PauseSandbox](t, g, "/v1/sandboxes/"+boxOne+"/pause"); !got.ToDisk {
		t.Errorf("pause was asked %+v", got)
	}
	run(t, connect, "", nil, "sandbox", "snapshot", boxOne, "--name", "py", "--files-only")
	if got := was[api.CreateSnapshot](t, g, "/v1/sandboxes/"+boxOne+"/snapshots"); !reflect.DeepEqual(got, api.CreateSnapshot{Name: "py", FilesOnly: true}) {
		t.Errorf("snapshot was asked %+v", got)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, removed := g.asked["/v1/snapshots/"+snapTwo]; removed {
		t.Error("the memory of a paused sandbox was removed")
	}
}

func TestTemplateCreateCommand(t *testing.T) {
	made := saved()[0]
	made.Listeners = []api.Listener{{PID: 9, Command: "node\x1b[31m", Port: 3000}}
	done, _ := json.Marshal(map[string]api.Snapshot{"snapshot": made})
	g := &garden{lines: "{\"step\":\"boot\"}\n{\"step\":\"run \\u001b[31m\\n  one\"}\n" + string(done) + "\n"}
	connect := g.start(t)
	args := []string{"template", "create", "py", "--from", "base", "--isolation", "gvisor", "--memory", "64M", "--pids", "9", "-e", "A=b",
		"--run", "python3 a, b.py &", "--run", "true", "--on-restore", "kill -HUP 9", "--timeout", "1m"}
	code, stdout, stderr := run(t, connect, "", nil, args...)
	if code != 0 || stdout != snapPy+"\n" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	says(t, "create", stderr, "[template py] boot\n", `[template py] run \x1b[31m one`+"\n", "template py is ready after ", "memory and files, 5 MiB, isolation gvisor",
		`warning: node\x1b[31m (process 9, port 3000) has the same memory`, "their random numbers and keys can be the same in all sandboxes of template py; --on-restore")
	want := api.CreateTemplate{Name: "py", From: "base", Isolation: "gvisor", Limits: api.Limits{MemoryBytes: 64 << 20, Processes: 9},
		Env: map[string]string{"A": "b"}, Run: []string{"python3 a, b.py &", "true"}, OnRestore: "kill -HUP 9", TimeoutMS: 60000}
	if got := was[api.CreateTemplate](t, g, "/v1/templates"); !reflect.DeepEqual(got, want) {
		t.Errorf("asked for %+v", got)
	}
	code, stdout, stderr = run(t, connect, "", nil, append(args, "--json", "--quiet")...)
	var snap api.Snapshot
	if err := json.Unmarshal([]byte(stdout), &snap); err != nil || code != 0 || snap.ID != snapPy || stderr != "" {
		t.Errorf("as JSON: code %d, %v, stderr %q", code, err, stderr)
	}
	g.lines = `{"type":"step","step":"boot"}` + "\n" + `{"type":"error","error":{"kind":"conflict","detail":"true: exit 1","hint":"look at it"}}`
	code, stdout, stderr = run(t, connect, "", nil, args...)
	if code != 1 || stdout != "" {
		t.Errorf("a command that failed: code %d, stdout %q", code, stdout)
	}
	says(t, "a command that failed", stderr, "hortus: true: exit 1", "  next: look at it")
	if code, _, stderr := run(t, connect, "", nil, "template", "create", "py", "--cpus", "0"); code != 2 {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// TestTemplateInterrupted: Ctrl-C ends the making, at the daemon too.
func TestTemplateInterrupted(t *testing.T) {
	g := &garden{lines: `{"step":"boot"}` + "\n", hang: make(chan struct{})}
	connect := g.start(t)
	signals := make(chan os.Signal, 1)
	go func() { <-g.hang; signals <- syscall.SIGINT }()
	code, stdout, stderr := run(t, connect, "", signals, "template", "create", "py", "--run", "sleep 1000")
	if code != 130 || stdout != "" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	says(t, "cancelled", stderr, "[template py] cancelling", "hortus: template py was not created: cancelled")
}

func TestCompleteSnapshots(t *testing.T) {
	connect := (&garden{}).start(t)
	for words, want := range map[string]string{
		"sandbox fork i4f2a":                   boxOne,
		"sandbox snapshot i4f2b":               boxTwo,
		"sandbox fork x --fi":                  "--files-only",
		"sandbox pause x --to":                 "--to-disk",
		"snapshot s":                           "show",
		"snapshot show s1":                     snapOne,
		"snapshot rm " + snapOne + " s2":       snapTwo,
		"template show _":                      "host py",
		"template rm _":                        "py",
		"template create x --from p":           "py",
		"sandbox create --template _":          "host py",
		"sandbox create --template=s3":         "--template=" + snapPy,
		"sandbox create --template=h":          "--template=host",
		"template create x --isolation=cont":   "--isolation=container",
		"sandbox snapshot " + boxOne + " --na": "--name",
	} {
		list := strings.Fields(words)
		if list[len(list)-1] == "_" {
			list[len(list)-1] = ""
		}
		code, stdout, stderr := run(t, connect, "", nil, append([]string{completion.Name, "--"}, list...)...)
		var got []string
		for line := range strings.Lines(stdout) {
			name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, name)
		}
		if code != 0 || stderr != "" || strings.Join(got, " ") != want {
			t.Errorf("%s: code %d, %q, want %q; %s", words, code, got, want, stderr)
		}
	}
}
