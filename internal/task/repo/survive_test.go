package repo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/python"
	"hortus.dev/test/storetest"
	"hortus.dev/test/tier"
)

// The child of TestSurvives works below surviveDir and kills itself at surviveKill, "before 12" or "after 12": one of the
// writes to its journal.
const (
	surviveDir  = "HORTUS_TEST_SURVIVE_DIR"
	surviveKill = "HORTUS_TEST_SURVIVE_KILL"
	// surviveWork is what the task does more than to mend: nothing, one of the two below, or one of the contests.
	surviveWork = "HORTUS_TEST_SURVIVE_WORK"
	// surviveStop has the engine stop in order at surviveKill: after the step that is executed ("step"), or at once ("cut").
	surviveStop = "HORTUS_TEST_SURVIVE_STOP"
	// reads adds calls that read, a list of work and a question to the sub-agent to the first answer.
	reads = "reads"
	// copies adds two questions to sub-agents that work in copies of the sandbox.
	copies = "copies"
	// passes has the work done in passes, of a new agent each.
	passes = "passes"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(surviveDir); dir != "" {
		if err := survivor(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	python.Direct()
	os.Exit(m.Run())
}

// survivor begins the task of a directory, or goes on with it, and prints how it ended.
func survivor(dir string) error {
	ctx := context.Background()
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	log := func(format string, args ...any) { fmt.Fprintf(f, format+"\n", args...) }
	db, err := database.OpenSQLite(ctx, database.SQLite{Path: filepath.Join(dir, "hortus.db")})
	if err != nil {
		return err
	}
	defer db.Close()
	me := api.NewOwnerID()
	if err := db.InsertOwner(ctx, store.Owner{ID: me, StartedAt: time.Now()}); err != nil {
		return err
	}
	work, host := os.Getenv(surviveWork), ""
	if work == moves || work == leaves {
		if host, err = newHost(dir); err != nil {
			return err
		}
	}
	sandboxes, err := newDisk(filepath.Join(dir, "boxes"+host))
	if err != nil {
		return err
	}
	git, err := cache.Open(cache.Config{Dir: filepath.Join(dir, "cache"+host)})
	if err != nil {
		return err
	}
	tell := func(text string) string { return "echo 'tool " + text + "' >> ../../../../log" } // from its workspace
	m := stateless{log: log, calls: []call{
		sh(tell("look") + "; cat sum.sh"),
		sh(tell("wrong") + "; echo 'echo 4' > sum.sh"), finish(),
		sh(tell("mend") + "; " + mend), finish(),
	}}
	switch work {
	case reads:
		m.first = []call{{"view", map[string]any{"path": "sum.sh"}}, {"search", map[string]any{"pattern": "sum"}},
			{"todo", map[string]any{"items": []any{map[string]any{"text": "Fix it", "state": "active"}}}},
			{"research", map[string]any{"question": "Where is it?"}}}
	case copies:
		m.first, m.task = []call{inCopy("one"), inCopy("two")}, func(name string) []call {
			return []call{sh(tell("copy "+name) + "; echo " + name + " >> sum.sh"), sh("grep -c " + name + " sum.sh"), {"view", map[string]any{"path": "sum.sh"}}, finish()}
		}
	}
	request := &api.RepoTask{
		URL: filepath.Join(dir, "repo"), Remote: filepath.Join(dir, "remote"), Push: true, Verify: "sh test.sh", Author: api.Identity{Name: "Ada", Email: "ada@example.org"},
	}
	if work == passes {
		request.Verify, request.Until = "", "sh test.sh"
		m.second = m.calls[3:]
	}
	if err := sandboxes.sweep(ctx, db); err != nil {
		return err
	}
	events := event.NewLog(event.Config{Store: db})
	repositories := repo.Config{Git: git, Sandboxes: sandboxes, Deliverer: nowhere{}}
	var bring func(context.Context, task.Brought) error
	var elsewhere task.Elsewhere
	if work == leaves {
		elsewhere = leaver{db, me, filepath.Join(dir, "left"+host)}
	}
	if work == moves || work == leaves {
		c := carried{sandboxes, filepath.Join(dir, "stored"), filepath.Join(dir, "beside"+host)}
		repositories.Archive, bring = c, c.bring
	}
	runs := &killing{Runs: db, log: log, at: os.Getenv(surviveKill)}
	stopping, within := stops{slog.DiscardHandler, make(chan struct{}, 1)}, time.Duration(0)
	if os.Getenv(surviveStop) == "cut" {
		within = time.Nanosecond
	}
	e := task.New(task.Config{
		Logger: slog.New(stopping), StepTime: within,
		Store: db, Log: events, Model: modelsOf(m, tell, log), Dir: filepath.Join(dir, "tasks"+host), Owner: me, Bring: bring, Elsewhere: elsewhere,
		Repositories: repo.New(repositories),
		Journal:      journal.New(journal.Config{Rows: runs, Owner: me}), Events: events.Read,
	})
	closed := make(chan error, 1)
	if os.Getenv(surviveStop) != "" {
		runs.stop = func() {
			go func() { closed <- e.Close(ctx) }()
			<-stopping.begun
		}
	}
	if err := keptWorkspace(ctx, db); err != nil {
		return err
	}
	// One process runs after the other: every other owner has ended.
	if err := storetest.EndOthers(ctx, db, me); err != nil {
		return err
	}
	if _, err := e.Recover(ctx, func(api.OwnerID) bool { return true }); err != nil {
		return err
	}
	e.Resume(ctx)
	all, _, err := db.TaskPage(ctx, "", false, api.PageRequest{})
	if err != nil {
		return err
	}
	var t api.Task
	if len(all) > 0 {
		t = all[0]
	} else {
		fmt.Println("working")
		t, err = e.Create(api.WithPrincipal(ctx, api.Operator()), api.CreateTask{Request: "Fix the sum", Repo: severalIfAsked(work, request)})
		if err != nil {
			return err
		}
	}
	if t, err = e.Wait(ctx, t.ID); err != nil {
		return err
	}
	if t.State != api.TaskDone && work == leaves {
		return nil
	}
	if t.State != api.TaskDone && runs.stop != nil {
		return <-closed
	}
	if t.State != api.TaskDone {
		return fmt.Errorf("task %s is %s", t.ID, t.State)
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// stops is a log that says when the engine has begun to stop.
type stops struct {
	slog.Handler
	begun chan struct{}
}

func (stops) Enabled(context.Context, slog.Level) bool { return true }
func (s stops) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "left to the next daemon") {
		s.begun <- struct{}{}
	}
	return nil
}

// keptWorkspace is an error if the row of the task does not name the workspace that its journal has: that would be removed
// as nobody's.
func keptWorkspace(ctx context.Context, db *database.DB) error {
	all, _, err := db.TaskPage(ctx, "", false, api.PageRequest{})
	if err != nil || len(all) == 0 {
		return err
	}
	steps, err := db.RunSteps(ctx, string(all[0].ID))
	for _, s := range steps {
		if s.Name == "workspace" && s.Done && (all[0].Repo == nil || all[0].Repo.Workspace == "") {
			return errors.New("the row of the task does not name its workspace")
		}
	}
	return err
}

// survival is a directory in which children work on one task.
type survival struct {
	dir    string
	work   string // see surviveWork
	random bool   // it is killed at random instants, of which the log says nothing
	stop   string // see surviveStop
}

func newSurvival(t *testing.T, work string) survival {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s := survival{dir: t.TempDir(), work: work}
	if err := os.Rename(makeRepo(t, sum), filepath.Join(s.dir, "repo")); err != nil {
		t.Fatal(err)
	}
	runGit(t, s.dir, "init", "-q", "--bare", "remote")
	return s
}

// start runs a child, which is killed at a point, or after a time; it returns what it printed, and whether it was killed.
func (s survival) start(t *testing.T, at string, after time.Duration) (out string, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), surviveDir+"="+s.dir, surviveKill+"="+at, surviveWork+"="+s.work, surviveStop+"="+s.stop)
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return b.String(), true
	}
	if err != nil {
		t.Fatalf("the child failed: %v\n%s", err, b.String())
	}
	return b.String(), false
}

