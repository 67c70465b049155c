package journal_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
)

// TestParts: the steps of parts are recorded apart, also if their names are the same, and each has a clock of its own.
func TestParts(t *testing.T) {
	var mu sync.Mutex
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); at = at.Add(time.Second); return at }
	db, run := newRun(t, now)
	step := func(r *journal.Run, name, result string, did *int) string {
		got, err := journal.Do(t.Context(), r, name, nil, func(context.Context, journal.Try) (string, error) { *did++; return result, nil })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	did := 0
	step(run, "one", "1", &did)
	a, b := run.Part("a"), run.Part("b")
	if !a.Now().Equal(run.Now()) {
		t.Error("a part does not begin at the time of its run")
	}
	began := a.Now()
	step(a, "one", "a1", &did)
	ended := a.Now()
	if !ended.After(began) || !b.Now().Equal(began) {
		t.Errorf("the clocks are %s and %s", a.Now(), b.Now())
	}
	step(b, "one", "b1", &did)
	if did != 3 {
		t.Fatalf("%d steps were executed", did)
	}

	run = next(t, db, now)
	live := 0
	run.OnStart(func() { live++ })
	did = 0
	step(run, "one", "-", &did)
	// In another order than before: it changes nothing.
	b, a = run.Part("b"), run.Part("a")
	if got := step(b, "one", "-", &did) + step(a, "one", "-", &did); got != "b1a1" || did != 0 || live != 0 {
		t.Errorf("%s, %d steps were executed", got, did)
	}
	if !a.Remembers() || !a.Now().Equal(ended) {
		t.Errorf("the clock of a is %s, was %s", a.Now(), ended)
	}
	step(a, "two", "a2", &did)
	if did != 1 || live != 1 || a.Remembers() || !b.Remembers() || run.Remembers() {
		t.Errorf("%d steps, live %d, a %t, b %t, run %t", did, live, a.Remembers(), b.Remembers(), run.Remembers())
	}
}

// TestPartsOfParts: a part has parts too, and who waits for one continues at its time, also when all is remembered.
func TestPartsOfParts(t *testing.T) {
	var mu sync.Mutex
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); at = at.Add(time.Second); return at }
	db, run := newRun(t, now)
	work := func(run *journal.Run) (results string, did int, end time.Time) {
		step := func(r *journal.Run, name, result string) {
			got, err := journal.Do(t.Context(), r, name, nil, func(context.Context, journal.Try) (string, error) { did++; return result, nil })
			if err != nil {
				t.Fatal(err)
			}
			results += got
		}
		outer := run.Part("a")
		inner := outer.Part("b")
		step(outer, "one", "outer ")
		before := outer.Now()
		step(inner, "one", "inner ")
		if !outer.Now().Equal(before) {
			t.Error("a part moved the clock of another one")
		}
		outer.Join(inner)
		if !outer.Now().Equal(inner.Now()) || !inner.Now().After(before) {
			t.Errorf("the clocks are %s and %s", outer.Now(), inner.Now())
		}
		step(run, "b/one", "run") // the name of a step of the inner one, in the outer one
		return results, did, outer.Now()
	}
	first, did, end := work(run)
	if first != "outer inner run" || did != 3 {
		t.Fatalf("%q, %d steps", first, did)
	}
	if again, did, then := work(next(t, db, now)); again != first || did != 0 || !then.Equal(end) {
		t.Errorf("%q, %d steps, at %s instead of %s", again, did, then, end)
	}
}

// TestCounts: events are counted apart for the task, each candidate and each sub-agent. The name of another agent is no part.
func TestCounts(t *testing.T) {
	told := &journal.Counts{}
	for _, data := range []string{`{}`, `{"agent":"codex"}`, `{"agent":"research 1"}`, `{"candidate":2}`, `{"candidate":2,"agent":"research 1"}`, `{"candidate":2,"agent":"research 1"}`, `no JSON`} {
		told.Add(api.Event{Type: api.EventTool, Data: []byte(data)})
	}
	second := told.Of(journal.CandidatePart(2))
	for name, c := range map[string]struct {
		told *journal.Counts
		want int
	}{
		"task": {told, 3}, "sub-agent": {told.Of("research 1"), 1}, "candidate": {second, 1}, "its sub-agent": {second.Of("research 1"), 2},
		"another candidate": {told.Of(journal.CandidatePart(1)), 0}, "another sub-agent": {second.Of("research 2"), 0}, "nothing": {nil, 0},
	} {
		if got := c.told.Count(api.EventTool); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if told.Count(api.EventSay) != 0 {
		t.Error("an event of another type was counted")
	}
}
