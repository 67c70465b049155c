package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testHookEvents: of requests with one cause the first one is stored, whoever else tries at the same time; a state never goes back; old
// ones and many refused ones are removed, and all of them with their repository.
func testHookEvents(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRepository(t, s, nil)
	other := newRepository(t, s, nil)
	old := began.Add(-time.Hour)
	row := func(cause string, state api.HookEventState, at time.Time) api.HookEvent {
		return api.HookEvent{Repository: r.ID, Cause: cause, State: state, At: at, Sender: "mae", Issue: 7}
	}
	insert := func(e api.HookEvent) error { return s.InsertHookEvent(ctx, e, old, 2) }
	first := row("comment 1", api.HookStarting, began)
	first.Task = api.NewTaskID()
	must(t, insert(first))
	wantKind(t, insert(first), api.KindExists)
	elsewhere := first
	elsewhere.Repository = other.ID
	must(t, insert(elsewhere)) // the control: the cause is one of a repository
	elsewhere.Repository = api.NewRepositoryID()
	wantKind(t, insert(elsewhere), api.KindNotFound)
	wantKind(t, insert(api.HookEvent{Repository: r.ID, State: api.HookRefused, At: began}), api.KindInvalid)

	got, err := s.HookEvent(ctx, r.ID, "comment 1")
	must(t, err)
	if diff := cmp.Diff(first, got); diff != "" {
		t.Error(diff)
	}
	_, err = s.HookEvent(ctx, r.ID, "comment 2")
	wantKind(t, err, api.KindNotFound)

	first.State, first.Told = api.HookStarted, 1
	must(t, s.UpdateHookEvent(ctx, first))
	open, err := s.OpenHookEvents(ctx)
	must(t, err)
	if len(open) != 2 {
		t.Errorf("open: %+v", open)
	}
	first.State, first.Outcome = api.HookEnded, api.OutcomeVerified
	must(t, s.UpdateHookEvent(ctx, first))
	first.State = api.HookStarted
	wantKind(t, s.UpdateHookEvent(ctx, first), api.KindConflict)
	wantKind(t, s.UpdateHookEvent(ctx, row("comment 2", api.HookRefused, began)), api.KindNotFound)

	// Refused ones: the newest two stay. One from before the time goes, unless its task runs.
	must(t, insert(row("old", api.HookEnded, old.Add(-time.Second))))
	must(t, insert(row("old and open", api.HookStarted, old.Add(-time.Second))))
	for i := range 4 {
		must(t, insert(row(fmt.Sprint("refused ", i), api.HookRefused, began.Add(time.Duration(i)*time.Second))))
	}
	all, err := s.HookEventsOf(ctx, r.ID, time.Time{}, 0)
	must(t, err)
	var causes []string
	for _, e := range all {
		causes = append(causes, e.Cause)
	}
	if diff := cmp.Diff([]string{"refused 3", "refused 2", "comment 1", "old and open"}, causes); diff != "" {
		t.Error(diff)
	}
	if some, err := s.HookEventsOf(ctx, r.ID, began.Add(time.Second), 1); err != nil || len(some) != 1 || some[0].Cause != "refused 3" {
		t.Errorf("%+v, %v", some, err)
	}

	// Of those for the budget of a day, the first one stays too, however many follow.
	for i := range 4 {
		e := row(fmt.Sprint("over ", i), api.HookRefused, began.Add(time.Duration(10+i)*time.Second))
		e.OverBudget = true
		must(t, insert(e))
	}
	some, err := s.HookEventsOf(ctx, r.ID, began.Add(time.Second), 0)
	must(t, err)
	causes = nil
	for _, e := range some {
		causes = append(causes, e.Cause)
	}
	if diff := cmp.Diff([]string{"over 3", "over 2", "over 0"}, causes); diff != "" {
		t.Error(diff)
	}

	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if insert(row("at once", api.HookStarting, began)) == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 8 inserts of one cause succeeded", won.Load())
	}

	r.State = api.RepositoryRemoved
	must(t, replaceRepository(ctx, s, r))
	_, err = s.Prune(ctx, store.Retention{Rows: 1, Execs: 1, Decisions: 1, Bytes: 1 << 40, Before: began.Add(365 * 24 * time.Hour)})
	must(t, err)
	if all, err = s.HookEventsOf(ctx, r.ID, time.Time{}, 0); err != nil || len(all) != 0 {
		t.Errorf("events without a repository: %+v, %v", all, err)
	}
}
