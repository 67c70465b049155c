package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/plan"
	"hortus.dev/api/session"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/test/gittest"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

const modelKey = "key-of-the-model"

// scripted is a model that answers by how many answers a request has, for who asks. So a request that is repeated gets the same
// answer.
type scripted struct {
	URL string
	// who names the script of a request.
	who     func(body string) string
	scripts map[string][]http.Handler

	mu    sync.Mutex
	asked map[string]int
	last  map[string]string // the newest requests
	// held is the request that is not answered until release is closed, once: "script N". at is closed when it comes.
	held        string
	at, release chan struct{}
}

// calls is an answer that calls a tool.
func calls(tool string, input any) string {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("key: %s\n-- step --\ncall: %s\ntimes: 10000\nusage: 1000 500 50\n\n%s\n", modelKey, tool, b)
}

func shell(command string) string { return calls("shell", map[string]any{"command": command}) }
func finish(summary string) string {
	return calls("finish", map[string]any{"summary": summary})
}

// say is an answer of text.
func say(text string) string {
	return fmt.Sprintf("key: %s\n-- step --\ntimes: 10000\nusage: 1000 500 50\n\n%s\n", modelKey, text)
}

func newScripted(t *testing.T, scripts map[string][]string, who func(body string) string) *scripted {
	t.Helper()
	s := &scripted{who: who, scripts: map[string][]http.Handler{}, asked: map[string]int{}, last: map[string]string{}}
	for name, answers := range scripts {
		for _, a := range answers {
			s.scripts[name] = append(s.scripts[name], world.Must(modelserver.New([]byte(a)))(t))
		}
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	name := s.who(string(body))
	n := strings.Count(string(body), `"role":"assistant"`)
	steps := s.scripts[name]
	if len(steps) == 0 {
		http.Error(w, "no script "+name, http.StatusBadRequest)
		return
	}
	n = min(n, len(steps)-1)
	id := fmt.Sprint(name, " ", n)
	s.mu.Lock()
	s.asked[id]++
	s.last[name] = string(body)
	hold := s.held == id
	release := s.release
	if hold {
		s.held = ""
		close(s.at)
	}
	s.mu.Unlock()
	if hold {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
	}
	steps[n].ServeHTTP(w, r)
}

// hold keeps the next such request without an answer, until goOn is called. The result is closed when it comes.
func (s *scripted) hold(id string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.at, s.release = id, make(chan struct{}), make(chan struct{})
	return s.at
}

// goOn answers what is held.
func (s *scripted) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
}

// newest is the newest request of a script.
func (s *scripted) newest(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[name]
}

func (s *scripted) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[id]
}

// pair are two nodes with an archive: one in this process, and one that can be killed.
type pair struct {
	base
	lives *world.World
	dies  child
	dir   string // of the one that dies
	// archive and env are those of both.
	archive string
	env     map[string]string
}

func newPair(t *testing.T, m *scripted) *pair {
	t.Helper()
	return newBase(t).pair(t, m)
}

func (b base) pair(t *testing.T, m *scripted) *pair {
	t.Helper()
	p := &pair{base: b, archive: t.TempDir(), env: map[string]string{"ANTHROPIC_BASE_URL": m.URL, "ANTHROPIC_API_KEY": modelKey}}
	log := world.Must(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	t.Cleanup(func() {
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("log of node a:\n%s", text)
		}
		log.Close()
	})
	p.lives = world.Open(t, world.Config{Config: daemon.Config{
		DataDir: p.base.dir(t), Store: p.store, Fleet: daemon.FleetConfig{Name: "a", Listen: "127.0.0.1:0"}, Usual: api.CreateSandbox{Isolation: "container"},
		Logger: slog.New(slog.NewTextHandler(log, nil)), LayerArchive: p.archive, SnapshotArchive: true, Getenv: func(name string) string { return p.env[name] },
	}})
	world.Must(p.lives.Client.InitFleet(t.Context()))(t)
	p.dir = p.base.dir(t)
	p.dies = p.startWith(t, "b", p.dir, p.archive, p.env)
	return p
}

