package storetest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testOwners(t *testing.T, s store.Store) {
	ctx := t.Context()
	a := store.Owner{ID: api.NewOwnerID(), Host: "a\xff", LockPath: "/run/\xfe lock", PID: 1, StartedAt: began}
	b := store.Owner{ID: api.NewOwnerID(), Host: "b", LockPath: "/b", PID: 2, StartedAt: began.Add(time.Second)}
	must(t, s.InsertOwner(ctx, b))
	must(t, s.InsertOwner(ctx, a))
	got, err := s.Owners(ctx)
	must(t, err)
	if diff := cmp.Diff([]store.Owner{a, b}, got); diff != "" {
		t.Fatal(diff)
	}
	wantKind(t, s.InsertOwner(ctx, a), api.KindExists)
	must(t, s.EndOwner(ctx, a.ID, began.Add(time.Hour)))
	must(t, s.EndOwner(ctx, a.ID, began.Add(2*time.Hour)))
	wantKind(t, s.EndOwner(ctx, api.NewOwnerID(), began), api.KindNotFound)
	got, err = s.Owners(ctx)
	must(t, err)
	if diff := cmp.Diff([]store.Owner{b}, got); diff != "" {
		t.Fatal(diff)
	}
}

// testLease: an owner renews its lease until it has ended, and then takes back no row that
// another owner took over.
func testLease(t *testing.T, s store.Store) {
	ctx := t.Context()
	old, next := newOwner(t, s), newOwner(t, s)
	must(t, s.BeatOwner(ctx, old, began.Add(time.Second)))
	must(t, s.BeatOwner(ctx, old, began.Add(2*time.Second)))
	all, err := s.Owners(ctx)
	must(t, err)
	i := slices.IndexFunc(all, func(o store.Owner) bool { return o.ID == old })
	if i < 0 || !all[i].BeatAt.Equal(began.Add(2*time.Second)) {
		t.Errorf("the lease was not renewed: %+v", all)
	}
	wantKind(t, s.BeatOwner(ctx, api.NewOwnerID(), began), api.KindNotFound)
	wantKind(t, s.BeatOwner(ctx, old, time.Time{}), api.KindInvalid)

	sandbox := newSandbox(t, s, func(b *api.Sandbox) { b.Owner = old })
	job := newTask(t, s, func(k *api.Task) { k.Owner = old })
	space := api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceIdle, CreatedAt: began, Owner: old}
	must(t, s.InsertWorkspace(ctx, space))
	saved := api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: began, Owner: old}
	must(t, s.InsertSnapshot(ctx, saved))
	write := func(owner api.OwnerID) map[string]error {
		sandbox.Owner, job.Owner, space.Owner, saved.Owner = owner, owner, owner, owner
		return map[string]error{
			"sandbox": s.UpdateSandbox(ctx, sandbox), "task": s.UpdateTask(ctx, job),
			"workspace": s.UpdateWorkspace(ctx, space), "snapshot": s.UpdateSnapshot(ctx, saved),
		}
	}
	must(t, s.EndOwner(ctx, old, began.Add(time.Hour)))
	wantKind(t, s.BeatOwner(ctx, old, began.Add(time.Hour)), api.KindConflict)
	// Its own rows can be written until somebody takes them over: a recovery does that.
	for _, step := range []struct {
		owner api.OwnerID
		kind  api.Kind
	}{{old, ""}, {next, ""}, {old, api.KindConflict}, {next, ""}} {
		for what, err := range write(step.owner) {
			if api.KindOf(err) != step.kind {
				t.Errorf("%s written by owner %s: %v, want kind %q", what, step.owner, err, step.kind)
			}
		}
	}
	if got, err := s.Sandbox(ctx, sandbox.ID); err != nil || got.Owner != next {
		t.Errorf("the sandbox has owner %s, %v", got.Owner, err)
	}
}

