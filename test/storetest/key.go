package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newKey(t *testing.T, s store.Store, hash string, change func(*api.Key)) api.Key {
	t.Helper()
	k := api.Key{ID: api.NewKeyID(), Account: "a", Role: api.RoleUser, CreatedAt: began}
	if change != nil {
		change(&k)
	}
	must(t, s.InsertKey(t.Context(), k, hash))
	return k
}

func testKeys(t *testing.T, s store.Store) {
	ctx := t.Context()
	var k api.Key
	fill(&k)
	k.Role, k.RevokedAt = api.RoleAdmin, time.Time{}
	must(t, s.InsertKey(ctx, k, "h1"))
	got, err := s.KeyByHash(ctx, "h1")
	must(t, err)
	if diff := cmp.Diff(k, got); diff != "" {
		t.Error("by hash:", diff)
	}
	other := newKey(t, s, "h2", func(o *api.Key) { o.ID, o.CreatedAt = "k7777777777777777777", began.Add(time.Hour) })
	for name, c := range map[string]struct {
		p    api.PageRequest
		want []api.Key
	}{
		"all": {api.PageRequest{}, []api.Key{other, k}}, "limit": {api.PageRequest{Limit: 1}, []api.Key{other}},
	} {
		got, _, err := s.KeyPage(ctx, true, c.p)
		must(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("list, %s: %s", name, diff)
		}
	}
	for _, prefix := range []string{"k7777777", "777777", string(other.ID)} {
		if id, err := s.FindKey(ctx, prefix); id != other.ID || err != nil {
			t.Errorf("%q: got %q, %v", prefix, id, err)
		}
	}

	// Nothing is found by half a hash, or by another.
	for _, hash := range []string{"", "h", "H1", "h1 ", "%", "h_"} {
		_, err := s.KeyByHash(ctx, hash)
		wantKind(t, err, api.KindNotFound)
	}
	_, err = s.FindKey(ctx, "%")
	wantKind(t, err, api.KindNotFound)
	_, _, err = s.KeyPage(ctx, true, api.PageRequest{Limit: -1})
	wantKind(t, err, api.KindInvalid)
	fresh := api.Key{ID: api.NewKeyID(), Account: "a", Role: api.RoleUser, CreatedAt: began}
	wantKind(t, s.InsertKey(ctx, fresh, "h1"), api.KindExists)
	fresh.ID = other.ID
	wantKind(t, s.InsertKey(ctx, fresh, "h3"), api.KindExists)
	for _, bad := range []func(*api.Key){
		func(k *api.Key) { k.ID = "" }, func(k *api.Key) { k.Account = "" }, func(k *api.Key) { k.Role = "root" },
		func(k *api.Key) { k.Role = "" }, func(k *api.Key) { k.CreatedAt = time.Time{} },
	} {
		b := api.Key{ID: api.NewKeyID(), Account: "a", Role: api.RoleUser, CreatedAt: began}
		bad(&b)
		wantKind(t, s.InsertKey(ctx, b, "h3"), api.KindInvalid)
	}
	fresh.ID = api.NewKeyID()
	wantKind(t, s.InsertKey(ctx, fresh, ""), api.KindInvalid)

	// Revoked once is revoked for good.
	at := began.Add(2 * time.Hour)
	got, err = s.RevokeKey(ctx, other.ID, at)
	must(t, err)
	want := other
	want.RevokedAt = at
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("revoke:", diff)
	}
	got, err = s.RevokeKey(ctx, other.ID, at.Add(time.Hour))
	must(t, err)
	if !got.RevokedAt.Equal(at) {
		t.Errorf("revoked again at %v, first at %v", got.RevokedAt, at)
	}
	if got, err = s.KeyByHash(ctx, "h2"); err != nil || !got.RevokedAt.Equal(at) {
		t.Errorf("found by its hash: %+v, %v", got, err)
	}
	working, _, err := s.KeyPage(ctx, false, api.PageRequest{})
	must(t, err)
	if diff := cmp.Diff([]api.Key{k}, working); diff != "" {
		t.Error("working:", diff)
	}
	_, err = s.RevokeKey(ctx, api.NewKeyID(), at)
	wantKind(t, err, api.KindNotFound)
	_, err = s.RevokeKey(ctx, k.ID, time.Time{})
	wantKind(t, err, api.KindInvalid)
}

