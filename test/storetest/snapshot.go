package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newSnapshot(t *testing.T, s store.Store, change func(*api.Snapshot)) api.Snapshot {
	t.Helper()
	n := api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, Kind: api.SnapshotFiles, Sandbox: api.NewSandboxID(), CreatedAt: began}
	if change != nil {
		change(&n)
	}
	must(t, s.InsertSnapshot(t.Context(), n))
	return n
}

func testSnapshots(t *testing.T, s store.Store) {
	ctx := t.Context()
	owner := newOwner(t, s)
	var n api.Snapshot
	fill(&n)
	n.State, n.Owner = api.SnapshotReady, owner
	must(t, s.InsertSnapshot(ctx, n))
	got, err := s.Snapshot(ctx, n.ID)
	must(t, err)
	if diff := cmp.Diff(n, got); diff != "" {
		t.Error("insert:", diff)
	}
	saving := newSnapshot(t, s, func(p *api.Snapshot) { p.State, p.CreatedAt = api.SnapshotSaving, began.Add(time.Hour) })
	all, err := s.Snapshots(ctx, store.SnapshotFilter{})
	must(t, err)
	if diff := cmp.Diff([]api.Snapshot{saving, n}, all); diff != "" {
		t.Error("list:", diff)
	}
	for name, f := range map[string]store.SnapshotFilter{
		"state": {States: []api.SnapshotState{api.SnapshotReady}}, "owner": {Owner: owner},
		"sandbox": {Sandbox: n.Sandbox}, "name": {Name: n.Name},
	} {
		some, err := s.Snapshots(ctx, f)
		must(t, err)
		if diff := cmp.Diff([]api.Snapshot{n}, some); diff != "" {
			t.Errorf("filter by %s: %s", name, diff)
		}
	}
	some, err := s.Snapshots(ctx, store.SnapshotFilter{Limit: 1})
	must(t, err)
	if diff := cmp.Diff([]api.Snapshot{saving}, some); diff != "" {
		t.Error("limit:", diff)
	}
	// The same again through an update.
	again := n
	again.ID = saving.ID
	must(t, s.UpdateSnapshot(ctx, again))
	got, err = s.Snapshot(ctx, again.ID)
	must(t, err)
	if diff := cmp.Diff(again, got); diff != "" {
		t.Error("update:", diff)
	}
	wantKind(t, s.InsertSnapshot(ctx, n), api.KindExists)
	wantKind(t, s.InsertSnapshot(ctx, api.Snapshot{ID: api.NewSnapshotID(), State: "odd", CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertSnapshot(ctx, api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady}), api.KindInvalid)
	wantKind(t, s.InsertSnapshot(ctx, api.Snapshot{State: api.SnapshotReady, CreatedAt: began}), api.KindInvalid)
	_, err = s.Snapshot(ctx, api.NewSnapshotID())
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.UpdateSnapshot(ctx, api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: began}), api.KindNotFound)
	n.Owner = api.NewOwnerID()
	wantKind(t, s.UpdateSnapshot(ctx, n), api.KindNotFound)
	_, err = s.Snapshots(ctx, store.SnapshotFilter{Limit: -1})
	wantKind(t, err, api.KindInvalid)

	found := newSnapshot(t, s, func(p *api.Snapshot) { p.ID = "s7777777777777777777" })
	for _, prefix := range []string{"s7777777", "777777", string(found.ID)} {
		if id, err := s.FindSnapshot(ctx, prefix); id != found.ID || err != nil {
			t.Errorf("%q: got %q, %v", prefix, id, err)
		}
	}
	_, err = s.FindSnapshot(ctx, "%")
	wantKind(t, err, api.KindNotFound)
}
