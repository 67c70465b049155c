package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
)

// daemon plays a daemon with one task, whose events are known beforehand.
type daemon struct {
	task     api.Task
	events   []api.Event
	stdout   string
	mu       sync.Mutex
	created  api.CreateTask
	canceled chan struct{}     // non-nil: events continue after the cancellation
	stored   map[string]string // what is kept of a task on a repository, by the end of its path
}

func event(seq int64, t api.EventType, data any) api.Event {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return api.Event{Seq: seq, Type: t, Data: b}
}

// start serves the daemon and gives what Main needs to reach it.
func (d *daemon) start(t *testing.T) app.Connect {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		_ = json.NewDecoder(r.Body).Decode(&d.created)
		reply(w, d.task)
	})
	mux.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) { reply(w, d.task) })
	mux.HandleFunc("POST /v1/tasks/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		close(d.canceled)
		reply(w, d.task)
	})
	mux.HandleFunc("GET /v1/tasks/{id}/attempts/{n}/stdout", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, d.stdout) })
	mux.HandleFunc("GET /v1/tasks/{id}/{what...}", func(w http.ResponseWriter, r *http.Request) {
		what := r.PathValue("what")
		if r.URL.RawQuery != "" {
			what += "?" + r.URL.RawQuery
		}
		text, ok := d.stored[what]
		if !ok {
			w.WriteHeader(http.StatusConflict)
			reply(w, api.Error{Kind: api.KindConflict, Message: "no " + what})
			return
		}
		fmt.Fprint(w, text)
	})
	mux.HandleFunc("GET /v1/tasks/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		for i, e := range d.events {
			if i == len(d.events)-1 && d.canceled != nil {
				http.NewResponseController(w).Flush()
				select {
				case <-d.canceled:
				case <-r.Context().Done():
					return
				}
			}
			b, _ := json.Marshal(e)
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Seq, b)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		reply(w, api.Error{Kind: api.KindNotFound, Message: "nothing \x1b[31mhere", Hint: "look elsewhere"})
	})
	return serving(t, mux)
}

// run runs a command line.
func run(t *testing.T, connect app.Connect, stdin string, signals <-chan os.Signal, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runIn(t, nil, connect, stdin, signals, args...)
}

// runIn runs a command line with variables.
func runIn(t *testing.T, vars map[string]string, connect app.Connect, stdin string, signals <-chan os.Signal, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	getenv := func(name string) string {
		if v, ok := vars[name]; ok || name != "HOME" {
			return v
		}
		return "/nowhere"
	}
	var out, errOut bytes.Buffer
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + getenv("HOME"), "GIT_CONFIG_NOSYSTEM=1"}
	env := app.Env{
		Environ: environ,
		Stdin:   strings.NewReader(stdin), Stdout: &out, Stderr: &errOut, Signals: signals,
		Getenv: getenv, UID: 1, Version: func() admin.Version { return admin.Version{Version: "test"} },
		Exit: func(int) { t.Error("the process was ended") },
	}
	if env.Signals == nil {
		env.Signals = make(chan os.Signal)
	}
	code = Main(t.Context(), args, env, connect)
	return code, out.String(), errOut.String()
}

func verified() *daemon {
	res := func(ok bool, code int, stderr string) *api.ExecutionResult {
		return &api.ExecutionResult{OK: ok, Phase: api.PhaseRun, Exit: api.Exit{Code: code}, Stderr: stderr, Isolation: "container", RunMS: 20}
	}
	artifact := api.CodeArtifact{Files: []api.File{{Path: "main.py", Content: "print(1)\n"}}, Run: "python3 main.py"}
	d := &daemon{stdout: "bytes \x00\x1b[31m\xff without an end"}
	d.task = api.Task{ID: "t4f2a000000000000000", State: api.TaskDone, Outcome: api.OutcomeVerified, Attempts: []api.Attempt{
		{N: 1, Artifact: artifact}, {N: 2, Artifact: artifact, Result: res(true, 0, "")},
	}}
	d.events = []api.Event{
		event(1, api.EventPlan, api.ExecutionPlan{Language: api.Python, Output: api.OutputText, Task: "do \x1b]0;evil\x07it"}),
		event(2, api.EventAttempt, api.AttemptEvent{Attempt: 1, Of: 3, Isolation: "container", Why: "the strongest",
			Skipped: []api.Unenforced{{Limit: "disk", Reason: "no quota"}}}),
		event(3, api.EventResult, api.AttemptEvent{Attempt: 1, Of: 3, Result: res(false, 1, "Traceback\nModuleNotFoundError: No module named 'x'\n\n")}),
		event(4, api.EventDiagnosis, api.AttemptEvent{Attempt: 1, Of: 3, Diagnosis: &api.Diagnosis{Category: api.CategoryImport, Cause: "x is missing"}}),
		event(5, api.EventCode, api.AttemptEvent{Attempt: 2, Of: 3, Artifact: &artifact}),
		event(6, api.EventResult, api.AttemptEvent{Attempt: 2, Of: 3, Result: res(true, 0, "")}),
		event(7, api.EventTaskFinished, d.task),
	}
	return d
}

