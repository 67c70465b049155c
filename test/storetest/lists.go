package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// listed is what a list has, and what it must have.
type listed[T any] struct {
	name string
	list func() ([]T, error)
	want []T
}

func checkLists[T any](t *testing.T, id func(T) string, all []listed[T]) {
	t.Helper()
	for _, l := range all {
		got, err := l.list()
		must(t, err)
		same(t, l.name, l.want, got, id)
	}
}

func testSandboxLists(t *testing.T, s store.Store) {
	ctx := t.Context()
	workspace := api.NewWorkspaceID()
	// In order of creation; c and d of the same instant in order of insertion.
	a := newSandbox(t, s, func(b *api.Sandbox) { b.State, b.Account, b.CreatedAt = api.SandboxEnded, "a", began })
	d := newSandbox(t, s, func(b *api.Sandbox) { b.State, b.CreatedAt = api.SandboxStarting, began.Add(3) })
	b := newSandbox(t, s, func(b *api.Sandbox) {
		b.Workspace, b.State, b.CreatedAt = workspace, api.SandboxLost, began.Add(time.Microsecond)
	})
	c := newSandbox(t, s, func(b *api.Sandbox) {
		b.State, b.Account, b.CreatedAt = api.SandboxPaused, "a", began.Add(time.Second)
	})
	of := func(account string, all bool) func() ([]api.Sandbox, error) {
		return func() ([]api.Sandbox, error) {
			list, _, err := s.SandboxPage(ctx, account, all, api.PageRequest{})
			return list, err
		}
	}
	checkLists(t, func(b api.Sandbox) string { return string(b.ID) }, []listed[api.Sandbox]{
		{"all", func() ([]api.Sandbox, error) { return s.ListSandboxes(ctx, true) }, []api.Sandbox{c, b, d, a}},
		{"live", func() ([]api.Sandbox, error) { return s.ListSandboxes(ctx, false) }, []api.Sandbox{c, d}},
		{"of everybody", func() ([]api.Sandbox, error) { return s.SandboxesOf(ctx, "") }, []api.Sandbox{c, d}},
		{"of an account", func() ([]api.Sandbox, error) { return s.SandboxesOf(ctx, "a") }, []api.Sandbox{c}},
		{"of another account", func() ([]api.Sandbox, error) { return s.SandboxesOf(ctx, "b") }, nil},
		{"injection", func() ([]api.Sandbox, error) { return s.SandboxesOf(ctx, "' OR 1=1 --") }, nil},
		{"workspace", func() ([]api.Sandbox, error) { return s.SandboxesIn(ctx, workspace) }, []api.Sandbox{b}},
		{"another workspace", func() ([]api.Sandbox, error) { return s.SandboxesIn(ctx, api.NewWorkspaceID()) }, nil},
		{"page of everybody", of("", true), []api.Sandbox{c, b, d, a}},
		{"page of live ones", of("", false), []api.Sandbox{c, d}},
		{"page of an account", of("a", true), []api.Sandbox{c, a}},
		{"page of its live ones", of("a", false), []api.Sandbox{c}},
		{"page by injection", of("' OR 1=1 --", true), nil},
	})
}

func testExecLists(t *testing.T, s store.Store) {
	ctx := t.Context()
	x, y := newSandbox(t, s, nil), newSandbox(t, s, nil)
	a := newExec(t, s, func(e *api.Exec) { e.Sandbox = x.ID })
	b := newExec(t, s, func(e *api.Exec) { e.Sandbox, e.State = x.ID, api.ExecUnknown })
	c := newExec(t, s, func(e *api.Exec) { e.Sandbox, e.StartedAt = y.ID, began.Add(time.Second) })
	for id, want := range map[api.SandboxID][]api.Exec{x.ID: {b, a}, y.ID: {c}, api.NewSandboxID(): nil} {
		got, err := s.ListExecs(ctx, id)
		must(t, err)
		same(t, "list", want, got, func(e api.Exec) string { return string(e.ID) })
		got, _, err = s.ExecPage(ctx, id, api.PageRequest{})
		must(t, err)
		same(t, "page", want, got, func(e api.Exec) string { return string(e.ID) })
	}
}

