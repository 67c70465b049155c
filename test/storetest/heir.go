package storetest

import (
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testHeirs: what a silent node left has one heir at a time, and the node's own run has ended then.
func testHeirs(t *testing.T, s store.Store) {
	ctx := t.Context()
	join := func(name string) api.OwnerID {
		n, id := api.NewNodeID(), api.NewOwnerID()
		must(t, s.InsertOwner(ctx, store.Owner{ID: id, Host: "h", LockPath: "/" + name, StartedAt: began, Node: n}))
		must(t, s.PutNode(ctx, store.Node{ID: n, Name: name, Owner: id, State: api.NodeReady}))
		return id
	}
	dead, one, two := join("dead"), join("one"), join("two")
	box := api.Sandbox{ID: api.NewSandboxID(), Owner: dead, State: api.SandboxRunning, CreatedAt: began}
	must(t, s.InsertSandbox(ctx, box))
	inherit := func(heir api.OwnerID, lease time.Duration, want ...api.OwnerID) {
		t.Helper()
		all, err := s.InheritOwners(ctx, heir, lease, nil)
		must(t, err)
		got := map[api.OwnerID]bool{}
		for _, i := range all {
			got[i.Owner] = true
		}
		for _, o := range want {
			if !got[o] {
				t.Errorf("%s is not inherited: %+v", o, all)
			}
		}
		if len(got) != len(want) {
			t.Errorf("inherited %+v, want %v", all, want)
		}
	}
	// While its node renews its lease, nobody takes over or writes what is its own.
	inherit(one, time.Hour)
	// Nor if the heir does not know any more who is silent, when the database answers.
	if all, err := s.InheritOwners(ctx, one, 0, func() bool { return false }); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	taken := box
	taken.Owner = one
	wantKind(t, s.UpdateSandbox(ctx, taken), api.KindConflict)

	// Each of those that ask at once believes that all others are silent: one of them is right about itself.
	heirs := []api.OwnerID{one, two}
	found := make([][]store.Inherited, len(heirs))
	var asked sync.WaitGroup
	for i, heir := range heirs {
		asked.Go(func() {
			all, err := s.InheritOwners(ctx, heir, 0, nil)
			if err != nil && api.KindOf(err) != api.KindConflict {
				t.Error(err)
			}
			found[i] = all
		})
	}
	asked.Wait()
	count := 0
	for i := range found {
		for _, o := range found[i] {
			if o.Owner == dead {
				count++
				if o.Name != "dead" || o.Node == "" {
					t.Errorf("inherited of %+v", o)
				}
			}
		}
	}
	if count != 1 {
		t.Errorf("%d heirs of one owner", count)
	}
	// The dead one renews nothing and takes nothing back.
	node, err := s.NodeOfOwner(ctx, dead)
	must(t, err)
	_, err = s.BeatNode(ctx, node.ID, dead, api.NodeCapacity{})
	wantKind(t, err, api.KindConflict)
	wantKind(t, s.BeatOwner(ctx, dead, time.Now()), api.KindConflict)
	_, err = s.InheritOwners(ctx, dead, 0, nil)
	wantKind(t, err, api.KindConflict)

	// The heir of an heir: what an heir that died had not taken over passes on; what it had, too.
	last := join("last")
	inherit(last, 0, dead)
	taken.Owner = last
	must(t, s.UpdateSandbox(ctx, taken))
	inherit(last, 0)
	wantKind(t, s.UpdateSandbox(ctx, box), api.KindConflict)

	// One leads at a time, for as long as it asks.
	lead := func(owner api.OwnerID, lease time.Duration, want bool) {
		t.Helper()
		if leads, err := s.Lead(ctx, "webhooks", owner, lease); err != nil || leads != want {
			t.Errorf("%s leads: %v, %v; want %v", owner, leads, err, want)
		}
	}
	lead(one, time.Hour, true)
	lead(last, time.Hour, false)
	lead(one, -time.Second, true)
	lead(last, time.Hour, true)
	lead(one, time.Hour, false)
	if leads, err := s.Lead(ctx, "schedule", one, time.Hour); err != nil || !leads {
		t.Errorf("something else has the same leader: %v", err)
	}
	_, err = s.Lead(ctx, "other", api.NewOwnerID(), time.Hour)
	wantKind(t, err, api.KindNotFound)

	// The next run of a node is the heir of the one before at once, however long its lease would be.
	next := api.NewOwnerID()
	lastNode, err := s.NodeOfOwner(ctx, last)
	must(t, err)
	must(t, s.InsertOwner(ctx, store.Owner{ID: next, Host: "h", LockPath: "/last", StartedAt: began, Node: lastNode.ID}))
	inherit(next, time.Hour, last)
	wantKind(t, s.UpdateSandbox(ctx, box), api.KindConflict)
	taken.Owner = next
	must(t, s.UpdateSandbox(ctx, taken))
}

// testMove: a sandbox that is paused to disk gets another owner only as it was read, and only one that lives.
func testMove(t *testing.T, s store.Store) {
	ctx := t.Context()
	owner := func() api.OwnerID {
		id := api.NewOwnerID()
		must(t, s.InsertOwner(ctx, store.Owner{ID: id, Host: "h", LockPath: "/" + string(id), StartedAt: began}))
		return id
	}
	from, to, other, dead := owner(), owner(), owner(), owner()
	must(t, s.EndOwner(ctx, dead, began))
	box := api.Sandbox{ID: api.NewSandboxID(), Owner: from, State: api.SandboxRunning, Env: map[string]string{"A": "secret"}, CreatedAt: began, Snapshot: api.NewSnapshotID(), Moving: true}
	must(t, s.InsertSandbox(ctx, box))
	command := api.Exec{ID: api.NewExecID(), Sandbox: box.ID, Args: []string{"true"}, State: api.ExecRunning, StartedAt: began}
	must(t, s.InsertExec(ctx, command))
	wantKind(t, s.MoveSandbox(ctx, box, to), api.KindConflict) // it runs
	box.State = api.SandboxPaused
	must(t, s.UpdateSandbox(ctx, box))
	wantKind(t, s.MoveSandbox(ctx, box, dead), api.KindConflict)
	wantKind(t, s.MoveSandbox(ctx, box, from), api.KindInvalid)
	for _, change := range []func(*api.Sandbox){
		func(b *api.Sandbox) { b.Owner = other }, func(b *api.Sandbox) { b.Snapshot = api.NewSnapshotID() },
		func(b *api.Sandbox) { b.Moving = false }, func(b *api.Sandbox) { b.State = api.SandboxRunning },
	} {
		stale := box
		change(&stale)
		wantKind(t, s.MoveSandbox(ctx, stale, to), api.KindConflict)
	}
	unknown := box
	unknown.ID = api.NewSandboxID()
	wantKind(t, s.MoveSandbox(ctx, unknown, to), api.KindNotFound)

	must(t, s.MoveSandbox(ctx, box, to))
	have, err := s.Sandbox(ctx, box.ID)
	must(t, err)
	if have.Owner != to || have.State != api.SandboxPaused || !have.Moving || have.Env["A"] != "secret" || have.Snapshot != box.Snapshot {
		t.Errorf("after the move: %+v", have)
	}
	wantKind(t, s.MoveSandbox(ctx, box, other), api.KindConflict)
	wantKind(t, s.UpdateSandbox(ctx, box), api.KindConflict) // it is not the first owner's any more
	command.OutputBytes = 3
	have.State, have.Moving = api.SandboxRunning, false
	must(t, s.UpdateSandbox(ctx, have))
	must(t, s.UpdateExec(ctx, command))

	// Of several moves of one sandbox one succeeds.
	have.State = api.SandboxPaused
	must(t, s.UpdateSandbox(ctx, have))
	errs := make([]error, 2)
	var moves sync.WaitGroup
	for i, next := range []api.OwnerID{from, other} {
		moves.Go(func() { errs[i] = s.MoveSandbox(ctx, have, next) })
	}
	moves.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("two moves at once: %v", errs)
	}
}