// startWith starts a node with an archive in a process of its own.
func (b base) startWith(t *testing.T, name, dir, archive string, env map[string]string) child {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.toml")
	world.OK(t, os.WriteFile(config, fmt.Appendf(nil, "[store]\nurl = %q\n[fleet]\nname = %q\nlisten = \"127.0.0.1:0\"\n[daemon]\nlayer-archive = %q\n[sandbox]\nisolation = \"container\"\n", b.store.URL, name, archive), 0o600))
	log := filepath.Join(t.TempDir(), "log")
	out := world.Must(os.Create(log))(t)
	defer out.Close()
	c := child{Cmd: exec.Command("/proc/self/exe", "daemon", "run", "--data-dir", dir, "--config", config, "--idle", "never", "--pool", "0"), client: client.Unix(datadir.Dir(dir).Socket())}
	c.Args[0], c.Stdout, c.Stderr, c.Env = "hortus", out, out, os.Environ()
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	world.OK(t, c.Start())
	t.Cleanup(func() {
		c.client.Close()
		if c.ProcessState == nil {
			_ = c.Process.Signal(unix.SIGTERM)
			_ = c.Wait()
		}
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("log of node %s:\n%s", name, text)
		}
	})
	until(t, "node "+name+" serves", func(ctx context.Context) bool { return c.client.Ready(ctx) == nil })
	return c
}

// onlyDies has all that is created be on the node that dies.
func (p *pair) onlyDies(t *testing.T) {
	t.Helper()
	world.Must(p.dies.client.DrainNode(t.Context(), "a", admin.DrainNode{}))(t)
}

// kill kills the node.
func (p *pair) kill(t *testing.T) time.Time {
	t.Helper()
	at := time.Now()
	world.OK(t, p.dies.Process.Kill())
	_ = p.dies.Wait()
	return at
}

// nodeOf names the node of an owner.
func (p *pair) nodeOf(t *testing.T, id api.OwnerID) string {
	t.Helper()
	return world.Must(p.lives.DB.NodeOfOwner(t.Context(), id))(t).Name
}

// calculator is a repository whose test fails.
var calculator = map[string]string{
	"calc.py":      "def add(a, b):\n    return a - b\n",
	"test_calc.py": "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n",
}

// serve serves a repository with files over HTTP.
func serve(t *testing.T, files map[string]string) (url string, dir string) {
	t.Helper()
	s := gittest.NewServer(t, map[string]string{"r.git": gittest.NewCheckout(t, files)})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv.URL + "/r.git", s.Dir("r.git")
}

// ended waits for the end of a task.
func (p *pair) ended(t *testing.T, id api.TaskID) (task api.Task) {
	t.Helper()
	until(t, "the task ends", func(ctx context.Context) bool {
		task = world.Must(p.lives.DB.Task(ctx, id))(t)
		return task.State == api.TaskDone
	})
	return task
}

// back starts the node again that was killed: it ends what runs, and removes what the other node has.
func (p *pair) back(t *testing.T, moved ...api.WorkspaceID) {
	t.Helper()
	p.startWith(t, "b", p.dir, p.archive, p.env)
	until(t, "old files are removed", func(context.Context) bool {
		for _, id := range moved {
			if _, err := os.Stat(filepath.Join(p.dir, "workspaces", string(id))); err == nil {
				return false
			}
		}
		return true
	})
}