func testTaskLists(t *testing.T, s store.Store) {
	ctx := t.Context()
	mine, other := newOwner(t, s), newOwner(t, s)
	a := newTask(t, s, func(k *api.Task) { k.Owner, k.State = mine, api.TaskDone })
	b := newTask(t, s, func(k *api.Task) { k.Owner, k.Account = other, "a" })
	c := newTask(t, s, func(k *api.Task) { k.State, k.CreatedAt = api.TaskPending, began.Add(-time.Hour) })
	d := newTask(t, s, func(k *api.Task) { k.Owner, k.CreatedAt = mine, began.Add(-2*time.Hour) })
	must(t, s.PutAttempt(ctx, c.ID, api.Attempt{N: 1, StartedAt: began}))
	unfinished := func(notOwner api.OwnerID) func() ([]api.Task, error) {
		return func() ([]api.Task, error) { return s.UnfinishedTasks(ctx, notOwner) }
	}
	walked := func(account string, since time.Time) func() ([]api.Task, error) {
		return func() (all []api.Task, err error) {
			err = s.WalkTasks(ctx, account, since, func(k api.Task) error { all = append(all, k); return nil })
			return all, err
		}
	}
	checkLists(t, func(k api.Task) string { return string(k.ID) }, []listed[api.Task]{
		{"unfinished", unfinished(""), []api.Task{b, c, d}},
		{"not mine", unfinished(mine), []api.Task{b, c}},
		{"not the other's", unfinished(other), []api.Task{c, d}},
		{"all", walked("", time.Time{}), []api.Task{b, a, c, d}},
		{"of an account", walked("a", time.Time{}), []api.Task{b}},
		{"since", walked("", began), []api.Task{b, a}},
		{"since later", walked("", began.Add(time.Microsecond)), nil},
		{"of an account, since later", walked("a", began.Add(time.Microsecond)), nil},
	})
	got, err := s.UnfinishedTasks(ctx, other)
	if must(t, err); len(got[0].Attempts) != 1 || len(got[1].Attempts) != 0 {
		t.Errorf("attempts of unfinished tasks: %+v", got)
	}
}

func same[T any](t *testing.T, name string, want, got []T, id func(T) string) {
	t.Helper()
	ids := func(all []T) (list []string) {
		for _, v := range all {
			list = append(list, id(v))
		}
		return list
	}
	if !slices.Equal(ids(want), ids(got)) {
		t.Errorf("%s: got %v, want %v", name, ids(got), ids(want))
	}
}

func testWalkTasks(t *testing.T, s store.Store) {
	// Three instants for many tasks, so that pages end within one.
	for i := range 47 {
		k := newTask(t, s, func(k *api.Task) {
			k.CreatedAt = began.Add(time.Duration(i%3) * time.Second)
			if i%2 == 0 {
				k.State = api.TaskDone
			}
		})
		must(t, s.PutAttempt(t.Context(), k.ID, api.Attempt{N: 1, Sandbox: api.NewSandboxID(), StartedAt: began}))
	}
	for _, since := range []time.Time{{}, began.Add(time.Second), began.Add(time.Hour)} {
		var want, got []api.Task
		for _, k := range tasks(t, s, "") {
			if !k.CreatedAt.Before(since) {
				want = append(want, k)
			}
		}
		must(t, s.WalkTasks(t.Context(), "", since, func(k api.Task) error {
			if len(k.Attempts) != 1 {
				t.Errorf("since %v: %d attempts", since, len(k.Attempts))
			}
			got = append(got, k)
			// A task that comes in meanwhile is not for this walk.
			if len(got) == 1 {
				k := newTask(t, s, func(k *api.Task) { k.CreatedAt = began.Add(time.Minute) })
				must(t, s.PutAttempt(t.Context(), k.ID, api.Attempt{N: 1, StartedAt: began}))
			}
			return nil
		}))
		same(t, "walk", want, got, func(k api.Task) string { return string(k.ID) })
	}
	n, enough := 0, errors.New("enough")
	err := s.WalkTasks(t.Context(), "", time.Time{}, func(api.Task) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("went on to %d: %v", n, err)
	}
}
