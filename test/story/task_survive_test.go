package story

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
)

// byHistory answers by what a request says was done: the step after those that have results. A call that was cut is made
// again. Its servers play one step each.
func byHistory(t *testing.T, g *garden, steps ...step) *asked {
	t.Helper()
	a := &asked{seen: map[string]int{}}
	var servers []http.Handler
	for _, s := range steps {
		s.times = 10_000
		m, err := modelserver.New([]byte("key: " + modelKey + "\n" + scenario(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, m)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		n := a.count(body)
		if a.hold != nil {
			a.hold(n)
		}
		servers[min(n, len(steps)-1)].ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	g.env = append(g.env, "ANTHROPIC_BASE_URL="+srv.URL)
	withKeys(g, modelKey)
	return a
}

// asked counts the requests to a model.
type asked struct {
	// hold is called before an answer, with the number of results in the request; nil for nothing.
	hold func(n int)

	mu   sync.Mutex
	seen map[string]int
}

// requests counts all of them.
func (a *asked) requests() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.seen {
		n += times
	}
	return n
}

// count returns how many calls a request has results of, without those that were cut.
func (a *asked) count(body []byte) (n int) {
	var req struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &req) != nil {
		return 0
	}
	for _, m := range req.Messages {
		var blocks []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			if b.Type == "tool_result" && !bytes.Contains(b.Content, []byte("interrupted by a restart of the platform")) {
				n++
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[string(body)]++
	return n
}

// TestTaskSurvives kills the daemon again and again while a task works, after one more event each time and at random
// instants. The task goes on each time, and ends as if nothing had happened. HORTUS_TEST_KILLS is the number of kills.
func TestTaskSurvives(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HORTUS_IDLE=10m")
	// Each call that writes leaves one line, so that one that is done twice is seen.
	models := byHistory(t, g,
		shell("ls; echo look >> notes.txt"),
		shell("sleep 0.2; sed -i 's/a - b/a + b + 1/' calc.py; echo wrong >> notes.txt"),
		finishes(),
		shell("sleep 0.2; sed -i 's/a + b + 1/a + b/' calc.py; echo mend >> notes.txt"),
		finishes())
	dir := makeRepo(t, g, small)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 4))
	t.Logf("seed %d", seed)
	most := killCount(t, 3, 100)
	for kills := 0; kills < most; {
		kills += max(1, surviveOnce(t, g, dir, random, min(most-kills, 8), models))
	}
}

// toldOnce counts the events of a task by their types. It began once and ended once, with its last event.
func toldOnce(t testing.TB, g *garden, task api.TaskID, kills int) map[api.EventType]int {
	t.Helper()
	told := map[api.EventType]int{}
	last := api.EventType("")
	for ev, err := range g.client().Tasks.Events(t.Context(), task, 0) {
		if err != nil {
			t.Fatal(err)
		}
		told[ev.Type]++
		last = ev.Type
	}
	if last != api.EventTaskFinished || told[api.EventTaskFinished] != 1 || told[api.EventTaskCreated] != 1 {
		t.Errorf("after %d kills: %v, the last is %s", kills, told, last)
	}
	return told
}

// surviveOnce runs one task through so many kills at most, and returns how many there were.
func surviveOnce(t *testing.T, g *garden, dir string, random *rand.Rand, most int, models *asked) (kills int) {
	t.Helper()
	task, kills := killedOnTheWay(t, g, random, most, "task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>", "--json", "Fix the failing test")
	if task.Outcome != api.OutcomeVerified || len(task.Repo.Rounds) != 2 {
		t.Fatalf("after %d kills the task is %s: %+v\n%s", kills, task.Outcome, task.Error, g.log())
	}
	diff := g.must("task", "diff", string(task.ID))
	if !strings.Contains(diff, "+    return a + b\n") {
		t.Errorf("after %d kills the result is another one:\n%s", kills, diff)
	}
	told := toldOnce(t, g, task.ID, kills)
	if told[api.EventTaskResumed] > kills || kills == 0 && told[api.EventTaskResumed] > 0 {
		t.Errorf("%d kills and %d resumptions", kills, told[api.EventTaskResumed])
	}
	// A call of the model or of a tool is done once more only where it was cut.
	if n := told[api.EventTool]; n < 5 || n > 5+kills || told[api.EventModel] != n {
		t.Errorf("after %d kills: %d calls of tools, %d answers", kills, n, told[api.EventModel])
	}
	for _, line := range []string{"look", "wrong", "mend"} {
		if n := strings.Count(diff, "\n+"+line+"\n"); n < 1 || n > 1+kills {
			t.Errorf("after %d kills the call %s was done %d times", kills, line, n)
		}
	}
	return kills
}

// killedOnTheWay runs a task through so many kills at most, after some events more each time and at random instants, and returns
// it after its end with how many there were.
func killedOnTheWay(t *testing.T, g *garden, random *rand.Rand, most int, args ...string) (_ api.Task, kills int) {
	t.Helper()
	cmd := g.start(args...)
	var id api.TaskID
	before := map[api.TaskID]bool{}
	for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json")) {
		before[task.ID] = task.State == api.TaskDone
	}
	until(t, "a task begins", func() string {
		for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json")) {
			if !before[task.ID] {
				id = task.ID
				return ""
			}
		}
		return "there is none"
	})
	var events int64
	for kills < most {
		// Past what was there before this daemon, by a few events and a moment.
		for ev, err := range g.client().Tasks.Events(t.Context(), id, events) {
			if err != nil {
				break
			}
			if events = ev.Seq; ev.Type == api.EventTaskFinished || random.IntN(5) == 0 {
				break
			}
		}
		task := decode[api.Task](t, g.must("task", "show", string(id), "--json"))
		if task.State == api.TaskDone {
			break
		}
		instant := time.NewTimer(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		<-instant.C
		if pid := daemonOf(g.dir); pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Fatal("there is no daemon to kill")
		}
		kills++
		g.must("task", "ls") // the next daemon
	}
	g.run("task", "watch", string(id))
	cmd.ends()
	return decode[api.Task](t, g.must("task", "show", string(id), "--json")), kills
}
