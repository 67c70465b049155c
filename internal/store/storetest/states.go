package storetest

import (
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testSandboxStates(t *testing.T, s store.Store) {
	all := []api.SandboxState{api.SandboxStarting, api.SandboxRunning, api.SandboxPaused, api.SandboxEnded, api.SandboxLost}
	for _, from := range all {
		for _, to := range all {
			b := newSandbox(t, s, func(b *api.Sandbox) { b.State = from })
			b.State, b.Reason = to, "changed"
			err := s.UpdateSandbox(t.Context(), b)
			want := to
			if from.Final() && to != from {
				wantKind(t, err, api.KindConflict)
				want = from
			} else if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			got, err := s.Sandbox(t.Context(), b.ID)
			must(t, err)
			if got.State != want || (got.Reason == "changed") != (want == to) {
				t.Errorf("%s to %s left %s, reason %q", from, to, got.State, got.Reason)
			}
		}
	}
}

func testExecStates(t *testing.T, s store.Store) {
	b := newSandbox(t, s, nil)
	all := []api.ExecState{api.ExecRunning, api.ExecExited, api.ExecUnknown}
	for _, from := range all {
		for _, to := range all {
			e := newExec(t, s, func(e *api.Exec) { e.Sandbox, e.State = b.ID, from })
			e.State, e.OutputBytes = to, 5
			err := s.UpdateExec(t.Context(), e)
			want := to
			if from != api.ExecRunning && to != from {
				wantKind(t, err, api.KindConflict)
				want = from
			} else if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			got, err := s.Exec(t.Context(), e.ID)
			must(t, err)
			if got.State != want || (got.OutputBytes == 5) != (want == to) {
				t.Errorf("%s to %s left %+v", from, to, got)
			}
		}
	}
}

func testTaskStates(t *testing.T, s store.Store) {
	all := []api.TaskState{api.TaskPending, api.TaskRunning, api.TaskDone}
	for _, from := range all {
		for _, to := range all {
			k := newTask(t, s, func(k *api.Task) { k.State = from })
			k.State, k.Question = to, "changed"
			err := s.UpdateTask(t.Context(), k)
			want := to
			if from == api.TaskDone && to != from {
				wantKind(t, err, api.KindConflict)
				want = from
			} else if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			got, err := s.Task(t.Context(), k.ID)
			must(t, err)
			if got.State != want || (got.Question == "changed") != (want == to) {
				t.Errorf("%s to %s left %+v", from, to, got)
			}
		}
	}
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
