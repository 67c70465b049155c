package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// walk reads a list page by page and gives all rows, and how many pages they took.
func walk[T any](t *testing.T, limit int, page func(store.Cursor) ([]T, store.Cursor, error)) (all []T, pages int) {
	t.Helper()
	var at store.Cursor
	for {
		rows, next, err := page(at)
		must(t, err)
		if len(rows) > limit || pages > 1000 || !next.IsZero() && len(rows) == 0 {
			t.Fatalf("page %d of at most %d rows has %d", pages, limit, len(rows))
		}
		all = append(all, rows...)
		pages++
		if next.IsZero() {
			return all, pages
		}
		// What a client carries means the same.
		if at, err = store.ParseCursor(next.Token()); err != nil || at != next {
			t.Fatalf("cursor %+v is read as %+v, %v", next, at, err)
		}
	}
}

func testPages(t *testing.T, s store.Store) {
	box := newSandbox(t, s, func(b *api.Sandbox) { b.CreatedAt = began.Add(-time.Hour) })
	// Few instants for many rows, so that pages end within one.
	at := func(i int) time.Time { return began.Add(time.Duration(i%3) * time.Second) }
	account := func(i int) string { return []string{"", "a", "b"}[i%2+i%3%2] }
	for i := range 23 {
		newSandbox(t, s, func(b *api.Sandbox) { b.CreatedAt, b.Account = at(i), account(i) })
		newExec(t, s, func(e *api.Exec) { e.Sandbox, e.StartedAt = box.ID, at(i) })
		k := newTask(t, s, func(k *api.Task) {
			k.CreatedAt, k.Account = at(i), account(i)
			if i%4 == 0 {
				k.Create.Repo = &api.RepoTask{URL: "https://forge/a"}
			}
		})
		must(t, s.PutAttempt(t.Context(), k.ID, api.Attempt{N: 1, StartedAt: began}))
		newSnapshot(t, s, func(n *api.Snapshot) { n.CreatedAt, n.Account = at(i), account(i) })
		newKey(t, s, strings.Repeat("h", i+1), func(k *api.Key) { k.CreatedAt = at(i) })
	}
	ctx := t.Context()
	for _, limit := range []int{1, 5, 22, 23, 24, 100} {
		for _, account := range []string{"", "a"} {
			f := store.SandboxFilter{Account: account}
			want, err := s.Sandboxes(ctx, f)
			must(t, err)
			f.Limit = limit
			got, pages := walk(t, limit, func(c store.Cursor) ([]api.Sandbox, store.Cursor, error) { f.After = c; return s.SandboxPage(ctx, f) })
			same(t, "sandboxes", want, got, func(b api.Sandbox) string { return string(b.ID) })
			if most := (len(want) + limit - 1) / limit; pages != most {
				t.Errorf("%d rows in %d pages of %d", len(want), pages, limit)
			}
			kf := store.TaskFilter{Account: account, WithAttempts: true}
			tasks, err := s.Tasks(ctx, kf)
			must(t, err)
			kf.Limit = limit
			pagedTasks, _ := walk(t, limit, func(c store.Cursor) ([]api.Task, store.Cursor, error) { kf.After = c; return s.TaskPage(ctx, kf) })
			same(t, "tasks", tasks, pagedTasks, func(k api.Task) string { return string(k.ID) + strings.Repeat("+", len(k.Attempts)) })
			nf := store.SnapshotFilter{Account: account}
			snapshots, err := s.Snapshots(ctx, nf)
			must(t, err)
			nf.Limit = limit
			pagedSnapshots, _ := walk(t, limit, func(c store.Cursor) ([]api.Snapshot, store.Cursor, error) {
				nf.After = c
				return s.SnapshotPage(ctx, nf)
			})
			same(t, "snapshots", snapshots, pagedSnapshots, func(n api.Snapshot) string { return string(n.ID) })
		}
		ef := store.ExecFilter{Sandbox: box.ID}
		execs, err := s.Execs(ctx, ef)
		must(t, err)
		ef.Limit = limit
		pagedExecs, _ := walk(t, limit, func(c store.Cursor) ([]api.Exec, store.Cursor, error) { ef.After = c; return s.ExecPage(ctx, ef) })
		same(t, "execs", execs, pagedExecs, func(e api.Exec) string { return string(e.ID) })
		keys, _, err := s.KeyPage(ctx, store.KeyFilter{Limit: 1000})
		must(t, err)
		pagedKeys, _ := walk(t, limit, func(c store.Cursor) ([]api.Key, store.Cursor, error) {
			return s.KeyPage(ctx, store.KeyFilter{Limit: limit, After: c})
		})
		same(t, "keys", keys, pagedKeys, func(k api.Key) string { return string(k.ID) })
	}
	programs, _ := walk(t, 5, func(c store.Cursor) ([]api.Task, store.Cursor, error) {
		return s.TaskPage(ctx, store.TaskFilter{Programs: true, Limit: 5, After: c})
	})
	if len(programs) != 17 {
		t.Errorf("%d tasks without a repository", len(programs))
	}
	// A row that is not there any more is a place in the list all the same: rows of its
	// instant come again, none is left out.
	rows, _, err := s.SandboxPage(ctx, store.SandboxFilter{Limit: 100, After: store.Cursor{At: began, ID: string(api.NewSandboxID())}})
	if must(t, err); len(rows) != 9 || rows[0].CreatedAt != began {
		t.Errorf("after a row that is not there: %d rows", len(rows))
	}
	for _, limit := range []int{0, -1} {
		_, _, err := s.SandboxPage(ctx, store.SandboxFilter{Limit: limit})
		wantKind(t, err, api.KindInvalid)
	}
	for _, token := range []string{"!", "x", strings.Repeat("a", 200), "MTIzNA", store.Cursor{At: began, ID: "short"}.Token()} {
		_, err := store.ParseCursor(token)
		wantKind(t, err, api.KindInvalid)
	}
}

// A page ends early where its rows are large, and the list goes on behind it.
func testPageBytes(t *testing.T, s store.Store) {
	ctx := context.Background()
	large := strings.Repeat("x", store.MaxPageBytes/4)
	for i := range 10 {
		newSandbox(t, s, func(b *api.Sandbox) { b.Reason, b.CreatedAt = large, began.Add(time.Duration(i)*time.Second) })
		k := newTask(t, s, nil)
		must(t, s.PutAttempt(ctx, k.ID, api.Attempt{N: 1, Artifact: api.CodeArtifact{Run: large}, StartedAt: began}))
	}
	boxes, pages := walk(t, 100, func(c store.Cursor) ([]api.Sandbox, store.Cursor, error) {
		return s.SandboxPage(ctx, store.SandboxFilter{Limit: 100, After: c})
	})
	if len(boxes) != 10 || pages != 3 {
		t.Errorf("%d large sandboxes in %d pages", len(boxes), pages)
	}
	tasks, pages := walk(t, 100, func(c store.Cursor) ([]api.Task, store.Cursor, error) {
		return s.TaskPage(ctx, store.TaskFilter{Limit: 100, After: c, WithAttempts: true})
	})
	if len(tasks) != 10 || pages != 3 || len(tasks[9].Attempts) != 1 {
		t.Errorf("%d large tasks in %d pages", len(tasks), pages)
	}
}