// TestRepositoryTaskContinues kills the node of a task in its second round. The other node continues with the files of the first one, and the result
// is that of a task that nothing happened to. It is pushed once.
func TestRepositoryTaskContinues(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	answers := []string{
		shell("sed -i 's/a - b/a * b/' calc.py && mkdir -p notes && echo first > notes/one.txt && ln -s one.txt notes/link"), finish("first"),
		shell("sed -i 's/a . b/a + b/' calc.py && cat notes/link > notes/two.txt"), finish("second"),
	}
	m := newScripted(t, map[string][]string{"undisturbed": answers, "task": answers}, func(body string) string {
		if strings.Contains(body, "without a disturbance") {
			return "undisturbed"
		}
		return "task"
	})
	url, dir := serve(t, calculator)
	p := newPair(t, m)
	p.onlyDies(t)
	create := api.CreateTask{
		Request: "Fix the failing test", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
		Repo: &api.RepoTask{URL: url, Rounds: 2, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Push: true},
	}
	reached := m.hold("task 2")
	task := world.Must(p.dies.client.Tasks.Create(ctx, create))(t)
	if node := p.nodeOf(t, task.Owner); node != "b" {
		t.Fatalf("the task is on node %s", node)
	}
	create.Request += " without a disturbance"
	undisturbed := p.ended(t, world.Must(p.dies.client.Tasks.Create(ctx, create))(t).ID)
	<-reached
	var stored api.Workspace
	until(t, "the files of the first round are stored", func(ctx context.Context) bool {
		row := world.Must(p.lives.DB.Task(ctx, task.ID))(t)
		stored = world.Must(p.lives.DB.Workspace(ctx, row.Repo.Workspace))(t)
		return stored.Archived != nil
	})
	if a := stored.Archived; a.Task != task.ID || a.Step != "round 2" {
		t.Errorf("stored: %+v", a)
	}
	killed := p.kill(t)
	until(t, "the second round is done again", func(context.Context) bool { return m.count("task 2") > 1 })
	t.Logf("the task went on %s after the node was killed", time.Since(killed).Round(100*time.Millisecond))
	task = p.ended(t, task.ID)
	for _, one := range []api.Task{undisturbed, task} {
		if one.Outcome != api.OutcomeVerified || one.Repo == nil || len(one.Repo.Rounds) != 2 || one.Repo.Delivery == nil || one.Repo.Delivery.Error != nil {
			t.Fatalf("the task is %s: %+v, %+v, %s", one.Outcome, one.Error, one.Repo, one.Diagnosis)
		}
	}
	if node := p.nodeOf(t, task.Owner); node != "a" {
		t.Errorf("the task ended on node %s", node)
	}
	if len(task.Moves) != 1 || task.Moves[0].From != "b" || task.Moves[0].To != "a" || task.Moves[0].Why != api.MoveEnded {
		t.Errorf("its moves: %+v", task.Moves)
	}
	// The result of a task that ended on the other node is in the archive.
	if patch := content(p.lives.Client.Tasks.Diff(ctx, undisturbed.ID, 0)); !strings.Contains(patch, "+    return a + b") {
		t.Errorf("the patch of a task that ended on the node that died: %s", patch)
	}
	if m.count("task 0") != 1 {
		t.Errorf("the first round was done %d times", m.count("task 0"))
	}
	tree := func(task api.Task) string {
		return gittest.Git(t, dir, "rev-parse", task.Repo.Delivery.Branch+"^{tree}")
	}
	if a, b := tree(undisturbed), tree(task); a != b || gittest.Git(t, dir, "show", task.Repo.Delivery.Branch+":notes/two.txt") != "first" {
		t.Errorf("the result is tree %s, that of a task that nothing happened to %s", b, a)
	}
	if all := strings.Fields(gittest.Git(t, dir, "for-each-ref", "--format=%(refname:short)")); len(all) != 3 {
		t.Errorf("the branches are %q", all)
	}
	if now := world.Must(p.lives.DB.Workspace(ctx, task.Repo.Workspace))(t); now.ID != stored.ID || p.nodeOf(t, now.Owner) != "a" {
		t.Errorf("the workspace: %+v", now)
	}
	p.back(t, stored.ID)
}