// testHandOver: a task that goes to another owner is that of an owner which has ended and whose only heir the other one is, with its journal and its workspace.
func testHandOver(t *testing.T, s store.Store) {
	ctx := t.Context()
	join := func(name string) api.OwnerID {
		n, id := api.NewNodeID(), api.NewOwnerID()
		must(t, s.InsertOwner(ctx, store.Owner{ID: id, Host: "h", LockPath: "/" + name, StartedAt: began, Node: n}))
		must(t, s.PutNode(ctx, store.Node{ID: n, Name: name, Owner: id, State: api.NodeReady}))
		return id
	}
	from, to, other, dead := join("from"), join("to"), join("other"), join("dead")
	must(t, s.EndOwner(ctx, dead, began))
	begin := func(owner api.OwnerID) api.Task {
		row := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, Owner: owner, CreatedAt: began}
		must(t, s.InsertRun(ctx, store.Run{ID: string(row.ID), Kind: "task", Owner: owner, Epoch: 1, Input: []byte("{}"), CreatedAt: began}))
		must(t, s.InsertTask(ctx, row))
		return row
	}
	row, stays := begin(from), begin(from)
	space := api.Workspace{ID: api.NewWorkspaceID(), Owner: from, State: api.WorkspaceIdle, CreatedAt: began}
	must(t, s.InsertWorkspace(ctx, space))

	wantKind(t, s.HandOverTask(ctx, row.ID, space.ID, from, dead), api.KindConflict)
	wantKind(t, s.HandOverTask(ctx, row.ID, space.ID, dead, to), api.KindConflict)
	wantKind(t, s.HandOverTask(ctx, row.ID, space.ID, other, to), api.KindConflict)
	wantKind(t, s.HandOverTask(ctx, api.NewTaskID(), "", from, to), api.KindConflict)
	ended := begin(from)
	ended.State, ended.EndedAt = api.TaskDone, began
	must(t, s.UpdateTask(ctx, ended))
	wantKind(t, s.HandOverTask(ctx, ended.ID, "", from, to), api.KindConflict)
	owners := func() (task, run, workspace api.OwnerID) {
		have, err := s.Task(ctx, row.ID)
		must(t, err)
		w, err := s.Workspace(ctx, space.ID)
		must(t, err)
		runs, err := s.UnfinishedRuns(ctx, "task", dead)
		must(t, err)
		for _, r := range runs {
			if r.ID == string(row.ID) {
				run = r.Owner
			}
		}
		return have.Owner, run, w.Owner
	}
	if a, b, c := owners(); a != from || b != from || c != from {
		t.Fatalf("after refusals the owners are %s, %s and %s, not %s", a, b, c, from)
	}

	must(t, s.HandOverTask(ctx, row.ID, space.ID, from, to))
	departed, run, workspace := owners()
	if departed == from || departed == to || run != departed || workspace != departed {
		t.Fatalf("the owners are %s, %s and %s", departed, run, workspace)
	}
	was, err := s.NodeOfOwner(ctx, from)
	must(t, err)
	if n, err := s.NodeOfOwner(ctx, departed); err != nil || n.ID != was.ID {
		t.Errorf("the node of what was handed over: %+v, %v", n, err)
	}
	wantKind(t, s.HandOverTask(ctx, row.ID, space.ID, from, other), api.KindConflict) // it is another's now
	_, err = s.EndRun(ctx, string(row.ID), from, store.RunEnd{At: began.Add(time.Second)})
	wantKind(t, err, api.KindConflict)
	for heir, want := range map[api.OwnerID]int{other: 0, from: 0, to: 1} {
		all, err := s.InheritOwners(ctx, heir, time.Hour, nil)
		must(t, err)
		got := 0
		for _, i := range all {
			if i.Owner == departed && i.Node == was.ID {
				got++
			}
		}
		if got != want {
			t.Errorf("%s inherits it %d times, want %d: %+v", heir, got, want, all)
		}
	}
	_, err = s.TakeRun(ctx, string(row.ID), departed, to, began.Add(time.Second))
	must(t, err)
	row.Owner = to
	must(t, s.UpdateTask(ctx, row))
	if have, err := s.Task(ctx, stays.ID); err != nil || have.Owner != from {
		t.Errorf("another task of the same owner: %+v, %v", have, err)
	}
}
