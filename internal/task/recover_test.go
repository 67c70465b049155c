package task_test

import (
	"context"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/storetest"
)

// steady works on a repository in one recorded step, and then waits.
type steady struct {
	wait chan struct{} // nil for none

	mu       sync.Mutex
	executed int
	who      []api.Principal
	began    chan struct{}
}

func (s *steady) Run(ctx context.Context, job repo.Job) repo.End {
	n, err := journal.Do(ctx, job.Run, "count", nil, func(context.Context, journal.Try) (int, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.executed++
		return 42, nil
	})
	s.mu.Lock()
	s.who = append(s.who, api.PrincipalOf(ctx))
	s.mu.Unlock()
	s.began <- struct{}{}
	if s.wait != nil {
		select {
		case <-s.wait:
		case <-ctx.Done():
			return repo.End{Outcome: api.OutcomeCanceled}
		}
	}
	if err != nil || n != 42 {
		return repo.End{Outcome: api.OutcomeFailed, Error: api.AsError(err)}
	}
	return repo.End{Outcome: api.OutcomeVerified, Result: api.RepoResult{Summary: "done"}}
}

func (*steady) Salvage(_ context.Context, t api.Task) api.RepoResult { return *t.Repo }
func (*steady) Deliver(context.Context, repo.Job) (api.RepoResult, error) {
	return api.RepoResult{}, nil
}
func (*steady) Adopt(context.Context, api.WorkspaceID, api.TaskID, api.TaskID) error { return nil }
func (*steady) Diff(context.Context, api.Task, int, string) (io.ReadCloser, error)   { return nil, nil }
func (*steady) Bundle(context.Context, api.Task, string) (io.ReadCloser, error)      { return nil, nil }

type named string

func (n named) Name() string { return string(n) }
func (named) Generate(context.Context, model.Request, func(model.Delta)) (model.Response, error) {
	return model.Response{}, api.Errorf(api.KindInternal, "nobody asks")
}

// daemon is an engine with its own owner over a database that others have too.
type daemon struct {
	*task.Engine
	me   api.OwnerID
	told []api.Event
}

