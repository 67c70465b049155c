package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testSignIns(t *testing.T, s store.Store) {
	ctx := t.Context()
	key := newKey(t, s, "of-sign-in", nil)
	insert := func(hash string, created, used time.Time) {
		t.Helper()
		must(t, s.InsertSignIn(ctx, store.SignIn{Hash: hash, Key: key.ID, CreatedAt: created, UsedAt: used}, began, began, 2))
	}
	there := func(hash string, want bool) {
		t.Helper()
		if _, err := s.SignIn(ctx, hash); want != (err == nil) {
			t.Errorf("sign-in %s: %v", hash, err)
		} else if err != nil {
			wantKind(t, err, api.KindNotFound)
		}
	}
	insert("h1", began, began.Add(time.Second))
	got, err := s.SignIn(ctx, "h1")
	must(t, err)
	if diff := cmp.Diff(store.SignIn{Hash: "h1", Key: key.ID, CreatedAt: began, UsedAt: began.Add(time.Second)}, got); diff != "" {
		t.Error(diff)
	}
	must(t, s.UseSignIn(ctx, "h1", began.Add(time.Hour)))
	if got, err := s.SignIn(ctx, "h1"); err != nil || !got.UsedAt.Equal(began.Add(time.Hour)) {
		t.Error(got, err)
	}
	must(t, s.UseSignIn(ctx, "none", began))

	// The newest two of a key are kept; those of other keys do not count.
	insert("h2", began, began)
	other := newKey(t, s, "of-other", nil)
	must(t, s.InsertSignIn(ctx, store.SignIn{Hash: "o1", Key: other.ID, CreatedAt: began, UsedAt: began}, began, began, 2))
	insert("h3", began, began)
	there("h1", false)
	there("h2", true)
	there("o1", true)

	// What is too old ends, by either time.
	must(t, s.UseSignIn(ctx, "h2", began.Add(time.Hour)))
	must(t, s.InsertSignIn(ctx, store.SignIn{Hash: "o2", Key: other.ID, CreatedAt: began.Add(time.Hour), UsedAt: began.Add(time.Hour)}, began, began.Add(time.Minute), 2))
	there("h2", true)
	there("h3", false)
	there("o1", false)
	must(t, s.InsertSignIn(ctx, store.SignIn{Hash: "o3", Key: other.ID, CreatedAt: began.Add(time.Hour), UsedAt: began.Add(time.Hour)}, began.Add(time.Minute), began, 2))
	there("h2", false)
	there("o2", true)

	must(t, s.RemoveSignIn(ctx, "o2"))
	must(t, s.RemoveSignIn(ctx, "o2"))
	there("o2", false)
	wantKind(t, s.InsertSignIn(ctx, store.SignIn{Hash: "o3", Key: other.ID, CreatedAt: began, UsedAt: began}, began, began, 2), api.KindExists)
	wantKind(t, s.InsertSignIn(ctx, store.SignIn{Key: other.ID, CreatedAt: began, UsedAt: began}, began, began, 2), api.KindInvalid)
	if err := s.InsertSignIn(ctx, store.SignIn{Hash: "h9", Key: api.NewKeyID(), CreatedAt: began, UsedAt: began}, began, began, 2); err == nil {
		t.Error("a sign-in with a key that never was")
	}
	if k, err := s.Key(ctx, key.ID); err != nil || k.ID != key.ID {
		t.Error(k, err)
	}
}