// finished lets the task end. It returns its row and its events; no step may be left.
func (s survival) finished(t *testing.T) (api.Task, []api.Event) {
	t.Helper()
	out, killed := s.start(t, "", 0)
	if killed {
		t.Fatal("the last child was killed")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var row api.Task
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &row); err != nil {
		t.Fatal(err, out)
	}
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(s.dir, "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if steps, err := db.RunSteps(t.Context(), string(row.ID)); err != nil || len(steps) != 0 {
		t.Error("steps are left:", err, len(steps))
	}
	events, err := db.ReadEvents(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(row.ID)}, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return row, events
}

// end lets the task end and looks at all that happened, with so many kills before.
func (s survival) end(t *testing.T, kills int) {
	t.Helper()
	row, events := s.finished(t)
	if row.Outcome != api.OutcomeVerified || row.Repo == nil || len(row.Repo.Rounds) != 2 || row.Repo.Delivery == nil || row.Repo.Delivery.Pushed == "" {
		b, _ := json.MarshalIndent(row, "", " ")
		t.Fatalf("the task ended as %s: %v\n%s", row.Outcome, row.Error, b)
	}
	if got := runGit(t, filepath.Join(s.dir, "remote"), "show", row.Repo.Branch+":sum.sh"); got != "echo $(($1 + $2))\n" {
		t.Errorf("the result is %q", got)
	}
	if got := strings.TrimSpace(runGit(t, filepath.Join(s.dir, "remote"), "rev-parse", row.Repo.Branch)); got != row.Repo.Head {
		t.Errorf("the branch is at %s, the result at %s", got, row.Repo.Head)
	}
	told := map[api.EventType]int{}
	for i, e := range events {
		told[e.Type]++
		if e.Type == api.EventTaskFinished && i != len(events)-1 {
			t.Error("an event follows the last one")
		}
	}
	log := s.log(t)
	cut := log["killed before end tool"] + log["killed after begin tool"]
	for what, want := range map[api.EventType]int{api.EventTaskCreated: 1, api.EventTaskFinished: 1, api.EventTaskStarted: 1} {
		if told[what] != want && !(what == api.EventTaskCreated && log["killed after run"] > 0) {
			t.Errorf("%d events %s, want %d", told[what], what, want)
		}
	}
	if kills == 0 && told[api.EventTaskResumed] != 0 {
		t.Error("a task that was not killed was resumed")
	}
	// A call that was cut is made again by the agent, which was told.
	more, answers, cuts := 0, 5, min(kills, log["tool"])
	switch s.work {
	case reads:
		more, answers = 4, 7
		if want := []api.TodoItem{{Text: "Fix it", State: "active"}}; !slices.Equal(row.Repo.Todo, want) || told[api.EventTodo] != 1 {
			t.Errorf("the list of work is %v, and was told %d times", row.Repo.Todo, told[api.EventTodo])
		}
	case copies:
		more, answers, cuts = 2, 13, 2*kills // each of the two may have been in a call
		s.ended(t, row, kills)
	}
	if told[api.EventTool] != told[api.EventModel]+more || told[api.EventModel] < answers || told[api.EventModel] > answers+cuts {
		t.Errorf("%d answers of the model and %d results of tools were told", told[api.EventModel], told[api.EventTool])
	}
	calls := 0
	for _, c := range row.Calls {
		calls += c.Calls
	}
	if row.Usage.Requests != told[api.EventModel] || calls != row.Usage.Requests {
		t.Errorf("%d requests were counted, %+v, and %d told", row.Usage.Requests, row.Calls, told[api.EventModel])
	}
	for _, name := range []string{"look", "wrong", "mend"} {
		if n := log["tool "+name]; n < 1 || n > 1+kills || n > 1 && kills == 1 && cut == 0 && !s.random {
			t.Errorf("the call %s was executed %d times; calls that were cut: %d", name, n, cut)
		}
	}
	extra, other := log["killed before end model"], 0
	for n := 1; n <= 2; n++ {
		extra += log[fmt.Sprintf("killed before end research %d/model", n)]
	}
	if s.work == copies || s.random {
		other = 1 // a kill at a write of one sub-agent may cut an answer to the other one
	}
	if asked := log["ask"] - told[api.EventModel] - extra; kills <= 1 && (asked < 0 || asked > other) {
		t.Errorf("the model was asked %d times, answered %d and was cut %d times", log["ask"], told[api.EventModel], extra)
	}
}

