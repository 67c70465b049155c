package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// want is what the scenario prints, with any SDK.
const want = `created once: true, running
read: "pear\näpple\n"
streamed: 800000, 800000
list: directory /workspace/in/dir, file /workspace/in/dir/moved, file /workspace/in/words.txt
run: "pear\näpple\n", exit 0
streams: 2001 lines, true, "problem\n", exit 3, lost 0
input: "GRüßE\n"
written: "one two", exited
killed: exited SIGKILL
stopped: canceled, hint false
its end: SIGKILL
commands: 6
code: 21 "hello\n"
code fails: ZeroDivisionError
fork: 2 of 2, "pear\näpple\n"
forks: 2, labels: 1
snapshot: true, "changed"
removed: removed
pause: paused, running
run: created plan code verdict, verified, "2, 3, 5, 7, 11\n"
numbers: true
resumed: true
after the last: 0
plan: plan.created plan.finished, done, failed, listed true,false,false
no plan: not_found, hint false
not found: not_found, hint false
no file: not_found, hint false
invalid: invalid, hint true
no ID: invalid, hint false
unauthenticated: unauthenticated, hint true
no key: invalid, hint true
no URL: invalid, hint true
kill: 0 left
ended: unavailable, gone, hint true
`

// TestScenario runs one scenario with each SDK, over connections that break in the middle of streams, and wants
// the same lines.
func TestScenario(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	key := w.Key("scenario", api.RoleAdmin).Secret
	source, err := os.ReadFile("scenario_async.py")
	if err != nil {
		t.Fatal(err)
	}
	// The same program without asyncio.
	plain := strings.NewReplacer("asyncio.run(main())", "main()", "import asyncio\n", "", "async def", "def", "async for", "for", "await ", "", "AsyncHortus", "Hortus").Replace(string(source))
	file := filepath.Join(t.TempDir(), "scenario.py")
	if err := os.WriteFile(file, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(t *testing.T, url string) string{
		"go":           func(t *testing.T, url string) string { return scenario(t, url, key) },
		"typescript":   program(key, "node", "scenario.mjs", filepath.Join(typescript, "dist/index.js")),
		"python":       program(key, "python3", file),
		"python async": program(key, "python3", "scenario_async.py"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &breaker{proxy: proxyTo(t, w.URL), broken: map[string]bool{}}
			srv := httptest.NewServer(p)
			defer srv.Close()
			got := run(t, srv.URL)
			want := want
			if os.Geteuid() != 0 {
				want = strings.Replace(want, "pause: paused, running", "pause: unsupported", 1)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("- want, + got:\n%s", diff)
			}
			if n := len(p.broken); n < 2 {
				t.Errorf("%d streams were broken", n)
			}
		})
	}
}

// program runs a program with an SDK, and returns what it prints.
func program(key string, args ...string) func(t *testing.T, url string) string {
	return func(t *testing.T, url string) string {
		t.Helper()
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skipf("%s is not installed", args[0])
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(2*time.Minute))
		defer cancel()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "HORTUS_HOST="+url, "HORTUS_API_KEY="+key, "SCENARIO="+label(t), "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8", "PYTHONWARNINGS=error")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s%s", args, err, out, stderr.Bytes())
		}
		return string(out)
	}
}

// label is a name for what a test creates.
func label(t *testing.T) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
}

// breaker is a proxy that breaks each event stream once, in the middle of what is sent first.
type breaker struct {
	proxy  http.Handler
	mu     sync.Mutex
	broken map[string]bool
}

func proxyTo(t *testing.T, to string) *httputil.ReverseProxy {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, FlushInterval: -1}
}

// ServeHTTP implements http.Handler.
func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The Go SDK reads the output of commands over the protocol of the guest, which has its own way to resume.
	if strings.HasSuffix(r.URL.Path, "/events") || strings.HasSuffix(r.URL.Path, "/output") {
		b.mu.Lock()
		if !b.broken[r.URL.Path] {
			b.broken[r.URL.Path] = true
			w = &breaking{w, 1000}
		}
		b.mu.Unlock()
	}
	b.proxy.ServeHTTP(w, r)
}

