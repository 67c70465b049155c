package database

import (
	"fmt"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// TestLease follows a sandbox with an exec and a task with an attempt from one
// owner to the next.
func TestLease(t *testing.T) {
	db, ctx := newTest(t), t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	first, second := api.NewOwnerID(), api.NewOwnerID()
	check(db.InsertOwner(ctx, store.Owner{ID: first, Host: "one", StartedAt: now}))
	check(db.InsertOwner(ctx, store.Owner{ID: second, Host: "two", StartedAt: now}))
	k := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, Owner: first, CreatedAt: now}
	b := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Owner: first, Task: k.ID, CreatedAt: now}
	check(db.InsertTask(ctx, k))
	check(db.PutAttempt(ctx, k.ID, api.Attempt{N: 1}))
	check(db.InsertSandbox(ctx, b))
	check(db.InsertExec(ctx, api.Exec{ID: api.NewExecID(), Sandbox: b.ID, State: api.ExecRunning, StartedAt: now}))

	want := func(owner api.OwnerID, host string, epoch int) {
		t.Helper()
		for _, table := range []string{"sandbox", "exec", "task", "attempt"} {
			var o, h string
			var n int
			check(db.read.QueryRow("SELECT owner, host, lease_epoch FROM "+table).Scan(&o, &h, &n))
			if got, want := fmt.Sprint(o, h, n), fmt.Sprint(owner, host, epoch); got != want {
				t.Errorf("%s belongs to %s, want %s", table, got, want)
			}
		}
	}
	want(first, "one", 1)
	check(db.UpdateSandbox(ctx, b))
	check(db.UpdateTask(ctx, k))
	want(first, "one", 1)
	b.Owner, k.Owner = second, second
	for what, err := range map[string]error{"sandbox": db.UpdateSandbox(ctx, b), "task": db.UpdateTask(ctx, k)} {
		if api.KindOf(err) != api.KindConflict {
			t.Errorf("a %s of a living owner is changed by another one: %v", what, err)
		}
	}
	want(first, "one", 1)
	check(db.EndOwner(ctx, first, now))
	check(db.UpdateSandbox(ctx, b))
	check(db.UpdateTask(ctx, k))
	want(second, "two", 2)
	check(db.PutAttempt(ctx, k.ID, api.Attempt{N: 1, EndedAt: now}))
	want(second, "two", 2)
}

func TestEventParent(t *testing.T) {
	db, ctx := newTest(t), t.Context()
	b := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Task: api.NewTaskID(), CreatedAt: time.Now()}
	if err := db.InsertSandbox(ctx, b); err != nil {
		t.Fatal(err)
	}
	for _, s := range []api.Stream{{Kind: api.StreamSandbox, ID: string(b.ID)}, {Kind: api.StreamTask, ID: string(b.ID)}} {
		if _, err := db.AppendEvent(ctx, s, api.EventSandboxState, time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		var parent string
		if err := db.read.QueryRow(`SELECT coalesce(parent, '') FROM event WHERE stream_kind = ?`, string(s.Kind)).Scan(&parent); err != nil {
			t.Fatal(err)
		}
		if want := map[api.StreamKind]string{api.StreamSandbox: string(b.Task)}[s.Kind]; parent != want {
			t.Errorf("%s: parent %q, want %q", s.Kind, parent, want)
		}
	}
}