func newDaemon(t *testing.T, db *database.DB, dir string, work *steady, models func(string) (model.Model, error), change ...func(*task.Config)) *daemon {
	t.Helper()
	d := &daemon{me: api.NewOwnerID()}
	if err := db.InsertOwner(t.Context(), store.Owner{ID: d.me, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	work.began = make(chan struct{}, 1)
	log := event.NewLog(event.Config{Store: db})
	cfg := task.Config{
		Store: db, Log: log, Events: log.Read, Appended: func(e api.Event) { d.told = append(d.told, e) },
		Model: models, Repositories: work, Dir: dir, Owner: d.me, Journal: journal.New(journal.Config{Rows: db, Owner: d.me}),
	}
	for _, f := range change {
		f(&cfg)
	}
	d.Engine = task.New(cfg)
	return d
}

func anyModel(name string) (model.Model, error) { return named(name), nil }

func newRows(t *testing.T) (*database.DB, string) {
	t.Helper()
	dir := t.TempDir()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, filepath.Join(dir, "tasks")
}

var asker = api.Principal{Account: "ada", Key: "k1", Role: api.RoleUser, Ceilings: api.Ceilings{Sandboxes: 3}}

func begin(t *testing.T, d *daemon, work *steady) api.Task {
	t.Helper()
	row, err := d.Create(api.WithPrincipal(t.Context(), asker), api.CreateTask{
		Request: "Fix it", Sandbox: api.CreateSandbox{Account: "ada", Key: "k1", Env: map[string]string{"A": "b"}},
		Repo: &api.RepoTask{URL: "https://example.org/r", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-work.began
	return row
}

func finished(t *testing.T, db *database.DB, id api.TaskID) (types []api.EventType) {
	t.Helper()
	all, err := db.ReadEvents(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(id)}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		types = append(types, e.Type)
	}
	return types
}

// TestResume: the next daemon goes on with a task, on behalf of who requested it, and the one that was taken for dead can
// store nothing of it any more.
func TestResume(t *testing.T) {
	db, dir := newRows(t)
	old := &steady{wait: make(chan struct{})}
	first := newDaemon(t, db, dir, old, anyModel)
	row := begin(t, first, old)
	work := &steady{}
	next := newDaemon(t, db, dir, work, anyModel)

	// A living owner's task is not touched.
	if n, err := next.Recover(t.Context(), func(api.OwnerID) bool { return false }); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n := next.Resume(t.Context()); n != 0 {
		t.Fatal("a living owner's task goes on here")
	}
	if err := storetest.EndOthers(t.Context(), db, next.me); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == first.me }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n := next.Resume(t.Context()); n != 1 {
		t.Fatal(n)
	}
	<-work.began
	got, err := next.Wait(t.Context(), row.ID)
	if err != nil || got.Outcome != api.OutcomeVerified || got.Owner != next.me || got.Env["A"] != "b" {
		t.Fatalf("%v: %+v", err, got)
	}
	if work.executed != 0 || old.executed != 1 {
		t.Errorf("the step was executed %d and %d times", old.executed, work.executed)
	}
	if len(work.who) != 1 || !reflect.DeepEqual(work.who[0], asker) {
		t.Errorf("it went on for %+v", work.who)
	}
	close(old.wait)
	if _, err := first.Wait(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	want := []api.EventType{api.EventTaskCreated, api.EventTaskStarted, api.EventTaskResumed, api.EventTaskFinished}
	if types := finished(t, db, row.ID); len(types) != len(want) || types[2] != want[2] || types[3] != want[3] {
		t.Errorf("events: %v, want %v", types, want)
	}
	if len(next.told) != 1 || next.told[0].Seq != 4 || len(first.told) != 0 {
		t.Errorf("told: %v and %v", next.told, first.told)
	}
}

// TestBring: before a task continues its files are brought. What was done after they were stored is done again, but no delivery; a task whose
// files are not there is lost, and says why.
func TestBring(t *testing.T) {
	for _, c := range []struct {
		name    string
		push    bool // and a delivery is recorded
		bring   func(ctx context.Context, b task.Brought) error
		outcome api.Outcome
		says    string
		did     int // steps that the next daemon executed
	}{
		{"here", false, func(context.Context, task.Brought) error { return nil }, api.OutcomeVerified, "", 0},
		{"older files", false, func(ctx context.Context, b task.Brought) error { return b.Rewind(ctx, "count") }, api.OutcomeVerified, "", 1},
		{"newer files", false, func(ctx context.Context, b task.Brought) error { return b.Rewind(ctx, "round 2") }, api.OutcomeVerified, "", 0},
		{"no files", false, func(_ context.Context, b task.Brought) error {
			return api.Errorf(api.KindConflict, "they are damaged")
		}, api.OutcomeLost, "they are damaged", 0},
		{"delivered", true, func(ctx context.Context, b task.Brought) error { return b.Rewind(ctx, "count") }, api.OutcomeLost, "is not done again", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, dir := newRows(t)
			old := &steady{wait: make(chan struct{})}
			first := newDaemon(t, db, dir, old, anyModel)
			row := begin(t, first, old)
			row, err := db.Task(t.Context(), row.ID)
			if err != nil {
				t.Fatal(err)
			}
			if row.Repo = (&api.RepoResult{Workspace: api.NewWorkspaceID()}); c.push {
				row.Create.Repo.Push = true
				if _, err := db.BeginStep(t.Context(), string(row.ID), first.me, store.RunStep{Name: repo.DeliverStep, StartedAt: time.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.UpdateTask(t.Context(), row); err != nil {
				t.Fatal(err)
			}
			work := &steady{}
			next := newDaemon(t, db, dir, work, anyModel, func(cfg *task.Config) {
				cfg.Bring = func(ctx context.Context, b task.Brought) error {
					if b.Task.ID != row.ID || b.Task.Repo.Workspace != row.Repo.Workspace || api.PrincipalOf(ctx).Account != "ada" {
						t.Errorf("%+v", b.Task)
					}
					return c.bring(ctx, b)
				}
			})
			if err := storetest.EndOthers(t.Context(), db, next.me); err != nil {
				t.Fatal(err)
			}
			if n, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == first.me }); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			next.Resume(t.Context())
			got, err := next.Wait(t.Context(), row.ID)
			if err != nil || got.Outcome != c.outcome || c.says != "" && (got.Error == nil || !strings.Contains(got.Error.Message, c.says)) {
				t.Errorf("%v: %s, %v", err, got.Outcome, got.Error)
			}
			if ran := len(work.who); work.executed != c.did || ran != map[bool]int{true: 1}[c.outcome == api.OutcomeVerified] {
				t.Errorf("%d steps of %d runs", work.executed, ran)
			}
			close(old.wait)
			if _, err := first.Wait(t.Context(), row.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNotResumed(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, db *database.DB, id api.TaskID)
		models  func(string) (model.Model, error)
		outcome api.Outcome
		kind    api.Kind
	}{
		{"canceled before", func(t *testing.T, db *database.DB, id api.TaskID) {
			row, err := db.Run(t.Context(), string(id))
			if err != nil {
				t.Fatal(err)
			}
			if err := db.CancelRun(t.Context(), row.ID, row.Owner, time.Now()); err != nil {
				t.Fatal(err)
			}
		}, anyModel, api.OutcomeCanceled, ""},
		{"without its model", func(*testing.T, *database.DB, api.TaskID) {}, func(string) (model.Model, error) {
			return nil, api.Errorf(api.KindNotFound, "no such model")
		}, api.OutcomeLost, api.KindNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, dir := newRows(t)
			old := &steady{wait: make(chan struct{})}
			first := newDaemon(t, db, dir, old, anyModel)
			row := begin(t, first, old)
			c.change(t, db, row.ID)
			next := newDaemon(t, db, dir, &steady{}, c.models)
			if err := storetest.EndOthers(t.Context(), db, next.me); err != nil {
				t.Fatal(err)
			}
			if n, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == first.me }); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if n := next.Resume(t.Context()); n != 0 {
				t.Error("it goes on")
			}
			close(old.wait)
			if _, err := first.Wait(t.Context(), row.ID); err != nil {
				t.Fatal(err)
			}
			got, err := db.Task(t.Context(), row.ID)
			if err != nil || got.Outcome != c.outcome || (got.Error == nil) != (c.kind == "") || got.Error != nil && got.Error.Kind != c.kind {
				t.Errorf("%v: %s %v", err, got.Outcome, got.Error)
			}
			if c.outcome == api.OutcomeCanceled && got.Receipt == nil {
				t.Error("there is no receipt")
			}
			if types := finished(t, db, row.ID); len(types) != 3 || types[2] != api.EventTaskFinished {
				t.Errorf("events: %v", types)
			}
			if steps, err := db.RunSteps(t.Context(), string(row.ID)); err != nil || len(steps) != 0 {
				t.Error(err, steps)
			}
		})
	}
}

// TestJournalWithoutTask: a daemon that died before the row of a task was there leaves nothing.
func TestJournalWithoutTask(t *testing.T) {
	db, dir := newRows(t)
	first := newDaemon(t, db, dir, &steady{}, anyModel)
	id := string(api.NewTaskID())
	if err := db.InsertRun(t.Context(), store.Run{ID: id, Kind: "task", Owner: first.me, CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	next := newDaemon(t, db, dir, &steady{}, anyModel)
	if err := storetest.EndOthers(t.Context(), db, next.me); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == first.me }); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if r, err := db.Run(t.Context(), id); err != nil || r.EndedAt.IsZero() {
		t.Error(r, err)
	}
}
