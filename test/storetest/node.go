package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testNodes: nodes renew their leases by the clock of the store, and a run of another node is never this one's.
func testNodes(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b := api.NewNodeID(), api.NewNodeID()
	run := func(n api.NodeID, lock string) api.OwnerID {
		id := api.NewOwnerID()
		must(t, s.InsertOwner(ctx, store.Owner{ID: id, Host: "h", LockPath: lock, StartedAt: began, Node: n}))
		return id
	}
	first, second, other, old := run(a, "/a"), run(a, "/a"), run(b, "/b"), run("", "/old")
	one := store.Node{ID: a, Name: "one", Owner: first, Address: "10.0.0.1:7071", State: api.NodeReady, Capacity: api.NodeCapacity{MemoryBudget: 5, Isolations: []string{"gvisor"}}}
	must(t, s.PutNode(ctx, one))
	got, err := s.Node(ctx, a)
	must(t, err)
	if got.BeatAt.IsZero() || got.Silence < 0 || got.Silence > time.Hour {
		t.Errorf("renewed %s ago, at %s", got.Silence, got.BeatAt)
	}
	same := func(got, want store.Node) {
		t.Helper()
		got.BeatAt, got.Silence = time.Time{}, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	same(got, one)
	wantKind(t, s.PutNode(ctx, store.Node{ID: b, Name: "one", Owner: other, State: api.NodeReady}), api.KindExists)
	wantKind(t, s.PutNode(ctx, store.Node{ID: b, Name: "two", Owner: api.NewOwnerID(), State: api.NodeReady}), api.KindNotFound)
	for _, bad := range []store.Node{{Name: "x", Owner: other, State: api.NodeReady}, {ID: b, Owner: other, State: api.NodeReady}, {ID: b, Name: "x", State: api.NodeReady}, {ID: b, Name: "x", Owner: other}} {
		wantKind(t, s.PutNode(ctx, bad), api.KindInvalid)
	}
	must(t, s.PutNode(ctx, store.Node{ID: b, Name: "two", Owner: other, State: api.NodeReady}))
	all, err := s.Nodes(ctx)
	must(t, err)
	if len(all) != 2 || all[0].Name != "one" || all[1].Name != "two" {
		t.Errorf("%+v", all)
	}

	// The next run of a node is the node, and the run before renews nothing.
	one.Owner, one.Address = second, ""
	must(t, s.PutNode(ctx, one))
	_, err = s.BeatNode(ctx, a, first, api.NodeCapacity{})
	wantKind(t, err, api.KindConflict)
	one.Capacity = api.NodeCapacity{Sandboxes: 3}
	state, err := s.BeatNode(ctx, a, second, one.Capacity)
	must(t, err)
	if state != api.NodeReady {
		t.Errorf("state %s", state)
	}
	for _, run := range []api.OwnerID{first, second} {
		got, err := s.NodeOfOwner(ctx, run)
		must(t, err)
		same(got, one)
	}
	_, err = s.NodeOfOwner(ctx, old)
	wantKind(t, err, api.KindNotFound)
	one.State = api.NodeDraining
	got, err = s.SetNodeState(ctx, a, api.NodeDraining)
	must(t, err)
	same(got, one)
	if state, err = s.BeatNode(ctx, a, second, one.Capacity); err != nil || state != api.NodeDraining {
		t.Errorf("state %s, %v", state, err)
	}
	_, err = s.SetNodeState(ctx, api.NewNodeID(), api.NodeReady)
	wantKind(t, err, api.KindNotFound)

	// Runs that ended count too.
	must(t, s.EndOwner(ctx, other, began))
	elsewhere := func(node api.NodeID, lock string, want ...api.OwnerID) {
		t.Helper()
		got, err := s.OwnersElsewhere(ctx, node, lock)
		must(t, err)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("runs that are not of %s: %v, want %v", node, got, want)
		}
	}
	elsewhere(a, "/a", other, old)
	elsewhere(a, "/old", other)
	elsewhere(b, "/b", first, second, old)

	must(t, s.RemoveNode(ctx, a))
	wantKind(t, s.RemoveNode(ctx, a), api.KindNotFound)
	_, err = s.BeatNode(ctx, a, second, api.NodeCapacity{})
	wantKind(t, err, api.KindNotFound)
}
