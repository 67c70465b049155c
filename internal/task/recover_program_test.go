package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/journal"
	"hortus.dev/test/agenttest"
	"hortus.dev/test/storetest"
)

// halting stops for good at one of the writes to its journal, "before 3" or "after 3", as a daemon that was killed
// there does.
type halting struct {
	store.Runs
	at      string
	n       atomic.Int64
	once    sync.Once
	halted  chan struct{} // closed at that write
	release chan struct{} // ends it
}

func (h *halting) write(do func() error) error {
	n := h.n.Add(1)
	h.here("before", n)
	err := do()
	h.here("after", n)
	return err
}

func (h *halting) here(when string, n int64) {
	if fmt.Sprint(when, " ", n) == h.at {
		h.once.Do(func() { close(h.halted) })
		<-h.release
	}
}

func (h *halting) BeginStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) (try int, err error) {
	err = h.write(func() error { try, err = h.Runs.BeginStep(ctx, run, owner, s); return err })
	return try, err
}

func (h *halting) EndStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) error {
	return h.write(func() error { return h.Runs.EndStep(ctx, run, owner, s) })
}

func (h *halting) EndRun(ctx context.Context, run string, owner api.OwnerID, end store.RunEnd) (seq int64, err error) {
	err = h.write(func() error { seq, err = h.Runs.EndRun(ctx, run, owner, end); return err })
	return seq, err
}

// counted counts the requests of a model by what they ask for.
type counted struct {
	model.Model
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	c.mu.Lock()
	c.n[req.Output.Name]++
	c.mu.Unlock()
	r, err := c.Model.Generate(ctx, req, deltas)
	r.Usage = api.Usage{Requests: 1, InputTokens: 10}
	return r, err
}

// programDaemon is an engine with its own owner, which runs programs.
func programDaemon(t *testing.T, db *database.DB, runs store.Runs, sandboxes *agenttest.Localdir, dir string, m model.Model, change ...func(*task.Config)) (*task.Engine, api.OwnerID) {
	t.Helper()
	me := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: me, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	log := event.NewLog(event.Config{Store: db})
	cfg := task.Config{
		Store: db, Log: log, Events: log.Read, Sandboxes: sandboxes, Dir: dir, Owner: me,
		Model: func(string) (model.Model, error) { return m, nil }, Journal: journal.New(journal.Config{Rows: runs, Owner: me}),
	}
	for _, f := range change {
		f(&cfg)
	}
	return task.New(cfg), me
}

// leaving has tasks go to another owner before a step. It implements task.Elsewhere.
type leaving struct {
	db       *database.DB
	from, to api.OwnerID
	asked    atomic.Int64
	at       int64 // the question with the answer yes, from 1
	fails    error // of the first hand-over
}

// Leaves implements task.Elsewhere.
func (l *leaving) Leaves(context.Context, api.Task) error {
	if l.asked.Add(1) == l.at {
		return nil
	}
	return errors.New("it stays")
}

// HandOver implements task.Elsewhere.
func (l *leaving) HandOver(ctx context.Context, t api.Task) error {
	if l.fails != nil {
		return l.fails
	}
	return l.db.HandOver(ctx, store.Work{Tasks: []api.TaskID{t.ID}}, l.from, l.to)
}

// Moved implements task.Elsewhere.
func (l *leaving) Moved(_ context.Context, from api.OwnerID) *api.TaskMove {
	return &api.TaskMove{From: string(from), To: "here", Why: api.MoveDrained}
}