type breaking struct {
	http.ResponseWriter
	left int
}

// Unwrap is for http.ResponseController.
func (b *breaking) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// Write implements io.Writer.
func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left >= 0 {
		return b.ResponseWriter.Write(p)
	}
	_, _ = b.ResponseWriter.Write(p[:len(p)+b.left])
	_ = http.NewResponseController(b.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

type writer func([]byte)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// scenario is the scenario with the Go SDK.
func scenario(t *testing.T, url, key string) string {
	var out strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	text := func(s []byte) string {
		b, err := json.Marshal(string(s))
		world.OK(t, err)
		return string(b)
	}
	ctx, label := t.Context(), label(t)
	c := world.Must(client.Remote(url, key))(t)
	defer c.Close()
	failure := func(what string, err error) {
		gone := ""
		if api.GoneOf(err) {
			gone = ", gone"
		}
		printf("%s: %s%s, hint %v", what, api.KindOf(err), gone, api.HintOf(err) != "")
	}

	once := client.WithIdempotencyKey(ctx, label)
	req := api.CreateSandbox{Isolation: "container", Labels: map[string]string{"scenario": label}}
	s := world.Must(c.Sandboxes.Create(once, req))(t)
	defer s.Close()
	again := world.Must(c.Sandboxes.Create(once, req))(t)
	printf("created once: %v, %s", s.ID() == again.ID(), world.Must(s.Info(ctx))(t).State)

	read := func(s *client.Sandbox, name string) []byte {
		r, _, err := s.ReadFile(ctx, "", name)
		world.OK(t, err)
		defer r.Close()
		return world.Must(io.ReadAll(r))(t)
	}
	world.OK(t, s.WriteFile(ctx, "", "in/words.txt", strings.NewReader("pear\näpple\n")))
	printf("read: %s", text(read(s, "in/words.txt")))
	world.OK(t, s.WriteFile(ctx, "", "in/large", bytes.NewReader(make([]byte, 800_000))))
	printf("streamed: %d, %d", len(read(s, "in/large")), world.Must(s.Stat(ctx, "", "in/large"))(t).Size)
	world.OK(t, s.MakeDir(ctx, "", "in/dir"))
	world.OK(t, s.MakeDir(ctx, "", "in/dir"))
	world.Must(s.Guest().Move(ctx, "", "in/large", "in/dir/moved"))(t)
	var entries []string
	for _, e := range world.Must(s.ListDir(ctx, "", "in", 2))(t) {
		entries = append(entries, map[envd.FileType]string{envd.FileTypeFile: "file", envd.FileTypeDirectory: "directory"}[e.Type]+" "+e.Path)
	}
	slices.Sort(entries)
	printf("list: %s", strings.Join(entries, ", "))
	world.OK(t, s.Remove(ctx, "", "in/dir"))

	cmd := s.Command(ctx, "sort", "words.txt")
	cmd.Dir, cmd.Env = "in", map[string]string{"LC_ALL": "C"}
	printf("run: %s, exit 0", text(world.Must(cmd.Output())(t)))
	cmd = s.Command(ctx, "sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo problem >&2; exit 3")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *client.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	printf("streams: %d lines, true, %s, exit %d, lost 0", strings.Count(stdout.String(), "\n")+1, text(stderr.Bytes()), exit.Code)
	cmd = s.Command(ctx, "tr", "a-z", "A-Z")
	cmd.Stdin = strings.NewReader("grüße\n")
	printf("input: %s", text(world.Must(cmd.Output())(t)))
	cat := world.Must(s.CreateExec(ctx, api.ExecRequest{Args: []string{"cat"}, Stdin: true}))(t)
	world.OK(t, s.SendInput(ctx, cat.ID, strings.NewReader("one "), false))
	world.OK(t, s.SendInput(ctx, cat.ID, strings.NewReader("two"), true))
	stdout.Reset()
	world.OK(t, s.Attach(ctx, cat.ID, 0, &stdout, nil))
	printf("written: %s, %s", text(stdout.Bytes()), world.Must(s.Exec(ctx, cat.ID))(t).State)
	sleeper := world.Must(s.CreateExec(ctx, api.ExecRequest{Args: []string{"sleep", "1000"}}))(t)
	killed := world.Must(s.KillExec(ctx, sleeper.ID))(t).Exec
	printf("killed: %s %s", killed.State, killed.Exit.Signal)
	stopping, stop := context.WithCancel(ctx)
	cmd = s.Command(stopping, "sh", "-c", "echo started; sleep 1000")
	cmd.Stdout = writer(func([]byte) { stop() })
	failure("stopped", cmd.Run())
	last := world.Must(s.Execs(ctx))(t)[0].ID
	_ = s.Attach(ctx, last, 0, nil, nil) // its exit is no success
	printf("its end: %s", world.Must(s.Exec(ctx, last))(t).Exit.Signal)
	printf("commands: %d", len(world.Must(s.Execs(ctx))(t)))

	code := func(text string) (all []api.CodeEvent) {
		return world.All(t, s.RunCode(ctx, api.RunCode{Code: text}))
	}
	code("x = 20")
	var value, printed string
	for _, e := range code("print('hello')\nx + 1") {
		switch e.Type {
		case api.CodeResult:
			value = e.Text
		case api.CodeStdout:
			printed += e.Text
		}
	}
	printf("code: %s %s", value, text([]byte(printed)))
	failed := code("1 / 0")
	printf("code fails: %s", failed[len(failed)-1].Name)

	fork := world.Must(s.Fork(ctx, api.ForkSandbox{Count: 2}))(t)
	world.OK(t, s.WriteFile(ctx, "", "in/words.txt", strings.NewReader("changed")))
	var children []*client.Sandbox
	for _, row := range fork.Children {
		children = append(children, world.Must(c.Sandboxes.Get(ctx, string(row.Sandbox.ID)))(t))
	}
	printf("fork: %d of %d, %s", len(children), len(fork.Children), text(read(children[0], "in/words.txt")))
	printf("forks: %d, labels: %d", len(world.Must(c.Sandboxes.Match(ctx, client.SandboxFilter{ForksOf: s.ID()}))(t)),
		len(world.Must(c.Sandboxes.Match(ctx, client.SandboxFilter{Labels: map[string]string{"scenario": label}}))(t)))
	for _, child := range children {
		world.Must(child.Kill(ctx))(t)
		child.Close()
	}
	snapshot := world.Must(s.Snapshot(ctx, api.CreateSnapshot{Name: label}))(t)
	next := world.Must(c.Sandboxes.Create(ctx, api.CreateSandbox{Template: label, Isolation: "container"}))(t)
	printf("snapshot: %v, %s", snapshot.Name == label, text(read(next, "in/words.txt")))
	world.Must(next.Kill(ctx))(t)
	next.Close()
	printf("removed: %s", world.Must(c.Snapshots.Remove(ctx, string(snapshot.ID)))(t).State)
	if paused, err := s.Pause(ctx); err == nil {
		for _, err := range []error{s.MakeDir(ctx, "", "in/paused"), s.WriteFile(ctx, "", "in/paused", strings.NewReader("")), s.Command(ctx, "true").Run()} {
			if api.KindOf(err) != api.KindConflict {
				t.Errorf("in a paused sandbox: %v", err)
			}
		}
		printf("pause: %s, %s", paused.State, world.Must(s.Resume(ctx))(t).State)
	} else {
		printf("pause: %s", api.KindOf(err))
	}

	run := world.Must(c.Runs.Create(ctx, api.CreateRun{Request: "Write a Python script that prints the first 5 primes", Isolation: "container"}))(t)
	events := world.All(t, c.Runs.Events(ctx, run.ID, 0))
	var kinds []string
	var output []byte
	var numbers, seen []int64
	for _, e := range events {
		numbers = append(numbers, e.Seq)
		switch name := e.Type.RunName(); name {
		case "created", "plan", "code", "verdict":
			kinds = append(kinds, name)
		case "output":
			var o api.OutputEvent
			world.OK(t, json.Unmarshal(e.Data, &o))
			output = append(output, o.Data...)
		}
	}
	var verdict api.Task
	world.OK(t, json.Unmarshal(events[len(events)-1].Data, &verdict))
	printf("run: %s, %s, %s", strings.Join(kinds, " "), verdict.Outcome, text(output))
	printf("numbers: %v", slices.IsSorted(numbers) && len(slices.Compact(slices.Clone(numbers))) == len(numbers))
	for e, err := range c.Tasks.Events(ctx, run.ID, 0) {
		world.OK(t, err)
		if seen = append(seen, e.Seq); len(seen) == 3 {
			break
		}
	}
	for _, e := range world.All(t, c.Tasks.Events(ctx, run.ID, seen[2])) {
		seen = append(seen, e.Seq)
	}
	printf("resumed: %v", reflect.DeepEqual(seen, numbers))
	printf("after the last: %d", len(world.All(t, c.Tasks.Events(ctx, run.ID, seen[len(seen)-1]))))

	p := world.Must(c.Plans.Create(ctx, plan.Create{Task: api.CreateTask{Request: "1. Fix it", Repo: &api.RepoTask{
		URL: "https://127.0.0.1:1/none.git", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}}}))(t)
	steps := world.All(t, c.Plans.Events(ctx, p.ID, 0))
	p = world.Must(c.Plans.Get(ctx, p.ID))(t)
	has := func(l []plan.Plan) bool {
		return slices.ContainsFunc(l, func(o plan.Plan) bool { return o.ID == p.ID })
	}
	changes := func(w api.Workstream) bool { return w.ID == string(p.ID) }
	printf("plan: %s %s, %s, %s, listed %t,%t,%t", steps[0].Type, steps[len(steps)-1].Type, p.State, p.Outcome, has(world.Must(c.Plans.List(ctx, true))(t)),
		has(world.Must(c.Plans.List(ctx, false))(t)), slices.ContainsFunc(world.Must(c.Plans.Workstreams(ctx, ""))(t), changes))
	_, err := c.Plans.Cancel(ctx, "p0000000000000000000")
	failure("no plan", err)

	_, err = c.Sandboxes.Get(ctx, "i0000")
	failure("not found", err)
	_, _, err = s.ReadFile(ctx, "", "none")
	failure("no file", err)
	_, err = c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "nosuch"})
	failure("invalid", err)
	_, err = c.Tasks.Get(ctx, "..")
	failure("no ID", err)
	stranger := world.Must(client.Remote(url, "e2b_"+strings.Repeat("0", 40)))(t)
	defer stranger.Close()
	_, err = stranger.Info(ctx)
	failure("unauthenticated", err)
	_, err = client.Remote(url, "")
	failure("no key", err)
	_, err = client.Remote("ftp://x", key)
	failure("no URL", err)
	printf("kill: %d left", world.Must(s.Kill(ctx))(t).Proof.Left)
	for _, err := range []error{s.WriteFile(ctx, "", "late", strings.NewReader("")), s.Command(ctx, "true").Run()} {
		if !api.GoneOf(err) {
			t.Errorf("in an ended sandbox: %v", err)
		}
	}
	_, err = s.CreateExec(ctx, api.ExecRequest{Args: []string{"true"}})
	failure("ended", err)
	return out.String()
}
