package durable_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"hortus.dev/internal/task/durable"
)

// TestParts: the steps of parts are recorded apart, also if their names are the same, and each has a clock of its own.
func TestParts(t *testing.T) {
	var mu sync.Mutex
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); at = at.Add(time.Second); return at }
	db, run := newRun(t, now)
	step := func(r *durable.Run, name, result string, did *int) string {
		got, err := durable.Do(t.Context(), r, name, nil, func(context.Context, durable.Try) (string, error) { *did++; return result, nil })
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
	run.OnLive(func() { live++ })
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
	var none *durable.Run
	if none.Part("x") != nil {
		t.Error("no run has a part")
	}
}