func TestRunVerified(t *testing.T) {
	d := verified()
	out := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := run(t, d.start(t), " a sentence \n", nil,
		"run", "-", "--memory", "64M", "--timeout", "1m", "--attempts", "2", "--env", "A=b", "--out", out)
	if code != 0 || stdout != d.stdout {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := lines[len(lines)-1]
	want := []string{
		`[task 4f2a] [planner] python, text output: do \x1b]0;evil\x07it`,
		`[task 4f2a] [executor] [attempt 1/3] exit 1: ModuleNotFoundError: No module named 'x'`,
		`[task 4f2a] [debugger] [attempt 1/3] missing_import: x is missing`,
		`[task 4f2a] [debugger] [attempt 2/3] main.py`,
		`[task 4f2a] [executor] [attempt 2/3] exit 0 in 20ms`,
		`[task 4f2a] [executor] warning: limit disk is not enforced: no quota`,
		`[task 4f2a] the program: hortus task code 4f2a  (main.py; --out DIR writes it)`,
	}
	if got := strings.Join(lines[:len(lines)-1], "\n"); got != strings.Join(want, "\n") {
		t.Errorf("stderr:\n%s", stderr)
	}
	if !strings.HasPrefix(last, "[task 4f2a] verified: exit 0 only, output not checked, 2 attempts in ") || !strings.HasSuffix(last, "isolation container (the strongest)") {
		t.Errorf("verdict %q", last)
	}
	if b, err := os.ReadFile(filepath.Join(out, "main.py")); err != nil || string(b) != "print(1)\n" {
		t.Errorf("--out: %q, %v", b, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.created
	if c.Request != "a sentence" || c.Sandbox.Limits.MemoryBytes != 64<<20 || c.RunTimeoutMS != 60000 || c.Attempts != 2 || c.Sandbox.Env["A"] != "b" {
		t.Errorf("asked for %+v", c)
	}
}

func TestRunJSONAndQuiet(t *testing.T) {
	code, stdout, stderr := run(t, verified().start(t), "", nil, "run", "--json", "--quiet", "x")
	var task api.Task
	if err := json.Unmarshal([]byte(stdout), &task); err != nil || code != 0 || task.Outcome != api.OutcomeVerified || stderr != "" {
		t.Errorf("code %d, %v, stderr %q", code, err, stderr)
	}
}

func TestOutRefusesNamesThatEscape(t *testing.T) {
	for _, name := range []string{"../evil", "/evil", "a/../../evil", "a\nb", ""} {
		d := verified()
		d.task.Attempts[1].Artifact.Files = []api.File{{Path: name, Content: "x"}}
		dir := t.TempDir()
		code, _, stderr := run(t, d.start(t), "", nil, "run", "--out", filepath.Join(dir, "out"), "x")
		if code != 1 || !strings.Contains(stderr, "--out") {
			t.Errorf("%q: code %d, %s", name, code, stderr)
		}
		if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for outcome, want := range map[api.Outcome]int{
		api.OutcomeNeedsHuman: 1, api.OutcomeDeclined: 3, api.OutcomeCanceled: 130, api.OutcomeFailed: 4, api.OutcomeLost: 1,
	} {
		d := verified()
		d.task.Outcome, d.task.Question = outcome, "which one?"
		d.task.Error = &api.Error{Kind: api.KindUnisolated, Message: "no namespaces", Hint: "sysctl"}
		code, stdout, stderr := run(t, d.start(t), "", nil, "run", "x")
		if code != want || stdout != "" || !strings.Contains(stderr, "  next: sysctl") {
			t.Errorf("%s: code %d, want %d; stdout %q\n%s", outcome, code, want, stdout, stderr)
		}
	}
}

func TestInterruptCancelsTheTask(t *testing.T) {
	d := verified()
	d.canceled = make(chan struct{})
	d.task.Outcome = api.OutcomeCanceled
	d.task.Receipt = &api.Receipt{Completed: []string{"plan"}, Skipped: []string{"run"}}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	code, stdout, stderr := run(t, d.start(t), "", signals, "run", "x")
	if code != 130 || stdout != "" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"done: plan", "not done: run", "0 processes left"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}

func TestUsage(t *testing.T) {
	connect := (&daemon{}).start(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"bogus", 2, "bogus"},
		{"bogus", 2, "next: hortus --help"},
		{"run", 2, "sentence"},
		{"run", 2, "next: hortus run --help"},
		{"sandbox", 2, "next: hortus sandbox --help"},
		{"sandbox ttl i4", 2, "next: hortus sandbox ttl --help"},
		{"run x --timeout -5s", 2, `--timeout has no value: "-5s" would be a flag`},
		{"run x --timeout -5s", 2, "next: --timeout=-5s"},
		{"run x --timeout", 2, "--timeout has no value\n"},
		{"egress log --result some", 2, `"waiting","alarm" but got "some"`},
		{"task ls --limit ten", 2, `--limit: "ten" is not a number`},
		{"task x --cost much", 2, `--cost: "much" is not a number`},
		{"run x --memory 12Q", 2, "--memory"},
		{"run x --ttl 5", 2, "--ttl"},
		{"run x --ttl 48h", 2, "--ttl"},
		{"run x --cpus 0", 2, "--cpus"},
		{"run x --pids 0", 2, "--pids"},
		{"run x --attempts 0", 2, "--attempts"},
		{"run x --env PATH", 2, "never taken from your environment"},
		{"sandbox run --", 2, "command"},
		{"sandbox exec i4 --user 1000:1000 -- id", 2, "--user"},
		{"sandbox cp --user a:b i4:/x .", 2, "--user"},
		{"sandbox create --image a --template b", 2, "exclude each other"},
		{"sandbox run --image= --pull -- id", 2, "--pull is for --image"},
		{"run x --pull", 2, "--pull is for --image"},
		{"task replay last --image a", 1, `nothing`},
		{"template create a --from-image=", 2, "--from-image: the reference is empty"},
		{"template create a --from-image b --from host", 2, "exclude each other"},
		{"template create a --from-image b --run true", 2, "then: hortus template create a-2 --from a --run CMD"},
		{"template create a --from-image b --memory 1G", 2, "--memory and --from-image"},
		{"sandbox cp a b", 2, "ID:PATH"},
		{"sandbox show zz", 1, `nothing \x1b[31mhere`},
		{"sandbox show zz", 1, "next: look elsewhere"},
		{"sandbox exec zz -- true", 125, "nothing"},
	} {
		code, stdout, stderr := run(t, connect, "", nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("%s: code %d, want %d; stdout %q, stderr %q", c.args, code, c.code, stdout, stderr)
		}
		if strings.Contains(stderr, "\x1b") {
			t.Errorf("%s: an escape reached the terminal: %q", c.args, stderr)
		}
	}
	if code, stdout, _ := run(t, connect, "", nil, "sandbox", "show", "zz", "--json"); code != 1 || !strings.Contains(stdout, `"kind": "not_found"`) {
		t.Errorf("an error as JSON: %d, %q", code, stdout)
	}
	for _, args := range []string{"bogus --json", "--json sandbox", "run x --memory 12Q --json"} {
		if code, stdout, _ := run(t, connect, "", nil, strings.Fields(args)...); code != 2 || !strings.Contains(stdout, `"kind": "invalid"`) {
			t.Errorf("%s: code %d, %q", args, code, stdout)
		}
	}
	if code, stdout, _ := run(t, connect, "", nil, "bogus", "--", "--json"); code != 2 || stdout != "" {
		t.Errorf("--json of another command: %d, %q", code, stdout)
	}
	if code, stdout, _ := run(t, connect, "", nil, "--help"); code != 0 || !strings.Contains(stdout, "sandbox run") {
		t.Errorf("help: %d, %q", code, stdout)
	}
}

// serving plays a daemon that answers with h until the test ends.
func serving(t *testing.T, h http.Handler) app.Connect {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return func(context.Context, app.ConnectOptions) (*client.Client, error) { return client.Unix(path), nil }
}
