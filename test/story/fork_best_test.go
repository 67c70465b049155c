package story

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestServedCandidatesSurvive kills the daemon while candidates of a task begin in forks of the sandbox with its services. The task
// goes on and ends as if nothing had happened; only its result has a workspace then. HORTUS_TEST_KILLS is the number of kills.
func TestServedCandidatesSurvive(t *testing.T) {
	tier.Soak(t) // kills; internal/task/repo TestBestSurvives ends a run after each event
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	g.can("gvisor", api.CapWorkspace)
	byHistory(t, g, shell("ls"), shell("sleep 0.2; sed -i 's/a - b/a + b/' calc.py"), finishes())
	files := maps.Clone(small)
	files["serve.py"] = "import http.server\nhttp.server.test(http.server.SimpleHTTPRequestHandler, port=8123, bind='127.0.0.1')\n"
	files[".hortus/setup.yaml"] = "services:\n  - name: files\n    run: python3 -u serve.py\n    ready: python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:8123/calc.py')\"\n"
	dir := makeRepo(t, g, files)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 85))
	t.Logf("seed %d", seed)
	forked := 0
	for kills, most := 0, killCount(t, 2, 60); kills < most; {
		cmd := g.start("task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>", "--best-of", "3", "--json", "Fix the failing test")
		var id api.TaskID
		until(t, "a task runs", func() string {
			for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json")) {
				if task.State != api.TaskDone {
					id = task.ID
					return ""
				}
			}
			return "there is none"
		})
		// From the first candidate on: until then nothing of this is under way.
		events, began := int64(0), false
		for round := 0; round < 3 && kills < most; round++ {
			for ev, err := range g.client().Tasks.Events(t.Context(), id, events) {
				if err != nil {
					break
				}
				events = ev.Seq
				if strings.Contains(string(ev.Data), "forked from") {
					forked++
				}
				if began = began || ev.Type == api.EventCandidate; ev.Type == api.EventTaskFinished || began && random.IntN(3) == 0 {
					break
				}
			}
			if task := decode[api.Task](t, g.must("task", "show", string(id), "--json")); task.State == api.TaskDone {
				break
			}
			<-time.NewTimer(time.Duration(random.Int64N(int64(1500 * time.Millisecond)))).C
			if pid := daemonOf(g.dir); pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
				t.Fatal("there is no daemon to kill")
			}
			kills++
			g.must("task", "ls") // the next daemon
		}
		g.run("task", "watch", string(id))
		cmd.ends()
		task := decode[api.Task](t, g.must("task", "show", string(id), "--json"))
		if task.Outcome != api.OutcomeVerified || len(task.Repo.Candidates) != 3 {
			t.Fatalf("after %d kills the task is %s: %+v\n%s", kills, task.Outcome, task.Error, g.log())
		}
		for sandbox, s := range g.rows() {
			if !s.State.Final() {
				t.Errorf("after %d kills sandbox %s is %s", kills, sandbox, s.State)
			}
		}
		until(t, "only the result has a workspace", func() string {
			var left []string
			for _, w := range g.workspaces() {
				if filepath.Base(w) != string(task.Repo.Workspace) {
					left = append(left, w)
				}
			}
			return strings.Join(left, "\n")
		})
		if t.Failed() {
			t.Fatalf("stopped after %d kills; the daemon's log:\n%s", kills, g.log())
		}
		g.must("gc", "--older-than", "0")
	}
	t.Logf("%d candidates began in a fork", forked)
}
