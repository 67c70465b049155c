package storetest

import (
	"context"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// family is what the tests of states know of the rows of one kind.
type family[T any, S ~string] struct {
	states []S
	final  func(S) bool
	insert func(S) T
	// change gives a row another state and another value, which changed finds.
	change  func(row *T, to S)
	update  func(context.Context, T) error
	read    func(T) (T, error)
	changed func(T) (state S, changed bool)
}

// test updates a row from every state to every other: a final row stays as it was.
func (f family[T, S]) test(t *testing.T) {
	for _, from := range f.states {
		for _, to := range f.states {
			row := f.insert(from)
			f.change(&row, to)
			err := f.update(t.Context(), row)
			want := to
			if f.final(from) && to != from {
				wantKind(t, err, api.KindConflict)
				want = from
			} else if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			got, err := f.read(row)
			must(t, err)
			if state, changed := f.changed(got); state != want || changed != (want == to) {
				t.Errorf("%s to %s left %+v", from, to, got)
			}
		}
	}
}

func testSandboxStates(t *testing.T, s store.Store) {
	family[api.Sandbox, api.SandboxState]{
		states: []api.SandboxState{api.SandboxStarting, api.SandboxRunning, api.SandboxPaused, api.SandboxEnded, api.SandboxLost},
		final:  api.SandboxState.Final,
		insert: func(from api.SandboxState) api.Sandbox {
			return newSandbox(t, s, func(b *api.Sandbox) { b.State = from })
		},
		change:  func(b *api.Sandbox, to api.SandboxState) { b.State, b.Reason = to, "changed" },
		update:  s.UpdateSandbox,
		read:    func(b api.Sandbox) (api.Sandbox, error) { return s.Sandbox(t.Context(), b.ID) },
		changed: func(b api.Sandbox) (api.SandboxState, bool) { return b.State, b.Reason == "changed" },
	}.test(t)
}

func testExecStates(t *testing.T, s store.Store) {
	sandbox := newSandbox(t, s, nil)
	family[api.Exec, api.ExecState]{
		states: []api.ExecState{api.ExecRunning, api.ExecExited, api.ExecUnknown},
		final:  func(e api.ExecState) bool { return e != api.ExecRunning },
		insert: func(from api.ExecState) api.Exec {
			return newExec(t, s, func(e *api.Exec) { e.Sandbox, e.State = sandbox.ID, from })
		},
		change:  func(e *api.Exec, to api.ExecState) { e.State, e.OutputBytes = to, 5 },
		update:  s.UpdateExec,
		read:    func(e api.Exec) (api.Exec, error) { return s.Exec(t.Context(), e.ID) },
		changed: func(e api.Exec) (api.ExecState, bool) { return e.State, e.OutputBytes == 5 },
	}.test(t)
}

func testTaskStates(t *testing.T, s store.Store) {
	family[api.Task, api.TaskState]{
		states:  []api.TaskState{api.TaskPending, api.TaskRunning, api.TaskDone},
		final:   func(k api.TaskState) bool { return k == api.TaskDone },
		insert:  func(from api.TaskState) api.Task { return newTask(t, s, func(k *api.Task) { k.State = from }) },
		change:  func(k *api.Task, to api.TaskState) { k.State, k.Question = to, "changed" },
		update:  s.UpdateTask,
		read:    func(k api.Task) (api.Task, error) { return s.Task(t.Context(), k.ID) },
		changed: func(k api.Task) (api.TaskState, bool) { return k.State, k.Question == "changed" },
	}.test(t)
}

func testWorkspaceStates(t *testing.T, s store.Store) {
	family[api.Workspace, api.WorkspaceState]{
		states: []api.WorkspaceState{api.WorkspaceIdle, api.WorkspaceActive, api.WorkspaceRemoved},
		final:  func(w api.WorkspaceState) bool { return w == api.WorkspaceRemoved },
		insert: func(from api.WorkspaceState) api.Workspace {
			return newWorkspace(t, s, func(w *api.Workspace) { w.State = from })
		},
		change:  func(w *api.Workspace, to api.WorkspaceState) { w.State, w.Reason = to, "changed" },
		update:  s.UpdateWorkspace,
		read:    func(w api.Workspace) (api.Workspace, error) { return s.Workspace(t.Context(), w.ID) },
		changed: func(w api.Workspace) (api.WorkspaceState, bool) { return w.State, w.Reason == "changed" },
	}.test(t)
}

func testSnapshotStates(t *testing.T, s store.Store) {
	family[api.Snapshot, api.SnapshotState]{
		states: []api.SnapshotState{api.SnapshotSaving, api.SnapshotReady, api.SnapshotBroken, api.SnapshotRemoved},
		final:  api.SnapshotState.Final,
		insert: func(from api.SnapshotState) api.Snapshot {
			return newSnapshot(t, s, func(n *api.Snapshot) { n.State = from })
		},
		change:  func(n *api.Snapshot, to api.SnapshotState) { n.State, n.Reason = to, "changed" },
		update:  s.UpdateSnapshot,
		read:    func(n api.Snapshot) (api.Snapshot, error) { return s.Snapshot(t.Context(), n.ID) },
		changed: func(n api.Snapshot) (api.SnapshotState, bool) { return n.State, n.Reason == "changed" },
	}.test(t)
}

func testRepositoryStates(t *testing.T, s store.Store) {
	family[api.Repository, api.RepositoryState]{
		states: []api.RepositoryState{api.RepositoryFetching, api.RepositoryReady, api.RepositoryFailed, api.RepositoryRemoved},
		final:  api.RepositoryState.Final,
		insert: func(from api.RepositoryState) api.Repository {
			return newRepository(t, s, func(r *api.Repository) { r.State = from })
		},
		change:  func(r *api.Repository, to api.RepositoryState) { r.State, r.Subject = to, "changed" },
		update:  func(ctx context.Context, r api.Repository) error { return replaceRepository(ctx, s, r) },
		read:    func(r api.Repository) (api.Repository, error) { return s.Repository(t.Context(), r.ID) },
		changed: func(r api.Repository) (api.RepositoryState, bool) { return r.State, r.Subject == "changed" },
	}.test(t)
}

// testConcurrentFinal races ends of one sandbox: exactly one state wins.
func testConcurrentFinal(t *testing.T, s store.Store) {
	for range 20 {
		b := newSandbox(t, s, nil)
		states := []api.SandboxState{api.SandboxEnded, api.SandboxLost}
		errs := make([]error, len(states))
		var wg sync.WaitGroup
		for i, state := range states {
			wg.Go(func() {
				mine := b
				mine.State = state
				errs[i] = s.UpdateSandbox(t.Context(), mine)
			})
		}
		wg.Wait()
		got, err := s.Sandbox(t.Context(), b.ID)
		must(t, err)
		for i, state := range states {
			if (errs[i] == nil) != (got.State == state) {
				t.Fatalf("%s: %v, but the row says %s", state, errs[i], got.State)
			}
			if errs[i] != nil {
				wantKind(t, errs[i], api.KindConflict)
			}
		}
	}
}
