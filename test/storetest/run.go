package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newRun(t *testing.T, s store.Store, owner api.OwnerID, change func(*store.Run)) store.Run {
	t.Helper()
	r := store.Run{ID: string(api.NewTaskID()), Kind: "task", Owner: owner, Epoch: 1, Input: []byte(`{"a":1}`), CreatedAt: began}
	if change != nil {
		change(&r)
	}
	must(t, s.InsertRun(t.Context(), r))
	return r
}

func testRuns(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b := newOwner(t, s), newOwner(t, s)
	r := newRun(t, s, a, nil)
	have, err := s.Run(ctx, r.ID)
	if diff := cmp.Diff(r, have); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	_, err = s.Run(ctx, "t1")
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.InsertRun(ctx, r), api.KindExists)
	for _, bad := range []func(*store.Run){
		func(r *store.Run) { r.ID = "" }, func(r *store.Run) { r.Kind = "" },
		func(r *store.Run) { r.Owner = "" }, func(r *store.Run) { r.CreatedAt = time.Time{} },
	} {
		other := store.Run{ID: "x", Kind: "task", Owner: a, CreatedAt: began}
		bad(&other)
		wantKind(t, s.InsertRun(ctx, other), api.KindInvalid)
	}
	wantKind(t, s.InsertRun(ctx, store.Run{ID: "x", Kind: "task", Owner: "o1", CreatedAt: began}), api.KindNotFound)
	wantKind(t, s.InsertRun(ctx, store.Run{ID: "x", Kind: "task", Owner: a, CreatedAt: began, Input: make([]byte, store.MaxRunInput+1)}), api.KindExhausted)

	newRun(t, s, a, func(r *store.Run) { r.Kind = "other" })
	mine := newRun(t, s, b, nil)
	later := newRun(t, s, a, nil)
	list := func(not api.OwnerID) (ids []string) {
		t.Helper()
		all, err := s.UnfinishedRuns(ctx, "task", not)
		must(t, err)
		for _, r := range all {
			ids = append(ids, r.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{r.ID, later.ID}, list(b)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{mine.ID}, list(a)); diff != "" {
		t.Error(diff)
	}

	// The first request to stop counts.
	must(t, s.CancelRun(ctx, r.ID, a, began.Add(time.Second)))
	must(t, s.CancelRun(ctx, r.ID, a, began.Add(time.Minute)))
	if have, err = s.Run(ctx, r.ID); err != nil || !have.CanceledAt.Equal(began.Add(time.Second)) {
		t.Error(err, have.CanceledAt)
	}
	wantKind(t, s.CancelRun(ctx, "t1", a, began), api.KindNotFound)
}

func testRunSteps(t *testing.T, s store.Store) {
	ctx := t.Context()
	a := newOwner(t, s)
	r := newRun(t, s, a, nil)
	step := store.RunStep{Name: "model 1", Asked: []byte("digest"), StartedAt: began.Add(time.Second)}
	begin := func(step store.RunStep, want int) {
		t.Helper()
		if try, err := s.BeginStep(ctx, r.ID, a, step); err != nil || try != want {
			t.Fatal(try, err)
		}
	}
	begin(step, 1)
	// Cut, it begins again.
	step.StartedAt = began.Add(2 * time.Second)
	begin(step, 2)
	other := step
	other.Asked = []byte("other")
	_, err := s.BeginStep(ctx, r.ID, a, other)
	wantKind(t, err, api.KindConflict)
	begin(store.RunStep{Name: "tool 1", StartedAt: began.Add(3 * time.Second)}, 1)
	step.EndedAt, step.Result = began.Add(4*time.Second), []byte("a\x00b")
	must(t, s.EndStep(ctx, r.ID, a, step))
	// Done, it is done once.
	wantKind(t, s.EndStep(ctx, r.ID, a, step), api.KindConflict)
	_, err = s.BeginStep(ctx, r.ID, a, step)
	wantKind(t, err, api.KindConflict)
	wantKind(t, s.EndStep(ctx, r.ID, a, store.RunStep{Name: "never begun", EndedAt: began}), api.KindConflict)
	wantKind(t, s.EndStep(ctx, r.ID, a, store.RunStep{Name: "tool 1"}), api.KindInvalid)
	for _, bad := range []store.RunStep{{StartedAt: began}, {Name: "x"}, {Name: "x", StartedAt: began, Asked: make([]byte, 65)},
		{Name: string(make([]byte, store.MaxStepName+1)), StartedAt: began}} {
		_, err := s.BeginStep(ctx, r.ID, a, bad)
		wantKind(t, err, api.KindInvalid)
	}
	wantKind(t, s.EndStep(ctx, r.ID, a, store.RunStep{Name: "tool 1", EndedAt: began, Result: make([]byte, store.MaxStepResult+1)}), api.KindExhausted)
	all, err := s.RunSteps(ctx, r.ID)
	must(t, err)
	step.Try, step.Done = 2, true
	want := []store.RunStep{step, {Name: "tool 1", Try: 1, StartedAt: began.Add(3 * time.Second)}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	testRewind(t, s, r.ID, a, want)
	// What exceeds the journal is refused and leaves it as it is.
	full := newRun(t, s, a, nil)
	n := 0
	for ; ; n++ {
		name := fmt.Sprint("s", n)
		_, err := s.BeginStep(ctx, full.ID, a, store.RunStep{Name: name, StartedAt: began})
		must(t, err)
		if err = s.EndStep(ctx, full.ID, a, store.RunStep{Name: name, EndedAt: began, Result: make([]byte, store.MaxStepResult)}); err != nil {
			wantKind(t, err, api.KindExhausted)
			break
		}
		if n > store.MaxRunBytes/store.MaxStepResult {
			t.Fatal("the journal has no end")
		}
	}
	must(t, s.EndStep(ctx, full.ID, a, store.RunStep{Name: fmt.Sprint("s", n), EndedAt: began, Result: []byte("short")}))
}

// testRewind: a step goes with what began after it, by its owner alone, and unless one of them is to stay.
func testRewind(t *testing.T, s store.Store, run string, owner api.OwnerID, was []store.RunStep) {
	t.Helper()
	ctx := t.Context()
	left := func(want ...store.RunStep) {
		t.Helper()
		all, err := s.RunSteps(ctx, run)
		if must(t, err); !cmp.Equal(want, all) {
			t.Error(cmp.Diff(want, all))
		}
	}
	begin := func(name string) store.RunStep {
		t.Helper()
		step := store.RunStep{Name: name, Try: 1, StartedAt: began.Add(5 * time.Second)}
		_, err := s.BeginStep(ctx, run, owner, step)
		must(t, err)
		return step
	}
	begin("round 2")
	begin("deliver")
	begin("model 2")
	wantKind(t, s.RewindRun(ctx, run, owner, "round 2", "deliver"), api.KindConflict)
	wantKind(t, s.RewindRun(ctx, run, api.NewOwnerID(), "round 2", ""), api.KindConflict)
	must(t, s.RewindRun(ctx, run, owner, "round 3", "deliver")) // it is not there
	must(t, s.RewindRun(ctx, run, owner, "model 2", "deliver"))
	must(t, s.RewindRun(ctx, run, owner, "round 2", ""))
	left(was...)
	must(t, s.RewindRun(ctx, run, owner, "tool 1", ""))
	left(was[:1]...)
	begin("tool 1") // it can be done again
	must(t, s.RewindRun(ctx, run, owner, was[0].Name, "deliver"))
	left()
	// What was removed does not count any more.
	for i := range 2*store.MaxRunBytes/store.MaxStepResult + 2 {
		step := begin(fmt.Sprint("s", i))
		step.EndedAt, step.Result = began.Add(6*time.Second), make([]byte, store.MaxStepResult)
		must(t, s.EndStep(ctx, run, owner, step))
		must(t, s.RewindRun(ctx, run, owner, step.Name, ""))
	}
}

// testRunOwners: what an owner may write of a run, before and after another one took it over.
func testRunOwners(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b, dead := newOwner(t, s), newOwner(t, s), newOwner(t, s)
	must(t, s.EndOwner(ctx, dead, began))
	r := newRun(t, s, a, nil)
	step := store.RunStep{Name: "x", StartedAt: began.Add(10 * time.Second), EndedAt: began.Add(20 * time.Second)}
	_, err := s.BeginStep(ctx, r.ID, b, step)
	wantKind(t, err, api.KindConflict)
	_, err = s.BeginStep(ctx, r.ID, a, step)
	must(t, err)
	_, err = s.TakeRun(ctx, r.ID, b, a, began.Add(time.Minute)) // not from b
	wantKind(t, err, api.KindConflict)
	_, err = s.TakeRun(ctx, r.ID, a, dead, began.Add(time.Minute))
	wantKind(t, err, api.KindConflict)
	_, err = s.TakeRun(ctx, "t1", a, b, began)
	wantKind(t, err, api.KindNotFound)
	have, err := s.TakeRun(ctx, r.ID, a, b, began.Add(time.Minute))
	must(t, err)
	if have.Owner != b || have.Epoch != 2 || have.Paused != 50*time.Second {
		t.Error(have.Owner, have.Epoch, have.Paused)
	}
	// The owner that was taken for dead can write nothing any more.
	wantKind(t, s.EndStep(ctx, r.ID, a, step), api.KindConflict)
	_, err = s.BeginStep(ctx, r.ID, a, store.RunStep{Name: "y", StartedAt: began})
	wantKind(t, err, api.KindConflict)
	_, err = s.EndRun(ctx, r.ID, a, store.RunEnd{At: began})
	wantKind(t, err, api.KindConflict)
	wantKind(t, s.CancelRun(ctx, r.ID, a, began), api.KindConflict)
	must(t, s.EndStep(ctx, r.ID, b, step))
	// The run's clock is 50 s behind, so at 2 m it is 70 s, 50 s after the last step.
	if have, err = s.TakeRun(ctx, r.ID, b, a, began.Add(2*time.Minute)); err != nil || have.Paused != 100*time.Second || have.Epoch != 3 {
		t.Error(err, have.Paused, have.Epoch)
	}
}

func testRunEnd(t *testing.T, s store.Store) {
	ctx := t.Context()
	a := newOwner(t, s)
	task := newTask(t, s, func(k *api.Task) { k.Owner = a })
	r := newRun(t, s, a, func(r *store.Run) { r.ID = string(task.ID) })
	_, err := s.BeginStep(ctx, r.ID, a, store.RunStep{Name: "x", StartedAt: began})
	must(t, err)
	stream := api.Stream{Kind: api.StreamTask, ID: r.ID}
	_, err = s.AppendEvent(ctx, stream, api.EventTaskStarted, began, nil)
	must(t, err)
	task.State, task.EndedAt, task.Outcome = api.TaskDone, began.Add(time.Second), api.OutcomeVerified
	end := store.RunEnd{At: began.Add(time.Second), Result: []byte("r"), Task: &task, Event: &api.Event{Stream: stream, At: began, Type: api.EventTaskFinished, Data: []byte(`{}`)}}

	// All of it or nothing: a task that does not exist keeps the run as it is.
	missing := end
	nobody := task
	nobody.ID = api.NewTaskID()
	missing.Task = &nobody
	_, err = s.EndRun(ctx, r.ID, a, missing)
	wantKind(t, err, api.KindNotFound)
	if steps, err := s.RunSteps(ctx, r.ID); err != nil || len(steps) != 1 {
		t.Error(err, steps)
	}
	_, err = s.EndRun(ctx, r.ID, a, store.RunEnd{})
	wantKind(t, err, api.KindInvalid)

	seq, err := s.EndRun(ctx, r.ID, a, end)
	if err != nil || seq != 2 {
		t.Fatal(seq, err)
	}
	_, err = s.EndRun(ctx, r.ID, a, end)
	wantKind(t, err, api.KindConflict)
	wantKind(t, s.CancelRun(ctx, r.ID, a, began), api.KindConflict)
	_, err = s.BeginStep(ctx, r.ID, a, store.RunStep{Name: "y", StartedAt: began})
	wantKind(t, err, api.KindConflict)
	have, err := s.Run(ctx, r.ID)
	if err != nil || string(have.Result) != "r" || !have.EndedAt.Equal(end.At) || len(have.Input) != 0 {
		t.Error(have, err)
	}
	steps, err := s.RunSteps(ctx, r.ID)
	if err != nil || len(steps) != 0 {
		t.Error(err, steps)
	}
	got, err := s.Task(ctx, task.ID)
	if err != nil || got.Outcome != api.OutcomeVerified {
		t.Error(err, got.Outcome)
	}
	events, err := s.ReadEvents(ctx, stream, 0, 10)
	if err != nil || len(events) != 2 || events[1].Type != api.EventTaskFinished {
		t.Error(err, events)
	}
	if all, err := s.UnfinishedRuns(ctx, "task", ""); err != nil || len(all) != 0 {
		t.Error(err, all)
	}
}
