package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// walk reads a list page by page and gives all rows, and how many pages they took.
func walk[T any](t *testing.T, limit int, page func(api.PageRequest) ([]T, string, error)) (all []T, pages int) {
	t.Helper()
	for at := ""; ; {
		rows, next, err := page(api.PageRequest{Limit: limit, Cursor: at})
		must(t, err)
		if len(rows) > limit || pages > 2000 || next != "" && len(rows) == 0 {
			t.Fatalf("page %d of at most %d rows has %d", pages, limit, len(rows))
		}
		all = append(all, rows...)
		pages++
		if at = next; at == "" {
			return all, pages
		}
		if c, err := store.ParseCursor(at); err != nil || c.Token() != at {
			t.Fatalf("cursor %q is read as %+v, %v", at, c, err)
		}
	}
}

// rows lists all rows of a list that comes in pages.
func rows[T any](t *testing.T, page func(api.PageRequest) ([]T, string, error)) []T {
	t.Helper()
	all, _ := walk(t, api.MaxPage, page)
	return all
}

// sandboxes, tasks and snapshots list all of an account, or of everybody.
func sandboxes(t *testing.T, s store.Store, account string) []api.Sandbox {
	t.Helper()
	return rows(t, func(p api.PageRequest) ([]api.Sandbox, string, error) {
		return s.SandboxPage(t.Context(), account, true, p)
	})
}

func tasks(t *testing.T, s store.Store, account string) []api.Task {
	t.Helper()
	return rows(t, func(p api.PageRequest) ([]api.Task, string, error) { return s.TaskPage(t.Context(), account, false, p) })
}

func snapshots(t *testing.T, s store.Store, account string) []api.Snapshot {
	t.Helper()
	return rows(t, func(p api.PageRequest) ([]api.Snapshot, string, error) {
		return s.SnapshotPage(t.Context(), account, true, p)
	})
}

// newestFirst sorts rows that were inserted in the order of the slice as lists are sorted.
func newestFirst[T any](inserted []T, at func(T) time.Time) []T {
	inserted = slices.Clone(inserted)
	slices.Reverse(inserted)
	slices.SortStableFunc(inserted, func(a, b T) int { return at(b).Compare(at(a)) })
	return inserted
}

// ofAccount selects the rows of an account, all of them for "".
func ofAccount[T any](all []T, account string, of func(T) string) (out []T) {
	for _, v := range all {
		if account == "" || of(v) == account {
			out = append(out, v)
		}
	}
	return out
}