// log counts the lines of the log, by beginnings too.
func (s survival) log(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]int{}
	for in := bufio.NewScanner(f); in.Scan(); {
		words := strings.Fields(in.Text())
		for i := range words {
			out[strings.Join(words[:i+1], " ")]++
		}
	}
	return out
}

// kills is how often a test kills: a few times in T1, often in T2, or as often as HORTUS_TEST_KILLS says.
func kills(t *testing.T, few, often int) int {
	t.Helper()
	said := os.Getenv("HORTUS_TEST_KILLS")
	if said == "" {
		return tier.Count(few, often)
	}
	n, err := strconv.Atoi(said)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// points are before and after the writes to the journal from the first to the last one: in T1 a few that lie evenly between
// them, in T2 all.
func points(t *testing.T, first, last, few int) (chosen []string) {
	t.Helper()
	var all []string
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprint("before ", n), fmt.Sprint("after ", n))
	}
	n := min(kills(t, few, len(all)), len(all))
	for i := range n {
		chosen = append(chosen, all[(2*i+1)*len(all)/(2*n)])
	}
	return chosen
}

// killedAt kills a child at each of the points, and lets the next one end. The points are tests that run side by side.
func killedAt(t *testing.T, work string, points []string, last func(*testing.T, survival)) {
	t.Helper()
	for _, at := range points {
		t.Run("killed "+at, func(t *testing.T) {
			t.Parallel()
			s := newSurvival(t, work)
			if out, killed := s.start(t, at, 0); !killed {
				t.Fatalf("the child was not killed: %s", out)
			}
			last(t, s)
			for line, n := range s.log(t) {
				if strings.HasPrefix(line, "killed ") && n == 1 && len(strings.Fields(line)) > 3 {
					t.Log(line)
				}
			}
		})
	}
}

