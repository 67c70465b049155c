package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
)

// budgeted stores a secret of account a with budgets.
func budgeted(t *testing.T, s store.Store, name string, budgets ...secrets.Budget) {
	t.Helper()
	row := newSecret("a", name)
	row.Budgets = budgets
	if got := putSecret(t, s, row, "long-value"); !slices.Equal(got.Budgets, budgets) {
		t.Errorf("%s has the budgets %v", name, got.Budgets)
	}
}

func reserve(t *testing.T, s store.Store, by secrets.Spender, a secrets.Amounts) *secrets.Exhausted {
	t.Helper()
	over, err := s.ReserveSecret(t.Context(), by, a)
	must(t, err)
	return over
}

func spent(t *testing.T, s store.Store, name string, at time.Time) secrets.Spent {
	t.Helper()
	got, err := s.SecretSpent(t.Context(), "a", name, at, 2)
	must(t, err)
	return got
}

func testSecretBudgets(t *testing.T, s store.Store) {
	ctx := t.Context()
	task := secrets.Budget{Amount: 10, Unit: secrets.Requests, Per: secrets.PerTask}
	day := secrets.Budget{Amount: 100, Unit: secrets.Tokens, Per: secrets.PerDay}
	total := secrets.Budget{Amount: 0.5, Unit: secrets.USD, Per: secrets.PerTotal}
	budgeted(t, s, "token", task, day, total)
	by := func(task string, at time.Time) secrets.Spender {
		return secrets.Spender{Account: "a", Secret: "token", Task: task, At: at}
	}
	next := began.Add(24 * time.Hour)
	one := secrets.Amounts{Requests: 1, Tokens: 60, MicroUSD: 100_000}
	if over := reserve(t, s, by("t1", began), one); over != nil {
		t.Fatal(over)
	}
	// Something is left, so the next one is counted; then nothing is.
	if over := reserve(t, s, by("t2", began), one); over != nil {
		t.Fatal(over)
	}
	if over := reserve(t, s, by("t3", began), one); over == nil || over.Budget != day || over.Used != 120 {
		t.Errorf("%+v", over)
	}
	// Less was used than reserved.
	must(t, s.SettleSecret(ctx, by("t2", began), secrets.Amounts{Tokens: -30, MicroUSD: 50_000}))
	if over := reserve(t, s, by("t3", began), one); over != nil {
		t.Error(over)
	}
	// Another day. The money is for all days.
	if over := reserve(t, s, by("t1", next), secrets.Amounts{Requests: 9, MicroUSD: 150_000}); over != nil {
		t.Error(over)
	}
	if over := reserve(t, s, by("t9", next), one); over == nil || over.Budget != total || over.Used != 500_000 {
		t.Errorf("%+v", over)
	}
	budgeted(t, s, "token", task, day) // what was used is kept
	if over := reserve(t, s, by("t1", next), one); over == nil || over.Budget != task || over.Used != 10 {
		t.Errorf("%+v", over)
	}
	want := secrets.Spent{
		Today: secrets.Amounts{Requests: 9, MicroUSD: 150_000}, Total: secrets.Amounts{Requests: 12, Tokens: 150, MicroUSD: 500_000},
		Tasks: []secrets.TaskSpent{
			{Task: "t1", At: next, Amounts: secrets.Amounts{Requests: 10, Tokens: 60, MicroUSD: 250_000}},
			{Task: "t2", At: began, Amounts: secrets.Amounts{Requests: 1, Tokens: 30, MicroUSD: 150_000}},
		},
	}
	if got := spent(t, s, "token", next); got.Today != want.Today || got.Total != want.Total || !slices.Equal(got.Tasks, want.Tasks) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// No sum gets below 0, and what was never reserved is not settled.
	must(t, s.SettleSecret(ctx, by("t1", next), secrets.Amounts{Tokens: -1000, MicroUSD: -1}))
	must(t, s.SettleSecret(ctx, by("nobody", began.Add(-72*time.Hour)), secrets.Amounts{}))
	if got := spent(t, s, "token", next); got.Total.Tokens != 0 || got.Today.Tokens != 0 || len(got.Tasks) != 2 {
		t.Errorf("%+v", got)
	}
	// A secret without budgets counts nothing; another account's and another secret's are apart.
	budgeted(t, s, "free")
	putSecret(t, s, newSecret("b", "token"), "long-value")
	for _, by := range []secrets.Spender{{Account: "a", Secret: "free", Task: "t1", At: began}, {Account: "b", Secret: "token", Task: "t1", At: began}} {
		if over := reserve(t, s, by, one); over != nil {
			t.Error(over)
		}
		got, err := s.SecretSpent(ctx, by.Account, by.Secret, began, 10)
		if must(t, err); got.Total != (secrets.Amounts{}) || len(got.Tasks) != 0 {
			t.Errorf("%+v of %+v", got, by)
		}
	}
	must(t, s.ResetSecretSpent(ctx, "b", "token"))
	must(t, s.ResetSecretSpent(ctx, "a", "unknown"))
	if got := spent(t, s, "token", next); got.Total.Requests != 12 {
		t.Errorf("another account's reset: %+v", got)
	}
	must(t, s.ResetSecretSpent(ctx, "a", "token"))
	if got := spent(t, s, "token", next); got.Total != (secrets.Amounts{}) || got.Tasks == nil || len(got.Tasks) != 0 {
		t.Errorf("after a reset: %+v", got)
	}
	must(t, s.SettleSecret(ctx, by("t1", next), one)) // it was reserved before
	if got := spent(t, s, "token", next); got.Total != (secrets.Amounts{}) {
		t.Errorf("settled after a reset: %+v", got)
	}
	// A secret that is removed takes it along.
	reserve(t, s, by("t1", next), one)
	_, err := s.RemoveSecret(ctx, "a", "token")
	must(t, err)
	_, err = s.ReserveSecret(ctx, by("t1", next), one)
	wantKind(t, err, api.KindNotFound)
	_, err = s.SecretSpent(ctx, "a", "token", next, 1)
	wantKind(t, err, api.KindNotFound)
	must(t, s.SettleSecret(ctx, by("t1", next), one))
	budgeted(t, s, "token", task)
	if got := spent(t, s, "token", next); got.Total != (secrets.Amounts{}) {
		t.Errorf("of a new secret: %+v", got)
	}
	for _, bad := range []secrets.Spender{{Account: "a", Task: "t", At: began}, {Account: "a", Secret: "token", At: began}, {Account: "a", Secret: "token", Task: "t"}} {
		_, err := s.ReserveSecret(ctx, bad, one)
		wantKind(t, err, api.KindInvalid)
		wantKind(t, s.SettleSecret(ctx, bad, one), api.KindInvalid)
	}
	_, err = s.ReserveSecret(ctx, by("t1", next), secrets.Amounts{Requests: 1, Tokens: -1})
	wantKind(t, err, api.KindInvalid)
}