func testPages(t *testing.T, s store.Store) {
	sandbox := newSandbox(t, s, func(b *api.Sandbox) { b.CreatedAt = began.Add(-time.Hour) })
	// Few instants for many rows, so that pages end within one.
	at := func(i int) time.Time { return began.Add(time.Duration(i%3) * time.Second) }
	account := func(i int) string { return []string{"", "a", "b"}[i%2+i%3%2] }
	sbs := []api.Sandbox{sandbox}
	var execs []api.Exec
	var jobs []api.Task
	var saved []api.Snapshot
	var keys []api.Key
	for i := range 23 {
		sbs = append(sbs, newSandbox(t, s, func(b *api.Sandbox) { b.CreatedAt, b.Account = at(i), account(i) }))
		execs = append(execs, newExec(t, s, func(e *api.Exec) { e.Sandbox, e.StartedAt = sandbox.ID, at(i) }))
		k := newTask(t, s, func(k *api.Task) {
			k.CreatedAt, k.Account = at(i), account(i)
			if i%4 == 0 {
				k.Create.Repo = &api.RepoTask{URL: "https://forge/a"}
			}
		})
		k.Attempts = []api.Attempt{{N: 1, StartedAt: began}}
		must(t, s.PutAttempt(t.Context(), k.ID, k.Attempts[0]))
		jobs = append(jobs, k)
		saved = append(saved, newSnapshot(t, s, func(n *api.Snapshot) { n.CreatedAt, n.Account = at(i), account(i) }))
		keys = append(keys, newKey(t, s, strings.Repeat("h", i+1), func(k *api.Key) { k.CreatedAt = at(i) }))
	}
	sbs = newestFirst(sbs, func(b api.Sandbox) time.Time { return b.CreatedAt })
	execs = newestFirst(execs, func(e api.Exec) time.Time { return e.StartedAt })
	jobs = newestFirst(jobs, func(k api.Task) time.Time { return k.CreatedAt })
	saved = newestFirst(saved, func(n api.Snapshot) time.Time { return n.CreatedAt })
	keys = newestFirst(keys, func(k api.Key) time.Time { return k.CreatedAt })
	ctx := t.Context()
	for _, limit := range []int{1, 5, 22, 23, 24, 100} {
		for _, account := range []string{"", "a"} {
			want := ofAccount(sbs, account, func(b api.Sandbox) string { return b.Account })
			got, pages := walk(t, limit, func(p api.PageRequest) ([]api.Sandbox, string, error) { return s.SandboxPage(ctx, account, true, p) })
			same(t, "sandboxes", want, got, func(b api.Sandbox) string { return string(b.ID) })
			if most := (len(want) + limit - 1) / limit; pages != most {
				t.Errorf("%d rows in %d pages of %d", len(want), pages, limit)
			}
			pagedTasks, _ := walk(t, limit, func(p api.PageRequest) ([]api.Task, string, error) { return s.TaskPage(ctx, account, false, p) })
			same(t, "tasks", ofAccount(jobs, account, func(k api.Task) string { return k.Account }), pagedTasks,
				func(k api.Task) string { return string(k.ID) + strings.Repeat("+", len(k.Attempts)) })
			pagedSnapshots, _ := walk(t, limit, func(p api.PageRequest) ([]api.Snapshot, string, error) { return s.SnapshotPage(ctx, account, true, p) })
			same(t, "snapshots", ofAccount(saved, account, func(n api.Snapshot) string { return n.Account }), pagedSnapshots,
				func(n api.Snapshot) string { return string(n.ID) })
		}
		pagedExecs, _ := walk(t, limit, func(p api.PageRequest) ([]api.Exec, string, error) { return s.ExecPage(ctx, sandbox.ID, p) })
		same(t, "execs", execs, pagedExecs, func(e api.Exec) string { return string(e.ID) })
		pagedKeys, _ := walk(t, limit, func(p api.PageRequest) ([]api.Key, string, error) { return s.KeyPage(ctx, true, p) })
		same(t, "keys", keys, pagedKeys, func(k api.Key) string { return string(k.ID) })
	}
	programs, _ := walk(t, 5, func(p api.PageRequest) ([]api.Task, string, error) { return s.TaskPage(ctx, "", true, p) })
	if len(programs) != 17 {
		t.Errorf("%d tasks without a repository", len(programs))
	}
	// A row that is not there any more is a place in the list all the same: rows of its
	// instant come again, none is left out.
	gone := store.Cursor{At: began, ID: string(api.NewSandboxID())}.Token()
	rows, _, err := s.SandboxPage(ctx, "", true, api.PageRequest{Limit: 100, Cursor: gone})
	if must(t, err); len(rows) != 9 || rows[0].CreatedAt != began {
		t.Errorf("after a row that is not there: %d rows", len(rows))
	}
	for _, limit := range []int{-1, api.MaxPage + 1} {
		_, _, err := s.SandboxPage(ctx, "", true, api.PageRequest{Limit: limit})
		wantKind(t, err, api.KindInvalid)
	}
	for _, token := range []string{"!", "x", strings.Repeat("a", 200), "MTIzNA", store.Cursor{At: began, ID: "short"}.Token()} {
		_, _, err := s.TaskPage(ctx, "", false, api.PageRequest{Cursor: token})
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
	sbs, pages := walk(t, 100, func(p api.PageRequest) ([]api.Sandbox, string, error) { return s.SandboxPage(ctx, "", true, p) })
	if len(sbs) != 10 || pages != 3 {
		t.Errorf("%d large sandboxes in %d pages", len(sbs), pages)
	}
	tasks, pages := walk(t, 100, func(p api.PageRequest) ([]api.Task, string, error) { return s.TaskPage(ctx, "", false, p) })
	if len(tasks) != 10 || pages != 3 || len(tasks[9].Attempts) != 1 {
		t.Errorf("%d large tasks in %d pages", len(tasks), pages)
	}
}