// TestStopContinues stops the daemon of a node in order while a model does not answer, in the second round of a task: the other node continues with the result of the first one, and asks
// for nothing of it again.
func TestStopContinues(t *testing.T) {
	tier.Soak(t) // it waits for a lease, as TestRepositoryTaskContinues does; internal/task TestStop and test/story TestStopLeavesTasks have the rest
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	m := newScripted(t, map[string][]string{"task": {
		shell("sed -i 's/a - b/a * b/' calc.py"), finish("first"), shell("sed -i 's/a . b/a + b/' calc.py"), finish("second"),
	}}, func(string) string { return "task" })
	url, dir := serve(t, calculator)
	p := newPair(t, m)
	p.onlyDies(t)
	reached := m.hold("task 2")
	task := world.Must(p.dies.client.Tasks.Create(ctx, api.CreateTask{
		Request: "Fix the failing test", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
		Repo: &api.RepoTask{URL: url, Rounds: 2, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Push: true},
	}))(t)
	<-reached
	until(t, "the files of the first round are stored", func(ctx context.Context) bool {
		row := world.Must(p.lives.DB.Task(ctx, task.ID))(t)
		return world.Must(p.lives.DB.Workspace(ctx, row.Repo.Workspace))(t).Archived != nil
	})
	stopped := time.Now()
	world.OK(t, p.dies.Process.Signal(unix.SIGTERM))
	_ = p.dies.Wait()
	t.Logf("the daemon ended after %s", time.Since(stopped).Round(100*time.Millisecond))
	task = p.ended(t, task.ID)
	t.Logf("the task ended on the other node %s after the signal", time.Since(stopped).Round(100*time.Millisecond))
	if task.Outcome != api.OutcomeVerified || task.Repo == nil || len(task.Repo.Rounds) != 2 || task.Repo.Delivery == nil || task.Repo.Delivery.Error != nil || p.nodeOf(t, task.Owner) != "a" {
		t.Fatalf("the task is %s on node %s: %+v, %+v, %s", task.Outcome, p.nodeOf(t, task.Owner), task.Error, task.Repo, task.Diagnosis)
	}
	for n := range 4 {
		if asked := m.count(fmt.Sprint("task ", n)); asked != 1 && n != 2 || asked > 2 {
			t.Errorf("request %d was made %d times", n, asked)
		}
	}
	if all := strings.Fields(gittest.Git(t, dir, "for-each-ref", "--format=%(refname:short)")); len(all) != 2 {
		t.Errorf("the branches are %q", all)
	}
	p.back(t)
}

