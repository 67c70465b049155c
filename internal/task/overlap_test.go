package task_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/workstream"
	"hortus.dev/test/storetest"
)

// desk works on repositories until the test lets each task end.
type desk struct {
	steady
	at chan api.TaskID // who has begun

	mu   sync.Mutex
	ends map[api.TaskID]chan struct{}
}

func newDesk() *desk {
	return &desk{at: make(chan api.TaskID, 10), ends: map[api.TaskID]chan struct{}{}}
}

func (d *desk) end(id api.TaskID) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends[id] == nil {
		d.ends[id] = make(chan struct{})
	}
	return d.ends[id]
}

func (d *desk) Run(ctx context.Context, job repo.Job) repo.End {
	d.at <- job.Task.ID
	select {
	case <-d.end(job.Task.ID):
		return repo.End{Outcome: api.OutcomeVerified}
	case <-ctx.Done():
		return repo.End{Outcome: api.OutcomeCanceled}
	}
}

// office is an engine over rows that others have too, which knows who changes what.
type office struct {
	*task.Engine
	*desk
	me       api.OwnerID
	log      *event.Log
	registry *workstream.Registry
}

func newOffice(t *testing.T, db *database.DB, dir string) *office {
	t.Helper()
	me := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: me, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	claims := task.Claims{Tasks: db, Key: func(url string) string { return strings.TrimSuffix(url, ".git") }}
	o := &office{desk: newDesk(), me: me, log: event.NewLog(event.Config{Store: db}), registry: workstream.New(workstream.Config{Sources: []workstream.Source{claims}})}
	o.Engine = task.New(task.Config{
		Store: db, Log: o.log, Events: o.log.Read, Appended: func(api.Event) {}, Model: anyModel, Repositories: o.desk, Dir: dir, Owner: me,
		Journal: journal.New(journal.Config{Rows: db, Owner: me}), Workstreams: o.registry, Claims: claims,
	})
	t.Cleanup(func() { o.Close(context.Background()) })
	return o
}

