package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testPrune(t *testing.T, s store.Store) {
	ctx := t.Context()
	minute := func(i int) time.Time { return began.Add(time.Duration(i) * time.Minute) }
	ended := map[string][]api.SandboxID{}
	var live []api.SandboxID
	var commands []api.ExecID
	for i := range 10 {
		for _, account := range []string{"", "a"} {
			b := newSandbox(t, s, func(b *api.Sandbox) {
				b.Account, b.CreatedAt, b.EndedAt, b.State = account, began, minute(i), api.SandboxEnded
				if i == 3 {
					b.State, b.EndedAt = api.SandboxLost, time.Time{} // its end is its beginning
				}
			})
			ended[account] = append(ended[account], b.ID)
			newExec(t, s, func(e *api.Exec) { e.Sandbox, e.State, e.EndedAt = b.ID, api.ExecExited, minute(i) })
			_, err := s.AppendEvent(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(b.ID)}, api.EventSandboxState, began, nil)
			must(t, err)
		}
		b := newSandbox(t, s, func(b *api.Sandbox) { b.Account, b.CreatedAt = "a", began.Add(-time.Hour) })
		live = append(live, b.ID)
		commands = append(commands, newExec(t, s, func(e *api.Exec) { e.Sandbox, e.StartedAt = b.ID, began.Add(-time.Hour) }).ID)
		newSnapshot(t, s, func(n *api.Snapshot) { n.State, n.EndedAt = api.SnapshotRemoved, minute(i) })
		newSnapshot(t, s, func(n *api.Snapshot) { n.CreatedAt = began.Add(-time.Hour) })
	}
	count := func(account string) int {
		live, err := s.SandboxesOf(ctx, account)
		must(t, err)
		return len(sandboxes(t, s, account)) - len(live)
	}
	const much = 1 << 40
	for i, c := range []struct {
		keep store.Retention
		want store.Pruned
		left int // ended sandboxes of account a
	}{
		{store.Retention{Rows: 10, Execs: 10, Decisions: 1, Bytes: much}, store.Pruned{}, 10},
		{store.Retention{Rows: 8, Execs: 100, Decisions: 1, Bytes: much}, store.Pruned{Sandboxes: 4, Execs: 4, Events: 4, Snapshots: 2}, 8},
		{store.Retention{Rows: 100, Execs: 6, Decisions: 1, Bytes: much}, store.Pruned{Execs: 4}, 8},
		{store.Retention{Rows: 100, Execs: 100, Decisions: 1, Bytes: much, Before: minute(5)}, store.Pruned{Sandboxes: 6, Execs: 2, Events: 6, Snapshots: 3}, 5},
		{store.Retention{Rows: 100, Execs: 100, Decisions: 1, Bytes: 1}, store.Pruned{Sandboxes: 10, Execs: 10, Events: 10, Snapshots: 5}, 0},
	} {
		got, err := s.Prune(ctx, c.keep)
		if must(t, err); got != c.want || count("a") != c.left {
			t.Errorf("%d: removed %+v, %d left; want %+v, %d", i, got, count("a"), c.want, c.left)
		}
		if i == 1 {
			// The first ones to end went: the one that was lost counts from its beginning.
			for j, id := range ended["a"] {
				_, err := s.Sandbox(ctx, id)
				if gone := api.KindOf(err) == api.KindNotFound; gone != (j == 0 || j == 3) {
					t.Errorf("the sandbox that ended in minute %d: %v", j, err)
				}
			}
			page, err := s.ReadEvents(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(ended["a"][0])}, 0, 10)
			if must(t, err); len(page) != 0 {
				t.Errorf("%d events of a sandbox that was removed", len(page))
			}
		}
	}
	// What has not ended stays, however old and large.
	for i, id := range live {
		_, err := s.Sandbox(ctx, id)
		must(t, err)
		_, err = s.Exec(ctx, commands[i])
		must(t, err)
	}
	ready, err := s.ListSnapshots(ctx, false)
	if must(t, err); len(ready) != 10 {
		t.Errorf("%d ready snapshots", len(ready))
	}
	for _, keep := range []store.Retention{{}, {Rows: 1, Execs: 1, Decisions: 1}, {Rows: -1, Execs: 1, Decisions: 1, Bytes: 1}, {Rows: 1, Execs: 1, Bytes: 1}} {
		_, err := s.Prune(ctx, keep)
		wantKind(t, err, api.KindInvalid)
	}
}