func testRoundTrip(t *testing.T, s store.Store) {
	ctx := t.Context()
	owner := newOwner(t, s)

	var task api.Task
	fill(&task)
	task.State, task.Owner, task.Attempts = api.TaskRunning, owner, nil
	task.EnvNames, task.Create.Sandbox.Env = slices.Sorted(maps.Keys(task.Env)), nil
	must(t, s.InsertTask(ctx, task))
	var a api.Attempt
	fill(&a)
	a.N, a.StdoutPath, a.StderrPath = 1, "/out/\xff1", "/out/2"
	must(t, s.PutAttempt(ctx, task.ID, a))
	task.Attempts = []api.Attempt{a}
	gotTask, err := s.Task(ctx, task.ID)
	must(t, err)
	if diff := cmp.Diff(task, gotTask); diff != "" {
		t.Error("task:", diff)
	}

	var b api.Sandbox
	fill(&b)
	b.EnvNames, b.Provision.EnvVars = slices.Sorted(maps.Keys(b.Env)), nil
	b.State, b.Owner = api.SandboxRunning, owner
	must(t, s.InsertSandbox(ctx, b))
	gotSandbox, err := s.Sandbox(ctx, b.ID)
	must(t, err)
	if diff := cmp.Diff(b, gotSandbox); diff != "" {
		t.Error("sandbox:", diff)
	}

	var e api.Exec
	fill(&e)
	e.State, e.Sandbox = api.ExecRunning, b.ID
	must(t, s.InsertExec(ctx, e))
	gotExec, err := s.Exec(ctx, e.ID)
	must(t, err)
	if diff := cmp.Diff(e, gotExec); diff != "" {
		t.Error("exec:", diff)
	}

	// The same again through an update of plain rows.
	b2, e2, k2 := newSandbox(t, s, nil), api.Exec{}, newTask(t, s, nil)
	e2 = newExec(t, s, func(e *api.Exec) { e.Sandbox = b2.ID })
	b.ID, e.ID, e.Sandbox, task.ID, task.Attempts = b2.ID, e2.ID, b2.ID, k2.ID, nil
	must(t, s.UpdateSandbox(ctx, b))
	must(t, s.UpdateExec(ctx, e))
	must(t, s.UpdateTask(ctx, task))
	gotTask, err = s.Task(ctx, task.ID)
	must(t, err)
	gotSandbox, err = s.Sandbox(ctx, b.ID)
	must(t, err)
	gotExec, err = s.Exec(ctx, e.ID)
	must(t, err)
	if diff := cmp.Diff([]any{task, b, e}, []any{gotTask, gotSandbox, gotExec}); diff != "" {
		t.Error("after update:", diff)
	}
}

func testZeroTimes(t *testing.T, s store.Store) {
	b := newSandbox(t, s, func(b *api.Sandbox) {
		b.ExpiresAt = time.Time{}
		b.CreatedAt = time.Date(1969, 1, 2, 3, 4, 5, 999, time.FixedZone("east", 3600))
	})
	got, err := s.Sandbox(t.Context(), b.ID)
	must(t, err)
	if !got.ExpiresAt.IsZero() || !got.EndedAt.IsZero() {
		t.Fatalf("zero times came back as %s and %s", got.ExpiresAt, got.EndedAt)
	}
	if got.CreatedAt.Location() != time.UTC || !got.CreatedAt.Equal(b.CreatedAt.Truncate(time.Microsecond)) {
		t.Fatalf("%s came back as %s", b.CreatedAt, got.CreatedAt)
	}
}

func testNotFound(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Sandbox(ctx, api.NewSandboxID())
	wantKind(t, err, api.KindNotFound)
	_, err = s.Exec(ctx, api.NewExecID())
	wantKind(t, err, api.KindNotFound)
	_, err = s.Task(ctx, api.NewTaskID())
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.UpdateSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxLost, CreatedAt: began}), api.KindNotFound)
	wantKind(t, s.UpdateExec(ctx, api.Exec{ID: api.NewExecID(), State: api.ExecExited, StartedAt: began}), api.KindNotFound)
	wantKind(t, s.UpdateTask(ctx, api.Task{ID: api.NewTaskID(), State: api.TaskDone, CreatedAt: began}), api.KindNotFound)
	wantKind(t, s.PutAttempt(ctx, api.NewTaskID(), api.Attempt{N: 1}), api.KindNotFound)
}

func testExists(t *testing.T, s store.Store) {
	ctx := t.Context()
	b, k := newSandbox(t, s, nil), newTask(t, s, nil)
	e := newExec(t, s, func(e *api.Exec) { e.Sandbox = b.ID })
	wantKind(t, s.InsertSandbox(ctx, b), api.KindExists)
	wantKind(t, s.InsertTask(ctx, k), api.KindExists)
	wantKind(t, s.InsertExec(ctx, e), api.KindExists)
}

