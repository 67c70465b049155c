package task_test

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/repo"
)

// postman delivers when it is told to.
type postman struct {
	asked chan api.RepoTask
	give  chan api.RepoResult
}

func (p postman) Deliver(ctx context.Context, job repo.Job) (api.RepoResult, error) {
	if of := api.TaskOf(ctx); of != job.Task.ID {
		return *job.Task.Repo, api.Errorf(api.KindInternal, "the delivery of task %s is for task %q", job.Task.ID, of)
	}
	p.asked <- *job.Task.Create.Repo
	select {
	case r := <-p.give:
		return r, job.Save(ctx, r)
	case <-ctx.Done():
		return *job.Task.Repo, ctx.Err()
	}
}
func (postman) Run(context.Context, repo.Job) repo.End               { panic("nothing is to be run") }
func (postman) Salvage(_ context.Context, t api.Task) api.RepoResult { return *t.Repo }
func (postman) Adopt(context.Context, api.WorkspaceID, api.TaskID, api.TaskID) error {
	panic("nothing is to be adopted")
}
func (postman) Diff(context.Context, api.Task, int, string) (io.ReadCloser, error) {
	return nil, api.Errorf(api.KindNotFound, "no diff")
}
func (postman) Bundle(context.Context, api.Task, string) (io.ReadCloser, error) {
	return nil, api.Errorf(api.KindNotFound, "no bundle")
}

func verified(how api.RepoTask) api.Task {
	return api.Task{ID: api.NewTaskID(), State: api.TaskDone, Outcome: api.OutcomeVerified, Create: api.CreateTask{Repo: &how},
		Repo: &api.RepoResult{Commit: "c", Head: "h", Branch: "hortus/x"}}
}

// book keeps which tasks taught.
type book struct{ taught []api.Task }

func (*book) About(context.Context, string, string, string) ([]api.FoundLesson, error) {
	return nil, nil
}
func (b *book) Learn(_ context.Context, t api.Task, _ string) error {
	b.taught = append(b.taught, t)
	return nil
}