// start requests a task that changes some files.
func (o *office) start(t *testing.T, policy api.Overlap, account string, files ...string) api.Task {
	t.Helper()
	row, err := o.Create(t.Context(), api.CreateTask{
		Request: "Fix " + strings.Join(files, " ") + "\nand more", Model: "m", Sandbox: api.CreateSandbox{Account: account},
		Repo: &api.RepoTask{URL: "https://example.org/r", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Overlap: policy, FilePolicy: api.FilePolicy{Writable: files}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// overlap waits for the event that names others.
func (o *office) overlap(t *testing.T, id api.TaskID) (v api.OverlapEvent) {
	t.Helper()
	for e, err := range o.log.Follow(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(id)}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.EventOverlap {
			if err := json.Unmarshal(e.Data, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		if e.Type == api.EventTaskFinished {
			break
		}
	}
	return v
}

func names(v api.OverlapEvent) (out []string) {
	for _, w := range v.With {
		out = append(out, w.Name())
	}
	return out
}

// TestOverlappingTasks: a task that asks for it waits for the end of another one with the same files, or is refused; without that it works at
// the same time and says with whom. Files of others, and other accounts, do not count.
func TestOverlappingTasks(t *testing.T) {
	db, dir := newRows(t)
	o := newOffice(t, db, dir)
	first := o.start(t, "", "", "a.go")
	<-o.at
	waits := o.start(t, api.OverlapWait, "", "*.go")
	if v := o.overlap(t, waits.ID); !v.Waits || !slices.Equal(names(v), []string{"task " + string(first.ID)}) || v.With[0].Title != "Fix a.go" {
		t.Errorf("it waits for %+v", v)
	}
	later := o.start(t, api.OverlapWait, "", "b.go")
	if v := o.overlap(t, later.ID); !v.Waits || !slices.Equal(names(v), []string{"task " + string(waits.ID)}) {
		t.Errorf("a later one waits for %+v", v)
	}
	refused := o.start(t, api.OverlapRefuse, "", "a.go")
	if got, err := o.Wait(t.Context(), refused.ID); err != nil || got.Outcome != api.OutcomeFailed || got.Error == nil || got.Error.Kind != api.KindConflict || !strings.Contains(got.Error.Message, string(first.ID)) {
		t.Errorf("%v: %s, %v", err, got.Outcome, got.Error)
	}
	for _, account := range []string{"", "bob"} {
		files := map[string][]string{"": {"/README"}}[account] // bob's may change every file
		row := o.start(t, api.OverlapWait, account, files...)
		if got := <-o.at; got != row.ID {
			t.Errorf("%s begins, and not the task of %q on %v", got, account, files)
		}
	}
	allowed := o.start(t, "", "", "a.go")
	if v := o.overlap(t, allowed.ID); v.Waits || !slices.Equal(names(v), []string{"task " + string(first.ID)}) {
		t.Errorf("it works at the same time as %+v", v)
	}
	if got := <-o.at; got != allowed.ID {
		t.Errorf("%s begins", got)
	}
	all, err := o.registry.Now(t.Context(), "", "")
	if err != nil || len(all) != 5 || !all[1].Waits || all[1].ID != string(waits.ID) {
		t.Errorf("%v: %+v", err, all)
	}
	for _, id := range []api.TaskID{first.ID, allowed.ID} {
		select {
		case got := <-o.at:
			t.Errorf("%s has not waited", got)
		default:
		}
		close(o.end(id))
	}
	if got := <-o.at; got != waits.ID {
		t.Errorf("%s begins", got)
	}
	if got, err := o.Cancel(t.Context(), later.ID); err != nil || got.Outcome != api.OutcomeCanceled || got.Receipt == nil || got.Receipt.ProcessesLeft != 0 {
		t.Errorf("one that waits is canceled: %v, %s, %+v", err, got.Outcome, got.Receipt)
	}
	close(o.end(waits.ID))
	if got, err := o.Wait(t.Context(), waits.ID); err != nil || got.Outcome != api.OutcomeVerified || got.StartedAt.IsZero() {
		t.Errorf("%v: %s, began at %s", err, got.Outcome, got.StartedAt)
	}
	if _, err := o.Create(t.Context(), api.CreateTask{Request: "x", Model: "m", Repo: &api.RepoTask{URL: "u", Overlap: "sometimes", Author: api.Identity{Name: "A", Email: "a@b"}}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a policy that is none: %v", err)
	}
}

// TestWaitingTaskSurvives: a task that waits still waits in the next daemon, and one that worked continues without waiting.
func TestWaitingTaskSurvives(t *testing.T) {
	db, dir := newRows(t)
	o := newOffice(t, db, dir)
	first := o.start(t, "", "", "a.go")
	<-o.at
	waits := o.start(t, api.OverlapWait, "", "a.go")
	o.overlap(t, waits.ID)
	next := newOffice(t, db, dir)
	if err := storetest.EndOthers(t.Context(), db, next.me); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Recover(t.Context(), func(api.OwnerID) bool { return true }); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if n := next.Resume(t.Context()); n != 2 {
		t.Fatalf("%d continue", n)
	}
	if got := <-next.at; got != first.ID {
		t.Errorf("%s continues", got)
	}
	if row, err := db.Task(t.Context(), waits.ID); err != nil || row.State != api.TaskPending {
		t.Errorf("%v: the other one is %s", err, row.State)
	}
	close(next.end(first.ID))
	if got := <-next.at; got != waits.ID {
		t.Errorf("%s begins", got)
	}
	close(next.end(waits.ID))
	if got, err := next.Wait(t.Context(), waits.ID); err != nil || got.Outcome != api.OutcomeVerified {
		t.Errorf("%v: %s", err, got.Outcome)
	}
}