// TestSessionContinues kills the node of a session after two turns. The third one is on the other node: it has the files and the conversation of the
// first two, and its commit lies on theirs.
func TestSessionContinues(t *testing.T) {
	tier.Soak(t) // it waits for a lease, as TestRepositoryTaskContinues does
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	m := newScripted(t, map[string][]string{"session": {
		shell("echo one > one.txt && mkdir -p deep && seq 280 | while read n; do echo $n > deep/$n; done"), say("turn one is done"),
		shell("cat one.txt > two.txt && rm deep/7"), say("turn two is done"),
		shell("cat one.txt two.txt; ls deep | wc -l; test ! -e deep/7 && echo three > three.txt"), say("turn three is done"),
	}, "busy": {
		shell("echo 1 > count.txt"), say("turn one is done"),
		shell("echo 2 >> count.txt"), shell("cat count.txt"), say("turn two is done"),
	}}, func(body string) string {
		if strings.Contains(body, "count up") {
			return "busy"
		}
		return "session"
	})
	url, dir := serve(t, map[string]string{"README.md": "notes\n"})
	p := newPair(t, m)
	p.onlyDies(t)
	settings := &session.Settings{Repository: url, Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"}, Verify: "ls README.md", Push: true, NoSetup: true}
	turn := func(c *client.Client, n int, text string) session.Turn {
		t.Helper()
		world.Must(c.Sessions.Send(ctx, "work", session.Message{Text: text, Create: settings}))(t)
		var out session.Turn
		until(t, fmt.Sprint("turn ", n, " ends"), func(ctx context.Context) bool {
			s := world.Must(c.Sessions.Get(ctx, "work"))(t)
			if len(s.Turns) < n || s.Turns[n-1].State != session.TurnDone {
				return false
			}
			out = s.Turns[n-1]
			return true
		})
		if out.Outcome != api.OutcomeVerified {
			t.Fatalf("turn %d is %s: %+v, %s", n, out.Outcome, out.Error, out.Note)
		}
		return out
	}
	turn(p.dies.client, 1, "first message")
	two := turn(p.dies.client, 2, "second message")
	task := world.Must(p.lives.DB.Task(ctx, two.Task))(t)
	if node := p.nodeOf(t, task.Owner); node != "b" {
		t.Fatalf("the session is on node %s", node)
	}
	before := world.Must(p.lives.DB.Workspace(ctx, task.Repo.Workspace))(t)
	until(t, "the files of the second turn are stored", func(ctx context.Context) bool {
		before = world.Must(p.lives.DB.Workspace(ctx, task.Repo.Workspace))(t)
		return before.Archived != nil && before.Archived.Of == task.Repo.Checkpoint
	})
	// Another session, without a repository, is in the middle of its second turn.
	busy := &session.Settings{Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"}}
	world.Must(p.dies.client.Sessions.Send(ctx, "busy", session.Message{Text: "count up", Create: busy}))(t)
	until(t, "its first turn is stored", func(ctx context.Context) bool {
		s := world.Must(p.dies.client.Sessions.Get(ctx, "busy"))(t)
		if s.Turns[0].State != session.TurnDone {
			return false
		}
		return world.Must(p.lives.DB.Workspace(ctx, s.Workspace))(t).Archived != nil
	})
	reached := m.hold("busy 3")
	world.Must(p.dies.client.Sessions.Send(ctx, "busy", session.Message{Text: "count up again"}))(t)
	<-reached
	killed := p.kill(t)
	world.OK(t, os.Rename(filepath.Join(p.dir, "sessions"), filepath.Join(p.dir, "sessions.away")))
	until(t, "the other node has the session", func(ctx context.Context) bool {
		_, err := p.lives.Client.Sessions.Send(ctx, "work", session.Message{Text: "third message"})
		return err == nil
	})
	t.Logf("the session took a message %s after the node was killed", time.Since(killed).Round(100*time.Millisecond))
	var three session.Turn
	until(t, "the third turn ends", func(ctx context.Context) bool {
		s := world.Must(p.lives.Client.Sessions.Get(ctx, "work"))(t)
		three = s.Turns[len(s.Turns)-1]
		return three.State == session.TurnDone
	})
	t.Logf("the turn ended %s after the node was killed", time.Since(killed).Round(100*time.Millisecond))
	if three.N != 3 || three.Outcome != api.OutcomeVerified {
		t.Fatalf("turn %d is %s: %+v, %s", three.N, three.Outcome, three.Error, three.Note)
	}
	asked := m.newest("session")
	if !strings.Contains(asked, "first message") || !strings.Contains(asked, "turn two is done") || !strings.Contains(asked, `one\none\n279`) {
		t.Errorf("the model was asked: %s", asked)
	}
	third := world.Must(p.lives.DB.Task(ctx, three.Task))(t)
	if d := third.Repo.Delivery; d == nil || d.Error != nil || d.Commit != third.Repo.Head {
		t.Fatalf("the delivery: %+v", d)
	}
	branch := third.Repo.Delivery.Branch
	if log := gittest.Git(t, dir, "log", "--format=%H", branch); len(strings.Fields(log)) != 4 || !strings.Contains(log, task.Repo.Head) {
		t.Errorf("the branch has the commits %s, that of the second turn is %s", log, task.Repo.Head)
	}
	if files := gittest.Git(t, dir, "ls-tree", "-r", "--name-only", branch); !strings.Contains(files, "three.txt") || !strings.Contains(files, "deep/280") || strings.Contains(files, "deep/7\n") {
		t.Errorf("the branch has the files %s", files)
	}
	var cut session.Turn
	until(t, "the turn that was cut ends", func(ctx context.Context) bool {
		s := world.Must(p.lives.Client.Sessions.Get(ctx, "busy"))(t)
		cut = s.Turns[1]
		return cut.State == session.TurnDone
	})
	if asked := m.newest("busy"); cut.Outcome != api.OutcomeAnswered || m.count("busy 2") != 2 || !strings.Contains(asked, `"1\n2\n[exit code 0]"`) || !strings.Contains(asked, "turn one is done") {
		t.Errorf("the turn that was cut is %s: %+v, %s; the model was asked: %s", cut.Outcome, cut.Error, cut.Note, asked)
	}
	world.OK(t, os.Rename(filepath.Join(p.dir, "sessions.away"), filepath.Join(p.dir, "sessions")))
	p.back(t, before.ID)
}

// TestPlanContinues kills the node of a plan after the first item, in the middle of the second one, which needs the first. The other node does the rest.
func TestPlanContinues(t *testing.T) {
	tier.Soak(t) // it waits for a lease, as TestRepositoryTaskContinues does
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	m := newScripted(t, map[string][]string{
		"one":   {shell("echo one > one.txt"), finish("one")},
		"two":   {shell("cat one.txt > two.txt && echo more >> two.txt"), finish("two")},
		"three": {shell("cat one.txt two.txt > three.txt"), finish("three")},
	}, func(body string) string {
		for _, name := range []string{"one", "two", "three"} {
			if strings.Contains(body, "Write "+name+".txt") {
				return name
			}
		}
		return "nobody"
	})
	url, dir := serve(t, map[string]string{"README.md": "notes\n"})
	p := newPair(t, m)
	p.onlyDies(t)
	item := func(name string, needs ...string) plan.Item {
		return plan.Item{ID: name, Request: "Write " + name + ".txt", Needs: needs, Touches: []string{name + ".txt"}, Creates: []string{name + ".txt"}}
	}
	reached := m.hold("two 1")
	made := world.Must(p.dies.client.Plans.Create(ctx, plan.Create{
		Task: api.CreateTask{
			Request: "Write three files", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
			Repo: &api.RepoTask{URL: url, Verify: "ls README.md", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Push: true, NoSetup: true},
		},
		Items: []plan.Item{item("one"), item("two", "one"), item("three", "two")},
	}))(t)
	<-reached
	row := world.Must(p.lives.DB.Plan(ctx, made.ID))(t)
	if node := p.nodeOf(t, row.Owner); node != "b" {
		t.Fatalf("the plan is on node %s", node)
	}
	if !strings.Contains(string(row.Doc), `"archived":"`) {
		t.Errorf("its commits are not stored: %s", row.Doc)
	}
	killed := p.kill(t)
	defer func() {
		if t.Failed() {
			got, err := p.lives.Client.Plans.Get(context.WithoutCancel(ctx), made.ID)
			t.Logf("the plan: %+v, %v", got, err)
		}
	}()
	until(t, "the second item is done again", func(context.Context) bool { return m.count("two 1") > 1 })
	t.Logf("the plan went on %s after the node was killed", time.Since(killed).Round(100*time.Millisecond))
	var done plan.Plan
	until(t, "the plan ends", func(ctx context.Context) bool {
		var err error
		done, err = p.lives.Client.Plans.Get(ctx, made.ID)
		return err == nil && done.State == plan.Done
	})
	if done.Outcome != api.OutcomeVerified || done.Delivered == nil || done.Delivered.Error != nil {
		t.Fatalf("the plan is %s: %s, %+v, %+v, %+v", done.Outcome, done.Why, done.Error, done.Delivered, done.Items)
	}
	if m.count("one 0") != 1 {
		t.Errorf("the first item was done %d times", m.count("one 0"))
	}
	if text := gittest.Git(t, dir, "show", done.Delivered.Branch+":three.txt"); text != "one\none\nmore" {
		t.Errorf("three.txt is %q", text)
	}
	p.back(t)
}
