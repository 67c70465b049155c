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
	wantKind(t, s.UpdateSnapshot(ctx, n), api.KindConflict)
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

	// A change of one field keeps the others, and a final row does not change back.
	changed, err := s.ChangeSnapshot(ctx, found.ID, func(r *api.Snapshot) error { r.Archived = "0123"; return nil })
	must(t, err)
	found.Archived = "0123"
	got, err = s.Snapshot(ctx, found.ID)
	must(t, err)
	if diff := cmp.Diff(found, got) + cmp.Diff(found, changed); diff != "" {
		t.Error("changed:", diff)
	}
	_, err = s.ChangeSnapshot(ctx, found.ID, func(*api.Snapshot) error { return api.Errorf(api.KindConflict, "no") })
	wantKind(t, err, api.KindConflict)
	_, err = s.ChangeSnapshot(ctx, api.NewSnapshotID(), func(*api.Snapshot) error { return nil })
	wantKind(t, err, api.KindNotFound)
	_, err = s.ChangeSnapshot(ctx, broken.ID, func(r *api.Snapshot) error { r.State = api.SnapshotReady; return nil })
	wantKind(t, err, api.KindConflict)
}

// testTemplates changes names of templates in one transaction.
func testTemplates(t *testing.T, s store.Store) {
	ctx := t.Context()
	of := func(account, name string, at time.Duration) api.Snapshot {
		return newSnapshot(t, s, func(p *api.Snapshot) { p.Account, p.Name, p.CreatedAt = account, name, began.Add(at) })
	}
	old, fresh := of("alice", "web:v1", 0), of("alice", "web", time.Hour)
	of("alice", "", 0)
	of("bob", "web", 0)
	shared := of("", "web", 0)
	newSnapshot(t, s, func(p *api.Snapshot) { p.Account, p.Name, p.State = "alice", "web", api.SnapshotRemoved })
	change := func(account string, f func([]api.Snapshot) ([]api.Snapshot, error)) ([]api.Snapshot, error) {
		var got []api.Snapshot
		err := s.ChangeTemplates(ctx, account, func(rows []api.Snapshot) ([]api.Snapshot, error) {
			got = rows
			return f(rows)
		})
		return got, err
	}
	swap := func(rows []api.Snapshot) ([]api.Snapshot, error) {
		rows[0].Name, rows[1].Name = rows[1].Name, rows[0].Name
		rows[0].OtherNames = []string{"web:v2"}
		return rows, nil
	}
	names := func(want ...string) {
		t.Helper()
		for i, id := range []api.SnapshotID{fresh.ID, old.ID} {
			if got, err := s.Snapshot(ctx, id); err != nil || got.Name != want[i] {
				t.Errorf("row %d: %+v, %v; want %s", i, got, err, want[i])
			}
		}
	}
	// An error, also of a later row, changes nothing.
	_, err := change("alice", func(rows []api.Snapshot) ([]api.Snapshot, error) {
		rows, _ = swap(rows)
		return rows, api.Errorf(api.KindConflict, "no")
	})
	wantKind(t, err, api.KindConflict)
	_, err = change("alice", func(rows []api.Snapshot) ([]api.Snapshot, error) {
		rows, _ = swap(rows)
		return append(rows, api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: began}), nil
	})
	wantKind(t, err, api.KindNotFound)
	names("web", "web:v1")
	seen, err := change("alice", swap)
	must(t, err)
	if len(seen) != 2 || seen[0].ID != fresh.ID || seen[1].ID != old.ID {
		t.Errorf("templates of an account: %+v", seen)
	}
	names("web:v1", "web")
	if got, err := s.Snapshot(ctx, fresh.ID); err != nil || len(got.OtherNames) != 1 {
		t.Errorf("other names: %+v, %v", got, err)
	}
	seen, err = change("", func([]api.Snapshot) ([]api.Snapshot, error) { return nil, nil })
	must(t, err)
	if len(seen) != 1 || seen[0].ID != shared.ID {
		t.Errorf("templates of the operator: %+v", seen)
	}
}
