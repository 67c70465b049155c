package story

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/test/reaper"
	"hortus.dev/test/tier"
)

// byAgent answers by what a request says was done, sub-agents by their tasks and the agent with the steps of "".
func byAgent(t *testing.T, g *garden, scripts map[string][]step) {
	t.Helper()
	byName(t, g, scripts, func(body []byte) string {
		for name := range scripts {
			if name != "" && bytes.Contains(body, []byte(`"Task:\n`+name+`"`)) {
				return name
			}
		}
		return ""
	})
}

// inCopies asks two sub-agents, which work in copies at the same time.
func inCopies(one, two string) step {
	ask := func(task string) step {
		return step{tool: "research", input: map[string]any{"question": task, "copy": true}}
	}
	first := ask(one)
	first.also = []step{ask(two)}
	return first
}

// reports ends a sub-agent, which read a text.
func reports(text, want string) step {
	return step{tool: "finish", input: map[string]any{"summary": text}, want: want}
}

// TestSubagentsSurvive kills the daemon again and again while sub-agents work in copies of the sandbox of a task. The task goes on and
// ends as if nothing had happened, and only its result is left. HORTUS_TEST_KILLS is the number of kills.
func TestSubagentsSurvive(t *testing.T) {
	tier.Soak(t) // kills; internal/task/repo TestSurvivesCopies ends a run after each event
	t.Parallel()
	tier.AnyUser(t) // the conformance suite forks and pauses as an ordinary user
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			g := newGarden(t)
			g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION="+isolation)
			g.can(isolation, api.CapStart, api.CapWorkspace, api.CapPause)
			mark := fmt.Sprint("of-a-copy-", time.Now().UnixNano())
			mend := shell("sleep 0.2; sed -i 's/a - b/a + b/' calc.py; echo mend >> notes.txt")
			mend.want = "answer of one"
			const fetch = `python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8123/notes.txt')"`
			works := func(n int) step {
				return shell(fmt.Sprintf("cat notes.txt; %s && echo ser''ved; echo %d >> notes.txt; rm -f calc.py; sh -c 'sleep 1000; : %s' & sleep 0.3", fetch, n, mark))
			}
			byAgent(t, g, map[string][]step{
				"":    {shell("echo look >> notes.txt"), inCopies("one", "two"), inCopies("one", "two"), mend, finishes()},
				"one": {works(1), works(2), reports("answer of one", "served")},
				"two": {works(3), works(4), works(5), reports("answer of two", "served")},
			})
			files := maps.Clone(small)
			files["serve.py"] = "import http.server\nhttp.server.test(http.server.SimpleHTTPRequestHandler, port=8123, bind='127.0.0.1')\n"
			files[".hortus/setup.yaml"] = "services:\n  - name: files\n    run: python3 -u serve.py\n    ready: python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:8123/serve.py')\"\n"
			dir := makeRepo(t, g, files)
			seed := uint64(time.Now().UnixNano())
			random := rand.New(rand.NewPCG(seed, 89))
			t.Logf("seed %d", seed)
			k := &copyKills{g: g, random: random, most: (killCount(t, 2, 100) + 1) / 2}
			for k.kills < k.most {
				before := k.kills
				task := k.run("task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>", "--json", "Fix the failing test")
				k.same(task, k.kills-before)
				for _, p := range reaper.Processes() {
					if strings.Contains(strings.Join(p.Args, " "), mark) {
						t.Errorf("after %d kills process %d is left: %q", k.kills, p.PID, p.Args)
					}
				}
				if t.Failed() {
					t.Fatalf("stopped after %d kills; the daemon's log:\n%s", k.kills, g.log())
				}
			}
			t.Logf("%d kills, %d of them when the row named copies", k.kills, k.named)
			if k.named == 0 && k.kills >= 10 {
				t.Error("no copy was there at a kill")
			}
		})
	}
}

// copyKills kills the daemon of a task with sub-agents.
type copyKills struct {
	g      *garden
	random *rand.Rand
	// most are wanted, kills were made, and named of them when the row of the task named copies.
	most, kills, named int
	// results are the workspaces of the results.
	results []string
}

