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

	wantKind(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{row.ID}, Workspaces: []api.WorkspaceID{space.ID}}, from, dead), api.KindConflict)
	wantKind(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{row.ID}, Workspaces: []api.WorkspaceID{space.ID}}, dead, to), api.KindConflict)
	wantKind(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{row.ID}, Workspaces: []api.WorkspaceID{space.ID}}, other, to), api.KindConflict)
	wantKind(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{api.NewTaskID()}}, from, to), api.KindConflict)
	ended := begin(from)
	ended.State, ended.EndedAt = api.TaskDone, began
	must(t, s.UpdateTask(ctx, ended))
	wantKind(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{ended.ID}}, from, to), api.KindConflict)
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

	must(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{row.ID}, Workspaces: []api.WorkspaceID{space.ID}}, from, to))
	departed, run, workspace := owners()
	if departed == from || departed == to || run != departed || workspace != departed {
		t.Fatalf("the owners are %s, %s and %s", departed, run, workspace)
	}
	was, err := s.NodeOfOwner(ctx, from)
	must(t, err)
	if n, err := s.NodeOfOwner(ctx, departed); err != nil || n.ID != was.ID {
		t.Errorf("the node of what was handed over: %+v, %v", n, err)
	}
	for id, want := range map[api.OwnerID]bool{departed: true, from: false, to: false, dead: false, api.NewOwnerID(): false} {
		if got, err := s.HandedOver(ctx, id); err != nil || got != want {
			t.Errorf("owner %s was made to hand something over: %t, %v", id, got, err)
		}
	}
	wantKind(t, s.HandOver(ctx, store.Work{Tasks: []api.TaskID{row.ID}, Workspaces: []api.WorkspaceID{space.ID}}, from, other), api.KindConflict) // it is another's now
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

// testHandOverTogether: a session, and a plan with its tasks, go to another owner as a whole or not at all.
func testHandOverTogether(t *testing.T, s store.Store) {
	ctx := t.Context()
	join := func(name string) api.OwnerID {
		n, id := api.NewNodeID(), api.NewOwnerID()
		must(t, s.InsertOwner(ctx, store.Owner{ID: id, Host: "h", LockPath: "/" + name, StartedAt: began, Node: n}))
		must(t, s.PutNode(ctx, store.Node{ID: n, Name: name, Owner: id, State: api.NodeReady}))
		return id
	}
	from, to := join("from"), join("to")
	task := func(ended bool) api.TaskID {
		row := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, Owner: from, CreatedAt: began}
		must(t, s.InsertRun(ctx, store.Run{ID: string(row.ID), Kind: "task", Owner: from, Epoch: 1, Input: []byte("{}"), CreatedAt: began}))
		must(t, s.InsertTask(ctx, row))
		if ended {
			row.State, row.EndedAt = api.TaskDone, began
			must(t, s.UpdateTask(ctx, row))
		}
		return row.ID
	}
	plan := func(done bool) api.PlanID {
		row := store.Plan{ID: api.NewPlanID(), Repository: "r", Owner: from, CreatedAt: began, Doc: []byte("{}")}
		if row.Done = done; done {
			row.EndedAt = began
		}
		must(t, s.InsertPlan(ctx, row, 9))
		return row.ID
	}
	session := func(closed bool) api.SessionID {
		row := store.Session{ID: api.NewSessionID(), Key: string(api.NewSessionID()), Owner: from, CreatedAt: began, Doc: []byte("{}")}
		must(t, s.InsertSession(ctx, row, 9))
		if closed {
			row.Closed, row.EndedAt = true, began
			must(t, s.UpdateSession(ctx, from, row))
		}
		return row.ID
	}
	space := api.Workspace{ID: api.NewWorkspaceID(), Owner: from, State: api.WorkspaceIdle, CreatedAt: began}
	must(t, s.InsertWorkspace(ctx, space))
	spaces := []api.WorkspaceID{space.ID, api.NewWorkspaceID()} // one is gone by now
	one, two, talk, work := task(false), task(false), session(false), plan(false)
	owners := func() (all []api.OwnerID) {
		for _, id := range []api.TaskID{one, two} {
			row, err := s.Task(ctx, id)
			must(t, err)
			all = append(all, row.Owner)
		}
		p, err := s.Plan(ctx, work)
		must(t, err)
		c, err := s.Session(ctx, talk)
		must(t, err)
		w, err := s.Workspace(ctx, space.ID)
		must(t, err)
		runs, err := s.UnfinishedRuns(ctx, "task", to)
		must(t, err)
		for _, r := range runs {
			all = append(all, r.Owner)
		}
		return append(all, p.Owner, c.Owner, w.Owner)
	}
	for name, w := range map[string]store.Work{
		"a task that has ended":  {Plan: work, Tasks: []api.TaskID{one, task(true)}, Workspaces: spaces},
		"a plan that is done":    {Plan: plan(true), Tasks: []api.TaskID{one}, Workspaces: spaces},
		"a closed session":       {Session: session(true), Workspaces: spaces},
		"a session that is gone": {Session: api.NewSessionID(), Plan: work},
	} {
		if err := s.HandOver(ctx, w, from, to); api.KindOf(err) != api.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range owners() {
		if o != from {
			t.Fatalf("after refusals something is of owner %s", o)
		}
	}
	must(t, s.HandOver(ctx, store.Work{Plan: work, Tasks: []api.TaskID{one, two}, Workspaces: spaces, Session: talk}, from, to))
	left := map[api.OwnerID]int{}
	for _, o := range owners() {
		left[o]++
	}
	// Two tasks, their journals, the plan, the session and the workspace. The journal of the task that has ended stays.
	if len(left) != 2 || left[from] != 1 {
		t.Errorf("the owners are %v", left)
	}
	all, err := s.InheritOwners(ctx, to, time.Hour, nil)
	must(t, err)
	if len(all) != 1 || left[all[0].Owner] != 7 {
		t.Errorf("the other owner inherits %+v", all)
	}
}