func testInvalid(t *testing.T, s store.Store) {
	ctx := t.Context()
	wantKind(t, s.InsertSandbox(ctx, api.Sandbox{State: api.SandboxRunning, CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: "odd", CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning}), api.KindInvalid)
	b, k := newSandbox(t, s, nil), newTask(t, s, nil)
	b.State = ""
	wantKind(t, s.UpdateSandbox(ctx, b), api.KindInvalid)
	wantKind(t, s.InsertTask(ctx, api.Task{ID: api.NewTaskID(), CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertExec(ctx, api.Exec{ID: api.NewExecID(), Sandbox: b.ID, State: "exit", StartedAt: began}), api.KindInvalid)
	wantKind(t, s.PutAttempt(ctx, k.ID, api.Attempt{N: 0}), api.KindInvalid)
	_, err := s.ReadEvents(ctx, api.Stream{Kind: api.StreamTask, ID: "t"}, 0, 0)
	wantKind(t, err, api.KindInvalid)

	other := newSandbox(t, s, nil)
	e := newExec(t, s, func(e *api.Exec) { e.Sandbox = other.ID })
	e.Sandbox = b.ID
	wantKind(t, s.UpdateExec(ctx, e), api.KindInvalid)
}

func testReferences(t *testing.T, s store.Store) {
	ctx := t.Context()
	wantKind(t, s.InsertExec(ctx, api.Exec{ID: api.NewExecID(), Sandbox: api.NewSandboxID(), State: api.ExecRunning, StartedAt: began}), api.KindNotFound)
	nobody := api.NewOwnerID()
	wantKind(t, s.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: began, Owner: nobody}), api.KindNotFound)
	wantKind(t, s.InsertTask(ctx, api.Task{ID: api.NewTaskID(), State: api.TaskRunning, CreatedAt: began, Owner: nobody}), api.KindNotFound)
	b := newSandbox(t, s, nil)
	b.Owner, b.State = nobody, api.SandboxPaused
	wantKind(t, s.UpdateSandbox(ctx, b), api.KindNotFound)
	got, err := s.Sandbox(ctx, b.ID)
	must(t, err)
	if got.State != api.SandboxRunning || got.Owner != "" {
		t.Fatalf("a refused update left %+v", got)
	}
}

func testAttempts(t *testing.T, s store.Store) {
	ctx := t.Context()
	k := newTask(t, s, nil)
	for _, n := range []int{2, 10, 1} {
		must(t, s.PutAttempt(ctx, k.ID, api.Attempt{N: n, StartedAt: began, StdoutPath: "/first"}))
	}
	again := api.Attempt{N: 2, StartedAt: began, EndedAt: began.Add(time.Second), StdoutPath: "/second",
		Artifact: api.CodeArtifact{Run: "python3 main.py", Files: []api.File{{Path: "main.py", Content: "print(1)\n"}}}}
	must(t, s.PutAttempt(ctx, k.ID, again))
	k.Attempts = []api.Attempt{{N: 99}} // not written by UpdateTask
	must(t, s.UpdateTask(ctx, k))
	want := []api.Attempt{{N: 1, StartedAt: began, StdoutPath: "/first"}, again, {N: 10, StartedAt: began, StdoutPath: "/first"}}
	got, err := s.Task(ctx, k.ID)
	must(t, err)
	if diff := cmp.Diff(want, got.Attempts); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(want, tasks(t, s, "")[0].Attempts); diff != "" {
		t.Fatal(diff)
	}
}

func testCanceled(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := newSandbox(t, s, nil)
	_, err := s.Sandbox(ctx, b.ID)
	wantKind(t, err, api.KindCanceled)
	b.State = api.SandboxEnded
	wantKind(t, s.UpdateSandbox(ctx, b), api.KindCanceled)
	_, err = s.AppendEvent(ctx, api.Stream{Kind: api.StreamTask, ID: "t"}, "x", began, nil)
	wantKind(t, err, api.KindCanceled)
	got, err := s.Sandbox(t.Context(), b.ID)
	must(t, err)
	if got.State != api.SandboxRunning {
		t.Fatalf("a canceled update left state %s", got.State)
	}
}

// EndOthers ends all owners but some, as a daemon does that starts: what they own may be taken over then.
func EndOthers(ctx context.Context, s store.Owners, but ...api.OwnerID) error {
	all, err := s.Owners(ctx)
	for _, o := range all {
		if err == nil && !slices.Contains(but, o.ID) {
			err = s.EndOwner(ctx, o.ID, time.Now())
		}
	}
	return err
}