// testAccounts looks for what belongs to one account among what belongs to others.
func testAccounts(t *testing.T, s store.Store) {
	ctx := t.Context()
	b1 := newSandbox(t, s, func(b *api.Sandbox) { b.ID, b.Account = "i4f10000000000000000", "a" })
	b2 := newSandbox(t, s, func(b *api.Sandbox) { b.ID, b.Account = "i4f20000000000000000", "b" })
	newSandbox(t, s, func(b *api.Sandbox) { b.ID = "i4f30000000000000000" })
	k1 := newTask(t, s, func(k *api.Task) { k.ID, k.Account = "t4f10000000000000000", "a" })
	k2 := newTask(t, s, func(k *api.Task) { k.ID, k.Account = "t4f20000000000000000", "b" })
	newTask(t, s, func(k *api.Task) { k.ID = "t4f30000000000000000" })
	n1 := newSnapshot(t, s, func(n *api.Snapshot) { n.ID, n.Account = "s4f10000000000000000", "a" })
	n2 := newSnapshot(t, s, func(n *api.Snapshot) { n.ID, n.Account = "s4f20000000000000000", "b" })
	newSnapshot(t, s, func(n *api.Snapshot) { n.ID = "s4f30000000000000000" })

	finds := map[string]func(account, prefix string) (string, error){
		"sandbox": func(a, p string) (string, error) { id, err := s.FindSandboxOf(ctx, a, p); return string(id), err },
		"task":    func(a, p string) (string, error) { id, err := s.FindTaskOf(ctx, a, p); return string(id), err },
		"snapshot": func(a, p string) (string, error) {
			id, err := s.FindSnapshotOf(ctx, a, p)
			return string(id), err
		},
	}
	own := map[string][2]string{
		"sandbox": {string(b1.ID), string(b2.ID)}, "task": {string(k1.ID), string(k2.ID)}, "snapshot": {string(n1.ID), string(n2.ID)},
	}
	for what, find := range finds {
		for i, account := range []string{"a", "b"} {
			// Ambiguous for all together, and for nobody alone.
			if got, err := find(account, "4f"); got != own[what][i] || err != nil {
				t.Errorf("%s of %s: got %q, %v", what, account, got, err)
			}
			// Another's is found neither by its beginning nor whole, and the words
			// are those for what never was.
			_, err := find(account, own[what][1-i])
			wantKind(t, err, api.KindNotFound)
			if want := "unknown " + what + ` "` + own[what][1-i] + `"`; err.Error() != want {
				t.Errorf("%s of another: %q, want %q", what, err, want)
			}
		}
		_, err := find("c", "4f")
		wantKind(t, err, api.KindNotFound)
		_, err = find("", "4f")
		wantKind(t, err, api.KindInvalid)
		_, err = find("' OR 1=1 --", "4f1")
		wantKind(t, err, api.KindNotFound)
	}

	same(t, "sandboxes", []api.Sandbox{b1}, sandboxes(t, s, "a"), func(b api.Sandbox) string { return string(b.ID) })
	// An update keeps it, and what it is found by.
	b1.State = api.SandboxPaused
	must(t, s.UpdateSandbox(ctx, b1))
	sbs, err := s.SandboxesOf(ctx, "a")
	must(t, err)
	same(t, "sandboxes, after an update", []api.Sandbox{b1}, sbs, func(b api.Sandbox) string { return string(b.ID) })
	same(t, "tasks", []api.Task{k2}, tasks(t, s, "b"), func(k api.Task) string { return string(k.ID) })
	var walked []api.Task
	must(t, s.WalkTasks(ctx, "b", time.Time{}, func(k api.Task) error { walked = append(walked, k); return nil }))
	same(t, "walk", []api.Task{k2}, walked, func(k api.Task) string { return string(k.ID) })
	same(t, "snapshots", []api.Snapshot{n1}, snapshots(t, s, "a"), func(n api.Snapshot) string { return string(n.ID) })
}