// testSecretBudgetsConcurrent has more requests at once than a budget has.
func testSecretBudgetsConcurrent(t *testing.T, s store.Store) {
	budgeted(t, s, "token", secrets.Budget{Amount: 10, Unit: secrets.Requests, Per: secrets.PerTotal})
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			over, err := s.ReserveSecret(t.Context(), secrets.Spender{Account: "a", Secret: "token", Task: fmt.Sprint(i), At: began}, secrets.Amounts{Requests: 1})
			if err != nil {
				t.Error(err)
			}
			if over == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n != 10 {
		t.Errorf("%d requests passed", n)
	}
}

func testPruneSecretSpent(t *testing.T, s store.Store) {
	const much = 1 << 40
	budgeted(t, s, "token", secrets.Budget{Amount: 1000, Unit: secrets.Requests, Per: secrets.PerTotal})
	ended := newSandbox(t, s, nil)
	ended.State, ended.EndedAt = api.SandboxEnded, began.Add(time.Minute)
	must(t, s.UpdateSandbox(t.Context(), ended))
	alive := newSandbox(t, s, nil)
	child := newSandbox(t, s, func(b *api.Sandbox) { b.Lineage = "iroot" })
	running := newTask(t, s, nil)
	old := []string{string(ended.ID), string(alive.ID), string(child.Lineage), string(running.ID), "removed"}
	for i, task := range old {
		reserve(t, s, secrets.Spender{Account: "a", Secret: "token", Task: task, At: began.Add(time.Duration(i) * time.Second)}, secrets.Amounts{Requests: 1})
	}
	later := began.Add(40 * 24 * time.Hour)
	reserve(t, s, secrets.Spender{Account: "a", Secret: "token", Task: "later", At: later}, secrets.Amounts{Requests: 1})
	tasks := func() (names []string) {
		got, err := s.SecretSpent(t.Context(), "a", "token", began, 100)
		must(t, err)
		if got.Total.Requests != 6 {
			t.Errorf("the total is %+v", got.Total)
		}
		for _, task := range got.Tasks {
			names = append(names, task.Task)
		}
		slices.Sort(names)
		return names
	}
	keep := func(change func(*store.Retention)) store.Pruned {
		t.Helper()
		k := store.Retention{Rows: 100, Execs: 100, Decisions: 100, Bytes: much}
		change(&k)
		done, err := s.Prune(t.Context(), k)
		must(t, err)
		return done
	}
	if done := keep(func(k *store.Retention) { k.Before = began.Add(-time.Hour) }); done != (store.Pruned{}) || len(tasks()) != 6 {
		t.Errorf("%+v, %q", done, tasks())
	}
	// What is alive keeps what it used: it would have its budget anew.
	if done := keep(func(k *store.Retention) { k.Before = began.Add(time.Hour) }); done.Spent != 3 {
		t.Errorf("%+v", done)
	}
	want := []string{string(alive.ID), "iroot", string(running.ID), "later"}
	slices.Sort(want)
	if got := tasks(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if done := keep(func(k *store.Retention) { k.Decisions = 1 }); done.Spent != 1 {
		t.Errorf("beyond a number of rows: %+v", done)
	}
}
