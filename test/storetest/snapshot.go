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
	n.State, n.Owner, n.Account = api.SnapshotReady, owner, "alice"
	must(t, s.InsertSnapshot(ctx, n))
	got, err := s.Snapshot(ctx, n.ID)
	must(t, err)
	if diff := cmp.Diff(n, got); diff != "" {
		t.Error("insert:", diff)
	}
	saving := newSnapshot(t, s, func(p *api.Snapshot) { p.State, p.CreatedAt = api.SnapshotSaving, began.Add(time.Hour) })
	all, err := s.ListSnapshots(ctx, true)
	must(t, err)
	if diff := cmp.Diff([]api.Snapshot{saving, n}, all); diff != "" {
		t.Error("list:", diff)
	}
	template := newSnapshot(t, s, func(p *api.Snapshot) { p.Name, p.CreatedAt = "web", began.Add(-time.Hour) })
	newSnapshot(t, s, func(p *api.Snapshot) { p.Name, p.State = "web", api.SnapshotSaving })
	broken := newSnapshot(t, s, func(p *api.Snapshot) {
		p.Name, p.State, p.Account, p.CreatedAt = "web", api.SnapshotBroken, n.Account, began.Add(2*time.Hour)
	})
	page := func(account string, all bool) []api.Snapshot {
		return rows(t, func(p api.PageRequest) ([]api.Snapshot, string, error) { return s.SnapshotPage(ctx, account, all, p) })
	}
	for name, c := range map[string]struct{ want, got []api.Snapshot }{
		"of an account":        {[]api.Snapshot{broken, n}, page(n.Account, true)},
		"its live ones":        {[]api.Snapshot{n}, page(n.Account, false)},
		"of another account":   {nil, page("nobody", true)},
		"operator's templates": {[]api.Snapshot{template}, rows(t, func(p api.PageRequest) ([]api.Snapshot, string, error) { return s.TemplatePage(ctx, p) })},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if live, err := s.ListSnapshots(ctx, false); err != nil || len(live) != 4 || live[0].ID != saving.ID {
		t.Errorf("live: %+v, %v", live, err)
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
	_, _, err = s.SnapshotPage(ctx, "", true, api.PageRequest{Limit: -1})
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
