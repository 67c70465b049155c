package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testSandboxFilter(t *testing.T, s store.Store) {
	mine, other, task := newOwner(t, s), newOwner(t, s), api.NewTaskID()
	// In order of creation; c and d of the same instant in order of insertion.
	a := newSandbox(t, s, func(b *api.Sandbox) { b.Owner, b.State, b.CreatedAt = mine, api.SandboxEnded, began })
	d := newSandbox(t, s, func(b *api.Sandbox) { b.Owner, b.Task, b.CreatedAt = other, task, began.Add(3) })
	workspace := api.NewWorkspaceID()
	b := newSandbox(t, s, func(b *api.Sandbox) { b.Workspace, b.CreatedAt = workspace, began.Add(time.Microsecond) })
	c := newSandbox(t, s, func(b *api.Sandbox) {
		b.Owner, b.State, b.CreatedAt = mine, api.SandboxPaused, began.Add(time.Second)
	})
	for _, test := range []struct {
		name string
		f    store.SandboxFilter
		want []api.Sandbox
	}{
		{"all", store.SandboxFilter{}, []api.Sandbox{c, b, d, a}},
		{"limit", store.SandboxFilter{Limit: 2}, []api.Sandbox{c, b}},
		{"state", store.SandboxFilter{States: []api.SandboxState{api.SandboxPaused}}, []api.Sandbox{c}},
		{"states", store.SandboxFilter{States: []api.SandboxState{api.SandboxRunning, api.SandboxEnded}}, []api.Sandbox{b, d, a}},
		{"owner", store.SandboxFilter{Owner: mine}, []api.Sandbox{c, a}},
		{"not owner", store.SandboxFilter{NotOwner: mine}, []api.Sandbox{b, d}},
		{"task", store.SandboxFilter{Task: task}, []api.Sandbox{d}},
		{"workspace", store.SandboxFilter{Workspace: workspace}, []api.Sandbox{b}},
		{"another workspace", store.SandboxFilter{Workspace: api.NewWorkspaceID()}, nil},
		{"together", store.SandboxFilter{Owner: mine, States: []api.SandboxState{api.SandboxEnded}, Limit: 5}, []api.Sandbox{a}},
		{"none", store.SandboxFilter{Owner: mine, NotOwner: mine}, nil},
		{"injection", store.SandboxFilter{Task: "' OR 1=1 --"}, nil},
	} {
		got, err := s.Sandboxes(t.Context(), test.f)
		must(t, err)
		same(t, test.name, test.want, got, func(b api.Sandbox) string { return string(b.ID) })
	}
}

func testExecFilter(t *testing.T, s store.Store) {
	x, y := newSandbox(t, s, nil), newSandbox(t, s, nil)
	a := newExec(t, s, func(e *api.Exec) { e.Sandbox = x.ID })
	b := newExec(t, s, func(e *api.Exec) { e.Sandbox, e.State = x.ID, api.ExecUnknown })
	c := newExec(t, s, func(e *api.Exec) { e.Sandbox, e.StartedAt = y.ID, began.Add(time.Second) })
	for _, test := range []struct {
		name string
		f    store.ExecFilter
		want []api.Exec
	}{
		{"all", store.ExecFilter{}, []api.Exec{c, b, a}},
		{"limit", store.ExecFilter{Limit: 1}, []api.Exec{c}},
		{"sandbox", store.ExecFilter{Sandbox: x.ID}, []api.Exec{b, a}},
		{"states", store.ExecFilter{States: []api.ExecState{api.ExecRunning}}, []api.Exec{c, a}},
		{"together", store.ExecFilter{Sandbox: x.ID, States: []api.ExecState{api.ExecRunning}}, []api.Exec{a}},
	} {
		got, err := s.Execs(t.Context(), test.f)
		must(t, err)
		same(t, test.name, test.want, got, func(e api.Exec) string { return string(e.ID) })
	}
}

func testTaskFilter(t *testing.T, s store.Store) {
	mine, other := newOwner(t, s), newOwner(t, s)
	a := newTask(t, s, func(k *api.Task) { k.Owner, k.State = mine, api.TaskDone })
	b := newTask(t, s, func(k *api.Task) { k.Owner = other })
	c := newTask(t, s, func(k *api.Task) { k.State, k.CreatedAt = api.TaskPending, began.Add(-time.Hour) })
	for _, test := range []struct {
		name string
		f    store.TaskFilter
		want []api.Task
	}{
		{"all", store.TaskFilter{}, []api.Task{b, a, c}},
		{"limit", store.TaskFilter{Limit: 2}, []api.Task{b, a}},
		{"states", store.TaskFilter{States: []api.TaskState{api.TaskDone, api.TaskPending}}, []api.Task{a, c}},
		{"owner", store.TaskFilter{Owner: other}, []api.Task{b}},
		{"not owner", store.TaskFilter{NotOwner: other, WithAttempts: true}, []api.Task{a, c}},
		{"since", store.TaskFilter{Since: began}, []api.Task{b, a}},
		{"since later", store.TaskFilter{Since: began.Add(time.Microsecond)}, nil},
		{"since, of a state", store.TaskFilter{Since: began.Add(-time.Hour), States: []api.TaskState{api.TaskPending}}, []api.Task{c}},
	} {
		got, err := s.Tasks(t.Context(), test.f)
		must(t, err)
		same(t, test.name, test.want, got, func(k api.Task) string { return string(k.ID) })
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
	for _, f := range []store.TaskFilter{
		{}, {WithAttempts: true}, {Limit: 1}, {Limit: 20}, {Limit: 21, WithAttempts: true}, {Limit: 1000},
		{States: []api.TaskState{api.TaskDone}}, {Since: began.Add(time.Second)}, {Since: began.Add(time.Hour)},
	} {
		want, err := s.Tasks(t.Context(), f)
		must(t, err)
		var got []api.Task
		must(t, s.WalkTasks(t.Context(), f, func(k api.Task) error {
			if (len(k.Attempts) == 1) != f.WithAttempts {
				t.Errorf("%+v: %d attempts", f, len(k.Attempts))
			}
			got = append(got, k)
			// A task that comes in meanwhile is not for this walk.
			if len(got) == 1 && f.Limit == 1000 {
				newTask(t, s, func(k *api.Task) { k.CreatedAt = began.Add(time.Minute) })
			}
			return nil
		}))
		same(t, "walk", want, got, func(k api.Task) string { return string(k.ID) })
	}
	n, enough := 0, errors.New("enough")
	err := s.WalkTasks(t.Context(), store.TaskFilter{}, func(api.Task) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("went on to %d: %v", n, err)
	}
	wantKind(t, s.WalkTasks(t.Context(), store.TaskFilter{Limit: -1}, func(api.Task) error { return nil }), api.KindInvalid)
}