// once is the end of a child that was killed once.
func once(t *testing.T, s survival) { t.Helper(); s.end(t, 1) }

// killedAnywhere kills children at random instants until their task ends, as often as n.
func killedAnywhere(t *testing.T, work string, n int, last func(t *testing.T, s survival, kills int)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 3))
	t.Logf("seed %d", seed)
	began := time.Now()
	last(t, newSurvival(t, work), 0)
	most := time.Since(began)
	all := 0
	for all < n {
		s := newSurvival(t, work)
		s.random = true
		mine := 0
		for {
			if _, killed := s.start(t, "", 1+time.Duration(random.Int64N(int64(most)))); !killed {
				break
			}
			mine++
		}
		last(t, s, mine)
		all += max(mine, 1)
	}
	t.Logf("%d kills", all)
}

// TestSurvives kills the daemon's part of a task at writes to its journal, before and after: so at the boundaries of
// steps, before an effect, between an effect and its record, and after its record. The result is the same.
func TestSurvives(t *testing.T) {
	t.Parallel()
	newSurvival(t, "").end(t, 0)
	killedAt(t, "", points(t, 1, writes, 6), once)
}

// TestSurvivesEachStep kills the daemon's part of a task after every step: each process does one.
func TestSurvivesEachStep(t *testing.T) {
	t.Parallel()
	s := newSurvival(t, "")
	n := 0
	for ; n <= writes; n++ { // a step has two writes
		if _, killed := s.start(t, "after 2", 0); !killed {
			break
		}
	}
	if n < writes/2-2 || n > writes/2 {
		t.Errorf("%d processes were killed, of a task with %d writes", n, writes)
	}
	s.end(t, n)
}

// TestSurvivesReads kills around calls that run side by side: those that were cut are made again, and nobody is told.
func TestSurvivesReads(t *testing.T) {
	t.Parallel()
	killedAt(t, reads, points(t, 14, 30, 4), once) // the answer with the calls is the seventh step
}

// writes is how often the task of these tests writes to its journal: its begin and end, and twice for each step.
const writes = 2 + 2*(5+5+5+2*4+1)

// TestPassesSurvive kills around the writes of a task with passes: the agents that follow know nothing of each other, before and after.
func TestPassesSurvive(t *testing.T) {
	t.Parallel()
	killedAt(t, passes, points(t, 1, writes+2*2, 4), once) // each pass has a progress
}

// stoppedAt stops a child in order at each of the points, and lets the next one end.
func stoppedAt(t *testing.T, work, how string, points []string, last func(*testing.T, survival)) {
	t.Helper()
	for _, at := range points {
		t.Run(how+", stopped "+at, func(t *testing.T) {
			t.Parallel()
			s := newSurvival(t, work)
			s.stop, s.random = how, how == "cut"
			if out, killed := s.start(t, at, 0); killed || strings.Contains(out, `"outcome"`) {
				t.Fatalf("the child did not leave its task: %s", out)
			}
			s.stop = ""
			last(t, s)
		})
	}
}

// TestStops stops the daemon's part of a task in order at writes to its journal. The step that is executed ends, so that nothing is done or paid for twice; or it
// is interrupted, as by a kill.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"step", "cut"} {
		stoppedAt(t, "", how, points(t, 2, writes-1, 4), once)
		stoppedAt(t, reads, how, points(t, 14, 30, 1), once)
		for name, c := range contests() {
			again := map[bool]int{true: 1}[how == "cut"]
			stoppedAt(t, name, how, points(t, 2, 2*c.steps-4, 1), func(t *testing.T, s survival) { t.Helper(); s.endBest(t, again) })
		}
	}
}

// TestSurvivesRandomKills kills at random instants, until the task ends.
func TestSurvivesRandomKills(t *testing.T) {
	t.Parallel()
	killedAnywhere(t, "", kills(t, 3, 100), func(t *testing.T, s survival, n int) { t.Helper(); s.end(t, n) })
}
