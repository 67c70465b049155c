package database

import (
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// TestHalfTakenOver: an heir ends after it took the journal of a task, and before it took the task. Who takes over from it gets both, and the
// node of the task gets neither when it is back.
func TestHalfTakenOver(t *testing.T) {
	db, ctx, now := newTest(t), t.Context(), time.Now()
	const silent, nobody = -time.Hour, 1000 * time.Hour
	run := func(node api.NodeID, name string) api.OwnerID {
		id := api.NewOwnerID()
		must(t, db.InsertOwner(ctx, store.Owner{ID: id, Host: name, LockPath: "/" + name, StartedAt: now, Node: node}))
		return id
	}
	join := func(name string) (api.NodeID, api.OwnerID) {
		node := api.NewNodeID()
		owner := run(node, name)
		must(t, db.PutNode(ctx, store.Node{ID: node, Name: name, Owner: owner, State: api.NodeReady}))
		return node, owner
	}
	b, first := join("b")
	_, heir := join("w")
	task := api.NewTaskID()
	must(t, db.InsertTask(ctx, api.Task{ID: task, Owner: first, State: api.TaskRunning, CreatedAt: now}))
	must(t, db.InsertRun(ctx, store.Run{ID: string(task), Kind: "task", Owner: first, CreatedAt: now}))
	must(t, db.EndOwner(ctx, first, now))
	inherits := func(by api.OwnerID, lease time.Duration) map[api.OwnerID]bool {
		all, err := db.InheritOwners(ctx, by, lease, nil)
		must(t, err)
		out := map[api.OwnerID]bool{}
		for _, i := range all {
			out[i.Owner] = true
		}
		return out
	}
	if !inherits(heir, silent)[first] {
		t.Fatal("the heir does not inherit")
	}
	_, err := db.TakeRun(ctx, string(task), first, heir, now)
	must(t, err)
	must(t, db.EndOwner(ctx, heir, now))
	if back := inherits(run(b, "b"), nobody); len(back) > 0 {
		t.Errorf("the node of the task inherits half of it: %v", back)
	}
	_, last := join("v")
	if got := inherits(last, silent); !got[first] || !got[heir] {
		t.Errorf("the heir of the heir inherits %v of %s and %s", got, first, heir)
	}
}