// More rows than one transaction removes, and a bound in bytes that leaves some.
func testPruneMany(t *testing.T, s store.Store) {
	for i := range 450 {
		newSandbox(t, s, func(b *api.Sandbox) {
			b.State, b.Account, b.EndedAt, b.Reason = api.SandboxEnded, fmt.Sprint("account-", i%2), began, strings.Repeat("x", 10<<10)
		})
	}
	got, err := s.Prune(t.Context(), store.Retention{Rows: 1000, Execs: 1000, Decisions: 1, Bytes: 110 << 10})
	must(t, err)
	if all := sandboxes(t, s, "account-1"); len(all) != 10 || got.Sandboxes != 430 {
		t.Errorf("removed %+v, %d left", got, len(all))
	}
}

func testPruneTasks(t *testing.T, s store.Store) {
	ctx := t.Context()
	var ids []api.TaskID
	for i := range 50 {
		k := newTask(t, s, func(k *api.Task) {
			k.State, k.CreatedAt, k.EndedAt = api.TaskDone, began.Add(time.Duration(i)*time.Hour), began.Add(time.Duration(i+1)*time.Hour)
			k.Account = []string{"", "a"}[i%2]
		})
		must(t, s.PutAttempt(ctx, k.ID, api.Attempt{N: 1, StartedAt: began}))
		_, err := s.AppendEvent(ctx, api.Stream{Kind: api.StreamTask, ID: string(k.ID)}, api.EventTaskStarted, began, []byte(`{}`))
		must(t, err)
		ids = append(ids, k.ID)
	}
	running := newTask(t, s, func(k *api.Task) { k.CreatedAt = began.Add(-time.Hour) })
	newWorkspace(t, s, func(w *api.Workspace) { w.Task = ids[0] }) // its result is there still
	fold := func(sums []byte, k api.Task) ([]byte, error) {
		if len(k.Attempts) != 1 {
			t.Errorf("task %s has %d attempts", k.ID, len(k.Attempts))
		}
		return append(sums, '.'), nil
	}
	counted := func(account string, since time.Time) (n int) {
		must(t, s.WalkTallies(ctx, account, since, func(sums []byte) error { n += len(sums); return nil }))
		return n
	}
	const much = 1 << 40
	done, err := s.PruneTasks(ctx, store.Retention{Rows: 5, Bytes: much}, fold)
	if must(t, err); done != (store.Pruned{Tasks: 39, Events: 39}) {
		t.Errorf("removed %+v", done)
	}
	for i, id := range ids {
		_, err := s.Task(ctx, id)
		if gone := api.KindOf(err) == api.KindNotFound; gone != (i > 0 && i < 40) {
			t.Errorf("task %d: %v", i, err)
		}
	}
	_, err = s.Task(ctx, running.ID)
	must(t, err)
	if all, a := counted("", time.Time{}), counted("a", time.Time{}); all != 39 || a != 20 {
		t.Errorf("%d are counted, %d of an account", all, a)
	}
	if later := counted("", began.Add(24*time.Hour)); later == 0 || later == 39 {
		t.Errorf("%d are counted since the second day", later)
	}
	// What cannot be counted is not removed.
	_, err = s.PruneTasks(ctx, store.Retention{Rows: 1, Bytes: much}, func([]byte, api.Task) ([]byte, error) {
		return nil, api.Errorf(api.KindInternal, "no")
	})
	wantKind(t, err, api.KindInternal)
	if left := tasks(t, s, ""); len(left) != 12 || counted("", time.Time{}) != 39 {
		t.Errorf("after a failure there are %d tasks", len(left))
	}
	done, err = s.PruneTasks(ctx, store.Retention{Rows: 100, Bytes: much, Before: began.Add(1000 * time.Hour)}, fold)
	if must(t, err); done.Tasks != 10 || counted("", time.Time{}) != 49 {
		t.Errorf("removed %+v", done)
	}
	_, err = s.PruneTasks(ctx, store.Retention{}, fold)
	wantKind(t, err, api.KindInvalid)
}