// TestProgramsLeave: a request for a program, whose first version fails, goes to another owner before each of its steps. Every step is done once, and
// the first owner writes nothing any more. If it cannot be handed over, it stays that owner's, and unfinished.
func TestProgramsLeave(t *testing.T) {
	for n := int64(1); n <= 6; n++ {
		t.Run(fmt.Sprint("step ", n), func(t *testing.T) {
			t.Parallel()
			db, dir := newRows(t)
			sandboxes := agenttest.NewLocaldir(t)
			m := &counted{Model: &forgetful{}, n: map[string]int{}}
			l := &leaving{db: db, at: n}
			if n == 6 {
				l.at, l.fails = 3, errors.New("no database")
			}
			first, one := programDaemon(t, db, db, sandboxes, dir, m, func(c *task.Config) { c.Elsewhere = l })
			next, two := programDaemon(t, db, db, sandboxes, filepath.Join(dir, "other"), m, func(c *task.Config) { c.Elsewhere = &leaving{} })
			l.from, l.to = one, two
			row, err := first.Create(api.WithPrincipal(t.Context(), asker), api.CreateTask{Request: "Print the total", Model: "forgetful", Sandbox: api.CreateSandbox{Account: "ada"}})
			if err != nil {
				t.Fatal(err)
			}
			if row, err = first.Wait(t.Context(), row.ID); err != nil || row.State == api.TaskDone || first.Running() != 0 {
				t.Fatalf("%+v, %v: %d are running", row, err, first.Running())
			}
			if l.fails != nil {
				if row.Owner != one {
					t.Errorf("after an error the task is %s's", row.Owner)
				}
				return
			}
			if _, err := first.Cancel(t.Context(), row.ID); api.KindOf(err) != api.KindUnavailable || api.RetryAfterOf(err) == 0 {
				t.Errorf("a cancellation on the way: %v", err)
			}
			if found, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == row.Owner && o != one }); found != 1 || err != nil {
				t.Fatal(found, err)
			}
			if resumed := next.Resume(t.Context()); resumed != 1 {
				t.Fatal("resumed:", resumed)
			}
			got, err := next.Wait(t.Context(), row.ID)
			if err != nil || got.Owner != two || got.Outcome != api.OutcomeVerified || len(got.Attempts) != 2 || got.Attempts[1].Result.Stdout != "7\n" {
				t.Errorf("%+v, %v", got, err)
			}
			if m.n["ExecutionPlan"] != 1 || m.n["CodeArtifact"] != 1 || m.n["Diagnosis"] != 1 || sandboxes.Created.Load() != 2 {
				t.Errorf("%v, %d sandboxes", m.n, sandboxes.Created.Load())
			}
			if len(got.Moves) != 1 || got.Moves[0].From != string(row.Owner) || got.Moves[0].Why != api.MoveDrained || got.Moves[0].At.IsZero() {
				t.Errorf("its moves: %+v", got.Moves)
			}
			all, err := db.ReadEvents(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(row.ID)}, 0, 200)
			if err != nil {
				t.Fatal(err)
			}
			count := map[api.EventType]int{}
			for _, e := range all {
				count[e.Type]++
				var r api.ResumedEvent
				if e.Type == api.EventTaskResumed && (json.Unmarshal(e.Data, &r) != nil || r.Move == nil || *r.Move != got.Moves[0]) {
					t.Errorf("the event %s", e.Data)
				}
			}
			for _, once := range []api.EventType{api.EventTaskCreated, api.EventTaskStarted, api.EventPlan, api.EventTaskResumed, api.EventTaskFinished} {
				if count[once] != 1 {
					t.Errorf("%d times %s", count[once], once)
				}
			}
		})
	}
}

