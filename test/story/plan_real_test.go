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

// verifyPackage is the gate of that package. Its runner reports each test, so that what it says before the work is known of each commit once.
const verifyPackage = "node --test test/"

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

// spans reads from the events where the time of each item went, and how long the steps of its tasks took.
func spans(t *testing.T, g *garden, p plan.Plan, takes map[string]time.Duration) (of map[string]span, steps []string) {
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
	took, times := map[string]int64{}, map[string]int64{}
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
		// The event of a call comes after it.
		s := span{wait: begun[it.ID].Sub(ready), start: first.Sub(begun[it.ID]) - takes[it.ID], agent: last.Sub(first) + takes[it.ID], gates: try.EndedAt.Sub(last)}
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
			if e.Type == api.EventRepoStep && json.Unmarshal(e.Data, &s) == nil && s.Done {
				name, _, _ := strings.Cut(s.Detail, ": ")
				if name = s.Step + " " + name; s.Step != "gate" && s.Step != "disguise" || s.Gate == nil {
					name = s.Step
				} else if s.Gate.Reused != nil {
					name += ", reused"
				}
				took[name] += s.MS
				times[name]++
			}
			if e.Type == api.EventTaskFinished {
				break
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(took)) {
		steps = append(steps, fmt.Sprintf("%s: %d times, %d ms each", name, times[name], took[name]/times[name]))
	}
	return of, steps
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
	if r := g.patient("repo", "prepare", dir); r.code != 0 || !strings.Contains(r.stderr, "[setup] sealed") {
		t.Fatal(r)
	}
	once := requests.Load()
	r := g.patient("plan", "start", "--repo", dir, "--plan", p.write(t), "--yes", "--model", "anthropic", "--author", "Ada <ada@example.org>", "--verify", verifyPackage, "--rounds", "0", "--json")
	if r.code != 0 {
		t.Fatal(r)
	}
	done := decode[plan.Plan](t, r.stdout)
	p.same(t, g, dir, done)
	if once == 0 || requests.Load() != once {
		t.Errorf("the installation sent %d requests, and the plan %d more", once, requests.Load()-once)
	}
	of, steps := spans(t, g, done, p.takes)
	wall := done.EndedAt.Sub(done.StartedAt)
	agents := p.longest(func(id string) time.Duration { return p.takes[id] })
	own := p.longest(func(id string) time.Duration { s := of[id]; return s.start + s.agent + s.gates + s.check })
	t.Logf("item          wait  start  agent  gates  queue  check (ms)")
	for _, it := range p.items {
		t.Logf("%s %s", it.ID, of[it.ID])
	}
	t.Logf("steps of all tasks:\n%s", strings.Join(steps, "\n"))
	t.Logf("wall %v; critical path: of the agents' seconds alone %v (%.2f), of the items with their sandboxes, gates and checks %v (%.2f)",
		wall, agents, wall.Seconds()/agents.Seconds(), own, wall.Seconds()/own.Seconds())
	if wall > own*13/10 {
		t.Errorf("the plan took %v, and its critical path %v", wall, own)
	}
}

// TestPlanKilled: daemons of a plan are killed at random instants. The next one ends in the same tree; no completed item is lost or
// repeated, and nothing is left. HORTUS_TEST_KILLS=100 kills as often as that.
func TestPlanKilled(t *testing.T) {
	tier.Soak(t) // kills; internal/task/plan TestKilledAtEveryWrite, and TestTaskDaemonKilled
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0", "HORTUS_IDLE=10m") // a daemon of a plan that is done waits for its kill
	seed := rand.Uint64()
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 47))
	var dir, verify string
	var p leveled
	pace := 3 * time.Second
	if tier.Soaking() {
		g.opens("container", "npm")
		dir, _ = installedPackage(t, g)
		if r := g.patient("repo", "prepare", dir); r.code != 0 {
			t.Fatal(r)
		}
		// A gate that takes longer than a daemon lives would never end.
		verify, pace = "node test/utils.js", 8*time.Second
		p = levels(random, 4, 3, time.Second, 5*time.Second)
	} else {
		dir, verify = makeRepo(t, g, map[string]string{"lib/a": "a\n", "test.sh": "test -f lib/a\n"}), "sh test.sh"
		p = levels(random, 2, 2, 100*time.Millisecond, 500*time.Millisecond)
	}
	repeatable{t, p.commands}.serve(g)
	file, kills, want := p.write(t), 0, killCount(t, 2, 100)
	for runs := 1; kills < want; runs++ {
		if runs > want+3 {
			t.Fatalf("%d kills in %d plans", kills, runs)
		}
		id := strings.TrimSpace(g.must("plan", "start", "--repo", dir, "--plan", file, "--yes", "--detach", "--model", "anthropic", "--author", "Ada <ada@example.org>", "--verify", verify, "--rounds", "0"))
		completed, killed := map[string]plan.Progress{}, time.Time{}
		before, futile := 0, 0 // kills since the last item was completed
		for {
			now := decode[plan.Plan](t, g.must("plan", "show", id, "--json"))
			for _, it := range now.Items {
				if was, ok := completed[it.ID]; ok && (it.State != plan.Completed || it.Commit != was.Commit || len(it.Tries) != len(was.Tries)) {
					t.Errorf("after %d kills: item %s was completed with %s and is %s with %s, after %d tries", kills, it.ID, was.Commit, it.State, it.Commit, len(it.Tries))
				}
				if it.State == plan.Completed {
					completed[it.ID] = it
				}
			}
			if now.State == plan.Done {
				if !killed.IsZero() && now.EndedAt.Before(killed) {
					kills-- // there was nothing left to do
				}
				p.same(t, g, dir, now)
				break
			}
			if kills == want || t.Failed() {
				g.patient("plan", "watch", id)
				continue
			}
			if futile++; len(completed) > before {
				before, futile = len(completed), 0
			}
			g.killWithin(t, random, pace*time.Duration(1+futile/10)) // on a busy machine nothing ends between two kills
			killed = time.Now()
			kills++
		}
		if left := strings.TrimSpace(g.must("sandbox", "ls", "--json")); left != "[]" {
			t.Errorf("sandboxes are left: %s", left)
		}
		if t.Failed() {
			t.Fatalf("stopped after %d kills; the daemon's log:\n%s", kills, g.log())
		}
		t.Logf("%d kills in %d plans", kills, runs)
	}
}