// run runs a task, and kills the daemon some times from just before its sub-agents are asked on.
func (k *copyKills) run(args ...string) api.Task {
	g := k.g
	g.t.Helper()
	cmd := g.start(args...)
	var id api.TaskID
	until(g.t, "a task runs", func() string {
		for _, task := range decode[[]api.Task](g.t, g.must("task", "ls", "--json")) {
			if task.State != api.TaskDone {
				id = task.ID
				return ""
			}
		}
		return "there is none"
	})
	events, began := int64(0), false
	for round := 0; round < 4 && k.kills < k.most; round++ {
		for ev, err := range g.client().Tasks.Events(g.t.Context(), id, events) {
			if err != nil {
				break
			}
			events = ev.Seq
			began = began || ev.Type == api.EventTool
			if ev.Type == api.EventTaskFinished || began && k.random.IntN(3) == 0 {
				break
			}
		}
		<-time.NewTimer(time.Duration(k.random.Int64N(int64(400 * time.Millisecond)))).C
		task := decode[api.Task](g.t, g.must("task", "show", string(id), "--json"))
		if task.State == api.TaskDone {
			break
		}
		if pid := daemonOf(g.dir); pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
			g.t.Fatal("there is no daemon to kill")
		}
		if k.kills++; task.Repo != nil && len(task.Repo.Copies) > 0 {
			k.named++
		}
		g.must("task", "ls") // the next daemon
	}
	g.run("task", "watch", string(id))
	cmd.ends()
	return decode[api.Task](g.t, g.must("task", "show", string(id), "--json"))
}

// same checks a task after its end: its result, that it ended once, and that nothing else is left.
func (k *copyKills) same(task api.Task, kills int) {
	g, t := k.g, k.g.t
	t.Helper()
	if task.Outcome != api.OutcomeVerified || len(task.Repo.Rounds) != 1 || len(task.Repo.Copies) != 0 {
		t.Fatalf("after %d kills the task is %s: %+v, %+v\n%s", kills, task.Outcome, task.Error, task.Repo, g.log())
	}
	diff := g.must("task", "diff", string(task.ID))
	if !strings.Contains(diff, "+    return a + b\n") {
		t.Errorf("after %d kills the result is another one:\n%s", kills, diff)
	}
	for _, line := range []string{"look", "mend"} {
		if n := strings.Count(diff, "\n+"+line+"\n"); n < 1 || n > 1+kills {
			t.Errorf("after %d kills the call %s was done %d times", kills, line, n)
		}
	}
	for _, line := range strings.Split(diff, "\n") {
		if slices.Contains([]string{"+1", "+2", "+3", "+4", "+5"}, line) {
			t.Errorf("after %d kills the result has what a sub-agent wrote:\n%s", kills, diff)
		}
	}
	if told := toldOnce(t, g, task.ID, kills); told[api.EventTaskResumed] > kills {
		t.Errorf("%d kills and %d resumptions", kills, told[api.EventTaskResumed])
	}
	for sandbox, s := range g.rows() {
		if !s.State.Final() {
			t.Errorf("after %d kills sandbox %s is %s", kills, sandbox, s.State)
		}
	}
	k.results = append(k.results, string(task.Repo.Workspace))
	until(t, "only results have files", func() string {
		return strings.Join(slices.DeleteFunc(g.workspaces(), func(dir string) bool { return slices.Contains(k.results, filepath.Base(dir)) }), "\n")
	})
	until(t, "nothing of a sandbox is left", func() string { return strings.Join(g.leftoversAlive(), "\n") })
}

// TestSubagentsWhereNothingPauses: where a sandbox cannot be paused its agent is told why it cannot be copied, and goes on by itself.
// Elsewhere the agent reads the answers of its sub-agents.
func TestSubagentsWhereNothingPauses(t *testing.T) {
	tier.Soak(t) // test/agents has copies that cannot be made
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_ISOLATION=container")
	g.can("container", api.CapStart, api.CapWorkspace)
	doctor := decode[admin.Doctor](t, g.must("doctor", "--json"))
	i := slices.IndexFunc(doctor.Backends, func(b api.BackendReport) bool { return b.Backend == "container" })
	pause, can := doctor.Backends[i].Has(api.CapPause)
	byAgent(t, g, map[string][]step{
		"":    {inCopies("one", "two"), inCopies("one", "two"), shell("sed -i 's/a - b/a + b/' calc.py"), finishes()},
		"one": {shell("ls"), reports("answer of one", "calc.py")},
		"two": {shell("ls"), reports("answer of two", "calc.py")},
	})
	task, r := onRepo(t, g, makeRepo(t, g, small), "Fix the failing test")
	if r.code != 0 || task.Outcome != api.OutcomeVerified || len(task.Repo.Copies) != 0 {
		t.Fatal(r)
	}
	said := g.must("task", "show", "--transcript", string(task.ID))
	wants := []string{"answer of one", "answer of two"}
	if !can {
		wants = []string{"The sandbox could not be copied: ", "cannot be paused on this host", pause.Reason, pause.Fix, "Ask without copy, or run the commands yourself."}
	}
	for _, want := range wants {
		if !strings.Contains(said, want) {
			t.Errorf("the agent is not told %q:\n%s", want, said)
		}
	}
}