// TestApplied: a result that a person took is recorded, and taught once, without counting the lessons of its task again.
func TestApplied(t *testing.T) {
	learned := &book{}
	e, mem, _ := newEngine(t, func(c *task.Config) { c.Repositories, c.Lessons = postman{}, learned })
	row := verified(api.RepoTask{URL: "u"})
	row.Lessons = []string{"lesson"}
	open := verified(api.RepoTask{URL: "u"})
	open.Outcome = api.OutcomeNeedsHuman
	for _, r := range []api.Task{row, open} {
		if err := mem.InsertTask(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got, err := e.Applied(t.Context(), row.ID); err != nil || !got.Repo.Applied {
			t.Fatalf("%+v, %v", got.Repo, err)
		}
	}
	if _, err := e.Applied(t.Context(), open.ID); api.KindOf(err) != api.KindConflict {
		t.Errorf("a result that is not verified: %v", err)
	}
	if got, err := mem.Task(t.Context(), row.ID); err != nil || !got.Repo.Applied || len(got.Lessons) != 1 {
		t.Errorf("stored: %+v, %v", got, err)
	}
	if len(learned.taught) != 1 || len(learned.taught[0].Lessons) != 0 || !learned.taught[0].Repo.Taken() {
		t.Errorf("taught: %+v", learned.taught)
	}
}

func TestDeliverAsAsked(t *testing.T) {
	p := postman{make(chan api.RepoTask, 1), make(chan api.RepoResult, 1)}
	e, mem, _ := newEngine(t, func(c *task.Config) { c.Repositories = p })
	plain := api.RepoTask{URL: "u"}
	request := api.RepoTask{URL: "u", Push: true, MergeRequest: true, Remote: "r", Target: "t", Draft: true}
	for _, c := range []struct {
		had  api.RepoTask
		req  api.DeliverTask
		want api.RepoTask
		says string
	}{
		{had: request, want: request},
		{had: request, req: api.DeliverTask{Push: true}, want: api.RepoTask{URL: "u", Push: true, Remote: "r"}},
		{had: request, req: api.DeliverTask{Remote: "s", Target: "v"}, want: api.RepoTask{URL: "u", Push: true, MergeRequest: true, Remote: "s", Target: "v", Draft: true}},
		{had: plain, req: api.DeliverTask{MergeRequest: true, Draft: true}, want: api.RepoTask{URL: "u", Push: true, MergeRequest: true, Draft: true}},
		{had: plain, says: "has a delivery"},
		{had: plain, req: api.DeliverTask{Push: true, Draft: true}, says: "without a merge request"},
		{had: plain, req: api.DeliverTask{Push: true, Target: "x"}, says: "without a merge request"},
		{had: plain, req: api.DeliverTask{Remote: "x"}, says: "without a push"},
		{had: plain, req: api.DeliverTask{Push: true, Remote: strings.Repeat("x", 5000)}, says: "too long"},
	} {
		row := verified(c.had)
		if err := mem.InsertTask(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		p.give <- api.RepoResult{Head: "h", Delivery: &api.Delivery{Pushed: "p"}}
		got, err := e.Deliver(t.Context(), row.ID, c.req)
		if c.says != "" {
			<-p.give
			if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v, want %q", c.req, err, c.says)
			}
			continue
		}
		if how := <-p.asked; err != nil || !reflect.DeepEqual(how, c.want) {
			t.Errorf("%+v: %v, %+v, want %+v", c.req, err, how, c.want)
		}
		stored, _ := mem.Task(t.Context(), row.ID)
		// The request of the task stays what it was.
		if !reflect.DeepEqual(stored, got) || stored.Repo.Delivery.Pushed != "p" || !reflect.DeepEqual(*stored.Create.Repo, c.had) || stored.Outcome != api.OutcomeVerified {
			t.Errorf("%+v: stored %+v", c.req, stored)
		}
	}
}

func TestDeliverOnlyVerified(t *testing.T) {
	e, mem, _ := newEngine(t, func(c *task.Config) { c.Repositories = postman{} })
	how := api.RepoTask{URL: "u", Push: true}
	for name, change := range map[string]func(*api.Task){
		"running":      func(t *api.Task) { t.State, t.Outcome = api.TaskRunning, "" },
		"failed":       func(t *api.Task) { t.Outcome = api.OutcomeFailed },
		"not verified": func(t *api.Task) { t.Outcome = api.OutcomeNeedsHuman },
		"canceled":     func(t *api.Task) { t.Outcome = api.OutcomeCanceled },
		"lost":         func(t *api.Task) { t.Outcome = api.OutcomeLost },
		"no result":    func(t *api.Task) { t.Repo = nil },
		"no commit":    func(t *api.Task) { t.Repo = &api.RepoResult{} },
		"a program":    func(t *api.Task) { t.Create.Repo = nil },
	} {
		row := verified(how)
		change(&row)
		if err := mem.InsertTask(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Deliver(t.Context(), row.ID, api.DeliverTask{Push: true}); api.KindOf(err) != api.KindConflict || api.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Deliver(t.Context(), api.NewTaskID(), api.DeliverTask{}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("no such task: %v", err)
	}
}

// One delivery of a task at a time; Close ends it and waits for it.
func TestDeliverAloneAndClosed(t *testing.T) {
	p := postman{make(chan api.RepoTask), make(chan api.RepoResult)}
	e, mem, _ := newEngine(t, func(c *task.Config) { c.Repositories = p })
	row := verified(api.RepoTask{URL: "u", Push: true})
	if err := mem.InsertTask(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := e.Deliver(context.WithoutCancel(t.Context()), row.ID, api.DeliverTask{})
		ended <- err
	}()
	<-p.asked
	if _, err := e.Deliver(t.Context(), row.ID, api.DeliverTask{}); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second one: %v", err)
	}
	if n := e.Running(); n != 1 {
		t.Errorf("%d are running", n)
	}
	if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	if _, err := e.Deliver(t.Context(), row.ID, api.DeliverTask{}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("after the end: %v", err)
	}
	if n := e.Running(); n != 0 {
		t.Errorf("%d are running", n)
	}
}
