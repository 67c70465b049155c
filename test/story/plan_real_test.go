package story

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
)

// repeatable are scripted agents that may be asked again by another daemon: each executes its command until it has seen the end of it, and
// finishes.
type repeatable struct {
	t        testing.TB
	commands map[string]string // by the name of the agent
}

func (a repeatable) serve(g *garden) {
	srv := httptest.NewServer(a)
	a.t.Cleanup(srv.Close)
	g.env = append(g.env, "ANTHROPIC_BASE_URL="+srv.URL, "ANTHROPIC_API_KEY="+modelKey)
}

// ServeHTTP answers for the agent that a request names.
func (a repeatable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the daemon was killed
	}
	s := finishes()
	if m := agentName.FindSubmatch(body); r.Method == http.MethodPost && m != nil && !bytes.Contains(body, []byte("wrote-"+string(m[1])+".")) {
		s = shell(a.commands[string(m[1])] + "; printf 'wrote-%s.\\n' " + string(m[1]))
	}
	m, err := modelserver.New([]byte(scenario(a.t, s)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.ServeHTTP(w, r)
}

// leveled are items in levels, each with a change that its agent applies after some time.
type leveled struct {
	items    []plan.Item
	commands map[string]string
	takes    map[string]time.Duration // what the agent's command takes
	want     map[string]string        // the files that the items add
}

// levels makes items: each of a level needs one of the level before it, and some need two. Agents take from least to most.
func levels(random *rand.Rand, depth, width int, least, most time.Duration) leveled {
	p := leveled{commands: map[string]string{}, takes: map[string]time.Duration{}, want: map[string]string{}}
	for level := range depth {
		for n := range width {
			id := fmt.Sprintf("item-%d-%d", level+1, n+1)
			file := "lib/" + id + ".js"
			it := plan.Item{ID: id, Request: "[" + id + "] Add " + file, Touches: []string{file}, Creates: []string{file}}
			if level > 0 {
				it.Needs = []string{fmt.Sprintf("item-%d-%d", level, n+1)}
				if n > 0 && random.IntN(2) == 0 {
					it.Needs = append(it.Needs, fmt.Sprintf("item-%d-%d", level, n))
				}
			}
			p.takes[id] = least + time.Duration(random.Int64N(int64(most-least)+1)).Round(100*time.Millisecond)
			p.want[file] = "module.exports = '" + id + "';\n"
			p.commands[id] = fmt.Sprintf("sleep %.1f; printf \"module.exports = '%%s';\\n\" %s >%s", p.takes[id].Seconds(), id, file)
			p.items = append(p.items, it)
		}
	}
	return p
}

// longest is the longest chain of items that need each other.
func (p leveled) longest(of func(id string) time.Duration) time.Duration {
	ends := map[string]time.Duration{}
	var last time.Duration
	for _, it := range p.items { // those that an item needs come before it
		var ready time.Duration
		for _, need := range it.Needs {
			ready = max(ready, ends[need])
		}
		ends[it.ID] = ready + of(it.ID)
		last = max(last, ends[it.ID])
	}
	return last
}

// write writes the items as a file for --plan.
func (p leveled) write(t testing.TB) string {
	t.Helper()
	doc, err := json.Marshal(map[string]any{"request": "Add the files", "items": p.items})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// same fails if the branch of a plan that is done has not the files of the base and of the items, with one commit for each item.
func (p leveled) same(t *testing.T, g *garden, dir string, done plan.Plan) {
	t.Helper()
	if done.Outcome != api.OutcomeVerified {
		for _, it := range done.Items {
			t.Log(it.ID, it.State, it.Why, it.Question)
		}
		t.Fatalf("plan %s: %s: %s", done.ID, done.Outcome, done.Why)
	}
	g.must("task", "apply", string(done.Checked), "--repo", dir, "--branch")
	want := map[string]string{}
	for _, name := range strings.Fields(gitIn(t, dir, "ls-tree", "-r", "--name-only", "main")) {
		want[name] = strings.TrimSpace(gitIn(t, dir, "rev-parse", "main:"+name))
	}
	got := map[string]string{}
	for _, name := range strings.Fields(gitIn(t, dir, "ls-tree", "-r", "--name-only", done.Branch)) {
		if text, ok := p.want[name]; ok && gitIn(t, dir, "show", done.Branch+":"+name) == text {
			continue
		}
		got[name] = strings.TrimSpace(gitIn(t, dir, "rev-parse", done.Branch+":"+name))
	}
	if n := len(strings.Fields(gitIn(t, dir, "ls-tree", "-r", "--name-only", done.Branch))); n != len(want)+len(p.want) || !maps.Equal(got, want) {
		t.Errorf("the branch has %d files, want %d and %d: %v", n, len(want), len(p.want), got)
	}
	log := gitIn(t, dir, "log", "--format=%(trailers:key=Hortus-Item,valueonly,separator=)", "main.."+done.Branch)
	items := strings.Fields(log)
	slices.Sort(items)
	if len(items) != len(p.items) || len(slices.Compact(items)) != len(p.items) {
		t.Errorf("the commits are of %v", items)
	}
}

// installedPackage makes a checkout of a published package of npm with its tests, whose dependencies the machine can install. Without the
// registry the test is skipped. count is how many requests the installation sent.
func installedPackage(t *testing.T, g *garden) (dir string, requests *atomic.Int64) {
	t.Helper()
	npm := func(in string, args ...string) string {
		cmd := exec.Command("npm", args...)
		cmd.Dir = in
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("the packages of the npm registry cannot be fetched here: npm %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	at := t.TempDir()
	upstream := npm(at, "config", "get", "registry")
	npm(at, "pack", "--silent", "qs@6.13.0")
	if out, err := exec.Command("tar", "-C", at, "-xzf", filepath.Join(at, "qs-6.13.0.tgz")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	src := filepath.Join(at, "package")
	var manifest map[string]any
	text, err := os.ReadFile(filepath.Join(src, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Its linters and bundlers are some thousand packages that its tests do not need.
	tests := []string{"es-value-fixtures", "for-each", "has-override-mistake", "has-property-descriptors", "has-symbols", "iconv-lite", "mock-property", "object-inspect", "qs-iconv", "safer-buffer", "tape"}
	dev, _ := manifest["devDependencies"].(map[string]any)
	maps.DeleteFunc(dev, func(name string, _ any) bool { return !slices.Contains(tests, name) })
	manifest["scripts"] = map[string]string{"test": "tape 'test/**/*.js'"}
	if text, err = json.MarshalIndent(manifest, "", "  "); err == nil {
		err = os.WriteFile(filepath.Join(src, "package.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	npm(src, "install", "--package-lock-only", "--ignore-scripts", "--silent", "--omit-lockfile-registry-resolved", "--registry", upstream)
	files := map[string]string{".gitignore": "node_modules\n"}
	for _, pattern := range []string{"*.json", "lib/*", "test/*.js"} {
		names, _ := filepath.Glob(filepath.Join(src, pattern))
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, _ := filepath.Rel(src, name)
			files[rel] = string(text)
		}
	}
	// Sandboxes reach the registry through this machine.
	r := newRegistries(t)
	r.configure(g)
	requests = &atomic.Int64{}
	r.mux.HandleFunc("GET /npm/", func(w http.ResponseWriter, in *http.Request) {
		requests.Add(1)
		out, err := http.NewRequestWithContext(in.Context(), http.MethodGet, strings.TrimSuffix(upstream, "/")+strings.TrimPrefix(in.URL.EscapedPath(), "/npm"), nil)
		if err == nil {
			out.Header.Set("Accept", in.Header.Get("Accept"))
			var res *http.Response
			if res, err = http.DefaultClient.Do(out); err == nil {
				defer res.Body.Close()
				var body []byte
				if body, err = io.ReadAll(res.Body); err == nil {
					w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
					w.WriteHeader(res.StatusCode)
					w.Write(bytes.ReplaceAll(body, []byte(`"`+upstream), []byte(`"`+r.url+"/npm/")))
					return
				}
			}
		}
		http.Error(w, err.Error(), http.StatusBadGateway)
	})
	return makeRepo(t, g, files), requests
}

// span is where the time of an item went.
type span struct {
	wait, start, agent, gates, queue, check time.Duration
}

func (s span) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%6d", d.Milliseconds()) }
	return strings.Join([]string{ms(s.wait), ms(s.start), ms(s.agent), ms(s.gates), ms(s.queue), ms(s.check)}, " ")
}

// spans reads from the events where the time of each item went, and how often the dependencies were installed.
func spans(t *testing.T, g *garden, p plan.Plan) (of map[string]span, setups int) {
	t.Helper()
	of = map[string]span{}
	cl := g.client()
	completed := map[string]time.Time{}
	begun := map[string]time.Time{}
	checks := map[string]time.Time{}
	for e, err := range cl.Plans.Events(t.Context(), p.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var item plan.ItemEvent
		if e.Type == plan.EventItem && json.Unmarshal(e.Data, &item) == nil {
			switch {
			case item.State == plan.Completed:
				completed[item.Item] = e.At
			case item.Phase == plan.Works && begun[item.Item].IsZero():
				begun[item.Item] = e.At
			case item.Phase == plan.Checks:
				checks[item.Item] = e.At
			}
		}
		if e.Type == plan.EventFinished {
			break
		}
	}
	var tasks []api.TaskID
	for _, it := range p.Items {
		ready := p.StartedAt
		for _, need := range it.Needs {
			if at := completed[need]; at.After(ready) {
				ready = at
			}
		}
		try := it.Last()
		tasks = append(tasks, try.Task, try.Check)
		var first, last time.Time
		for e, err := range cl.Tasks.Events(t.Context(), try.Task, 0) {
			if err != nil {
				t.Fatal(err)
			}
			var tool api.ToolEvent
			if e.Type == api.EventTool && json.Unmarshal(e.Data, &tool) == nil && tool.Tool == "shell" {
				if first.IsZero() {
					first = e.At
				}
				last = e.At
			}
			if e.Type == api.EventTaskFinished {
				break
			}
		}
		s := span{wait: begun[it.ID].Sub(ready), start: first.Sub(begun[it.ID]), agent: last.Sub(first), gates: try.EndedAt.Sub(last)}
		end := completed[it.ID]
		if at := checks[it.ID]; !at.IsZero() {
			s.check, end = end.Sub(at), at
		}
		s.queue = end.Sub(try.EndedAt)
		of[it.ID] = s
	}
	for _, id := range append(tasks, p.Checked) {
		if id == "" {
			continue
		}
		for e, err := range cl.Tasks.Events(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			var s api.RepoStepEvent
			if e.Type == api.EventRepoStep && json.Unmarshal(e.Data, &s) == nil && s.Done && s.Step == "setup" && strings.HasPrefix(s.Detail, "sealed") {
				setups++
			}
			if e.Type == api.EventTaskFinished {
				break
			}
		}
	}
	return of, setups
}

// TestPlanInTime: a plan of 12 items in 4 levels on a repository with 138 installed packages and 739 tests, with agents of 1 to 5 seconds, takes
// little longer than its critical path, and installs the packages once.
func TestPlanInTime(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0")
	g.opens("container", "npm")
	dir, requests := installedPackage(t, g)
	p := levels(rand.New(rand.NewPCG(12, 4)), 4, 3, time.Second, 5*time.Second)
	repeatable{t, p.commands}.serve(g)
	r := g.patient("plan", "start", "--repo", dir, "--plan", p.write(t), "--yes", "--model", "anthropic", "--author", "Ada <ada@example.org>", "--verify", "npm test", "--rounds", "0", "--json")
	if r.code != 0 {
		t.Fatal(r)
	}
	done := decode[plan.Plan](t, r.stdout)
	p.same(t, g, dir, done)
	of, setups := spans(t, g, done)
	if setups != 1 || requests.Load() == 0 {
		t.Errorf("the packages were installed %d times, with %d requests", setups, requests.Load())
	}
	wall := done.EndedAt.Sub(done.StartedAt)
	agents := p.longest(func(id string) time.Duration { return p.takes[id] })
	work := p.longest(func(id string) time.Duration { s := of[id]; return s.agent + s.gates + s.check })
	whole := p.longest(func(id string) time.Duration { s := of[id]; return s.start + s.agent + s.gates + s.check })
	t.Logf("item          wait  start  agent  gates  queue  check (ms)")
	for _, it := range p.items {
		t.Logf("%s %s", it.ID, of[it.ID])
	}
	t.Logf("wall %v; critical path: agents alone %v (%.2f), with gates and checks %v (%.2f), with sandboxes %v (%.2f)",
		wall, agents, wall.Seconds()/agents.Seconds(), work, wall.Seconds()/work.Seconds(), whole, wall.Seconds()/whole.Seconds())
}
