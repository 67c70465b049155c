package secret_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/test/patience"
)

func limited(budgets ...string) secrets.Set {
	req := stored(canary + "-of-a-model")
	req.Bindings[0].Model = secrets.OpenAI
	for _, text := range budgets {
		b, err := secrets.ParseBudget(text)
		if err != nil {
			panic(err)
		}
		req.Budgets = append(req.Budgets, b)
	}
	return req
}

func spender(task string) secrets.Spender {
	return secrets.Spender{Account: "a", Secret: "token", Task: task}
}

func tokens(n int64) secrets.Amounts {
	return secrets.Amounts{Requests: 1, Tokens: n, MicroUSD: 10 * n}
}

// usedUp requires that a request is refused.
func (f *fixture) usedUp(t *testing.T, task, budget string) {
	t.Helper()
	_, err := f.Reserve(t.Context(), spender(task), tokens(1))
	var over *secrets.Exhausted
	if !errors.As(err, &over) || over.Busy || over.Budget.String() != budget {
		t.Errorf("%v, want that %s is used up", err, budget)
	}
}

func (f *fixture) uses(t *testing.T, task string, most, used int64) {
	t.Helper()
	charge, err := f.Reserve(t.Context(), spender(task), tokens(most))
	if err != nil {
		t.Fatal(err)
	}
	charge(tokens(used))
}

func TestBudget(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, "token", limited("100tokens", "250tokens/day", "0.01usd/total"))
	f.uses(t, "t1", 1000, 60) // the estimate was too high
	f.uses(t, "t1", 10, 60)   // and too low
	f.usedUp(t, "t1", "100tokens/task")
	f.uses(t, "t2", 130, 130)
	f.usedUp(t, "t3", "250tokens/day")
	f.clock.Advance(24 * time.Hour)
	f.usedUp(t, "t1", "100tokens/task")
	f.uses(t, "t3", 99, 99)
	row, err := f.Get(t.Context(), "a", "token")
	if err != nil || row.Spent == nil || row.Spent.Today != (secrets.Amounts{Requests: 1, Tokens: 99, MicroUSD: 990}) ||
		row.Spent.Total != (secrets.Amounts{Requests: 4, Tokens: 349, MicroUSD: 3490}) || row.Spent.Tasks[0].Task != "t2" || len(row.Spent.Tasks) != 3 {
		t.Fatalf("%+v, %v", row.Spent, err)
	}
	// A value, or other budgets, do not forget what was used; a reset does.
	f.set(t, "token", limited("300tokens/total"))
	f.usedUp(t, "t9", "300tokens/total")
	again := limited("300tokens/total")
	again.ResetBudget = true
	f.set(t, "token", again)
	f.uses(t, "t9", 1, 1)
	if row, err := f.Get(t.Context(), "a", "token"); err != nil || row.Spent.Total.Tokens != 1 || !slices.Equal(row.Budgets, again.Budgets) {
		t.Errorf("%+v, %v", row, err)
	}
	// Without budgets nothing is counted.
	f.set(t, "token", stored(canary+"-without"))
	f.uses(t, "t9", 1000, 1000)
	if row, err := f.Get(t.Context(), "a", "token"); err != nil || row.Spent != nil || row.Budgets != nil {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := f.Reserve(t.Context(), secrets.Spender{Account: "b", Secret: "token", Task: "t"}, tokens(1)); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another account: %v", err)
	}
}

// TestBudgetAtOnce has many requests at once: no more begin than the budget has, and all others are
// refused at once.
func TestBudgetAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, "token", limited("10requests"))
	var passed, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			charge, err := f.Reserve(t.Context(), spender("t"), tokens(5))
			var over *secrets.Exhausted
			switch {
			case err == nil:
				passed.Add(1)
				charge(tokens(1))
			case errors.As(err, &over) && !over.Busy:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 10 || refused.Load() != 40 {
		t.Errorf("%d passed, %d were refused", passed.Load(), refused.Load())
	}
}

// TestBudgetWaits: a request waits for what others only reserved, goes on if something is left, and
// is refused if nothing is.
func TestBudgetWaits(t *testing.T) {
	for _, c := range []struct {
		what string
		used int64
		goes bool
	}{{"less than it reserved", 10, true}, {"all of the budget", 100, false}} {
		f := newFixture(t, nil)
		f.set(t, "token", limited("100tokens"))
		charge, err := f.Reserve(t.Context(), spender("t"), tokens(500))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			charge, err := f.Reserve(t.Context(), spender("t"), tokens(1))
			if err == nil {
				charge(tokens(1))
			}
			done <- err
		}()
		// Another task does not wait.
		f.uses(t, "other", 500, 1)
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		charge(tokens(c.used))
		select {
		case err = <-done:
		case <-time.After(patience.Of(20 * time.Second)):
			t.Fatal("it waits for ever")
		}
		var over *secrets.Exhausted
		if (err == nil) != c.goes || err != nil && (!errors.As(err, &over) || over.Busy) {
			t.Errorf("after the other used %s: %v", c.what, err)
		}
	}
}

func TestBudgetWaitEnds(t *testing.T) {
	f := newFixture(t, func(c *secret.Config) { c.BudgetWait = time.Millisecond })
	f.set(t, "token", limited("100tokens"))
	charge, err := f.Reserve(t.Context(), spender("t"), tokens(500))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Reserve(t.Context(), spender("t"), tokens(1))
	var over *secrets.Exhausted
	if !errors.As(err, &over) || !over.Busy {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Reserve(ctx, spender("t"), tokens(1)); err == nil {
		t.Error("a request that was given up")
	}
	charge(tokens(1))
	f.uses(t, "t", 1, 1)
}

// TestBudgetAfterCrash: what was reserved and never charged is counted, by a daemon that starts
// later too.
func TestBudgetAfterCrash(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, "token", limited("100tokens"))
	if _, err := f.Reserve(t.Context(), spender("t"), tokens(500)); err != nil {
		t.Fatal(err)
	}
	// It knows nothing of requests that run.
	next := &fixture{Secrets: secret.New(secret.Config{Rows: f.rows, Now: f.clock.Now}), clock: f.clock}
	defer func() {
		if err := next.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	next.usedUp(t, "t", "100tokens/task")
	next.uses(t, "another", 1, 1)
}