// TestProgramsSurvive: a daemon dies at each write to the journal of a request for a program, whose first version fails.
// The next daemon goes on: the result is the same, it ends once, and no step that was recorded is done again.
func TestProgramsSurvive(t *testing.T) {
	// Plan, code, two attempts and a diagnosis, each with two writes, and the end.
	const writes = 11
	steps := []string{"ExecutionPlan", "CodeArtifact", "attempt", "Diagnosis", "attempt"}
	for n := 1; n <= writes; n++ {
		for _, when := range []string{"before", "after"} {
			at := fmt.Sprint(when, " ", n)
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "hortus.db")})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				sandboxes := agenttest.NewLocaldir(t)
				m := &counted{Model: &forgetful{}, n: map[string]int{}}
				h := &halting{Runs: db, at: at, halted: make(chan struct{}), release: make(chan struct{})}
				first, dead := programDaemon(t, db, h, sandboxes, filepath.Join(dir, "tasks"), m)
				row, err := first.Create(api.WithPrincipal(t.Context(), asker), api.CreateTask{Request: "Print the total", Model: "forgetful", Sandbox: api.CreateSandbox{Account: "ada"}})
				if err != nil {
					t.Fatal(err)
				}
				<-h.halted
				before := sandboxes.Created.Load()

				next, me := programDaemon(t, db, db, sandboxes, filepath.Join(dir, "tasks"), m)
				ended := n == writes && when == "after"
				if err := storetest.EndOthers(t.Context(), db, me); err != nil {
					t.Fatal(err)
				}
				found, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == dead })
				if err != nil || (found == 1) == ended {
					t.Fatal(found, err)
				}
				if resumed := next.Resume(t.Context()); (resumed == 1) == ended {
					t.Fatal("resumed:", resumed)
				}
				got, err := next.Wait(t.Context(), row.ID)
				if err != nil {
					t.Fatal(err)
				}
				if got.Outcome != api.OutcomeVerified || len(got.Attempts) != 2 || got.Attempts[0].Result.OK || !got.Attempts[1].Result.OK ||
					got.Attempts[1].Result.Stdout != "7\n" || got.Attempts[0].Diagnosis == nil || got.Plan == nil || !ended && got.Owner != me {
					t.Errorf("%+v", got)
				}
				// The step that was cut may have been done twice; no other one.
				cut := -1
				if begun := (n - 1) / 2; n%2 == 0 && when == "before" || n%2 == 1 && when == "after" {
					cut = begun
				}
				done := map[string]int{"attempt": int(sandboxes.Created.Load()), "ExecutionPlan": m.n["ExecutionPlan"], "CodeArtifact": m.n["CodeArtifact"], "Diagnosis": m.n["Diagnosis"]}
				want := map[string]int{}
				for i, s := range steps {
					want[s]++
					if i == cut && n%2 == 0 { // it was done, and its end was not recorded
						want[s]++
					}
				}
				for s, n := range want {
					if done[s] != n {
						t.Errorf("%s was done %d times, want %d", s, done[s], n)
					}
				}
				if before > sandboxes.Created.Load() {
					t.Error("sandboxes went backwards")
				}
				// What the model was paid for is in the sum, of both daemons.
				calls := 0
				for _, c := range got.Calls {
					calls += c.Calls
				}
				if calls != m.n["ExecutionPlan"]+m.n["CodeArtifact"]+m.n["Diagnosis"] {
					t.Errorf("%d calls are counted, and %v were made", calls, m.n)
				}

				events := func() (all []api.Event, count map[api.EventType]int) {
					all, err := db.ReadEvents(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(row.ID)}, 0, 200)
					if err != nil {
						t.Fatal(err)
					}
					count = map[api.EventType]int{}
					for _, e := range all {
						count[e.Type]++
					}
					return all, count
				}
				all, count := events()
				for _, once := range []api.EventType{api.EventTaskCreated, api.EventTaskStarted, api.EventPlan, api.EventTaskFinished} {
					if count[once] != 1 {
						t.Errorf("%d times %s", count[once], once)
					}
				}
				if count[api.EventTaskResumed] > 1 || !ended && n < writes && count[api.EventTaskResumed] != 1 {
					t.Errorf("%d times %s", count[api.EventTaskResumed], api.EventTaskResumed)
				}
				last := slices.IndexFunc(all, func(e api.Event) bool { return e.Type == api.EventTaskFinished })
				var said api.Task
				if err := json.Unmarshal(all[last].Data, &said); err != nil || said.Outcome != api.OutcomeVerified || len(said.Attempts) != 2 {
					t.Errorf("%v: %+v", err, said)
				}

				// The old daemon was not dead: it cannot end the task a second time.
				close(h.release)
				if _, err := first.Wait(t.Context(), row.ID); err != nil {
					t.Error(err)
				}
				if _, count := events(); count[api.EventTaskFinished] != 1 {
					t.Errorf("%d times %s", count[api.EventTaskFinished], api.EventTaskFinished)
				}
				if row, err := db.Task(t.Context(), row.ID); err != nil || row.Outcome != api.OutcomeVerified {
					t.Error(row.Outcome, err)
				}
				if left, err := db.RunSteps(t.Context(), string(row.ID)); err != nil || len(left) != 0 {
					t.Error(left, err)
				}
			})
		}
	}
}
