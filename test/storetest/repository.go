package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newRepository(t *testing.T, s store.Store, change func(*api.Repository)) api.Repository {
	t.Helper()
	r := api.Repository{ID: api.NewRepositoryID(), State: api.RepositoryReady, URL: "https://example.org/o/r", Key: "k", CreatedAt: began}
	r.Name = "n" + string(r.ID)
	if change != nil {
		change(&r)
	}
	must(t, s.InsertRepository(t.Context(), r))
	return r
}

func testRepositories(t *testing.T, s store.Store) {
	ctx := t.Context()
	owner := newOwner(t, s)
	var r api.Repository
	fill(&r)
	r.State, r.Owner, r.Account = api.RepositoryFailed, owner, "alice"
	must(t, s.InsertRepository(ctx, r))
	got, err := s.Repository(ctx, r.ID)
	must(t, err)
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error("insert:", diff)
	}
	plain := newRepository(t, s, func(p *api.Repository) { p.CreatedAt = began.Add(time.Hour) })
	all, err := s.ListRepositories(ctx)
	must(t, err)
	if diff := cmp.Diff([]api.Repository{plain, r}, all); diff != "" {
		t.Error("list:", diff)
	}
	for _, want := range []api.Repository{r, plain} {
		named, err := s.NamedRepository(ctx, want.Account, want.Name)
		must(t, err)
		if diff := cmp.Diff(want, named); diff != "" {
			t.Error("by name:", diff)
		}
	}
	for _, other := range [][2]string{{"", r.Name}, {r.Account, plain.Name}, {"' OR 1=1 --", plain.Name}} {
		_, err := s.NamedRepository(ctx, other[0], other[1])
		wantKind(t, err, api.KindNotFound)
	}
	// The same again through an update.
	again := r
	again.ID, again.Name = plain.ID, plain.Name
	must(t, replaceRepository(ctx, s, again))
	got, err = s.Repository(ctx, again.ID)
	must(t, err)
	if diff := cmp.Diff(again, got); diff != "" {
		t.Error("update:", diff)
	}
	wantKind(t, s.InsertRepository(ctx, r), api.KindExists)
	wantKind(t, s.InsertRepository(ctx, api.Repository{ID: api.NewRepositoryID(), State: "odd", CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertRepository(ctx, api.Repository{ID: api.NewRepositoryID(), State: api.RepositoryReady}), api.KindInvalid)
	_, err = s.Repository(ctx, api.NewRepositoryID())
	wantKind(t, err, api.KindNotFound)
	wantKind(t, replaceRepository(ctx, s, api.Repository{ID: api.NewRepositoryID(), State: api.RepositoryReady, CreatedAt: began}), api.KindNotFound)
	_, _, err = s.RepositoryPage(ctx, "", api.PageRequest{Limit: -1})
	wantKind(t, err, api.KindInvalid)
	one, next, err := s.RepositoryPage(ctx, "", api.PageRequest{Limit: 1})
	must(t, err)
	two, end, err := s.RepositoryPage(ctx, "", api.PageRequest{Limit: 1, Cursor: next})
	must(t, err)
	if len(one) != 1 || len(two) != 1 || one[0].ID == two[0].ID || end != "" {
		t.Errorf("pages: %v, %v, %v", one, two, end)
	}
	found := newRepository(t, s, func(p *api.Repository) { p.ID, p.Account = "r7777777777777777777", "acme" })
	newRepository(t, s, func(p *api.Repository) { p.Account, p.State, p.EndedAt = "acme", api.RepositoryRemoved, began })
	some, _, err := s.RepositoryPage(ctx, "acme", api.PageRequest{})
	must(t, err)
	if diff := cmp.Diff([]api.Repository{found}, some); diff != "" {
		t.Error("of an account:", diff)
	}
	for _, prefix := range []string{"r7777777", "777777", string(found.ID)} {
		if id, err := s.FindRepositoryOf(ctx, "acme", prefix); id != found.ID || err != nil {
			t.Errorf("%q: got %q, %v", prefix, id, err)
		}
	}
	_, err = s.FindRepositoryOf(ctx, "other", "r7777777")
	wantKind(t, err, api.KindNotFound)
}

// testRepositoryNames gives a name twice: to two accounts, and again after a removal.
func testRepositoryNames(t *testing.T, s store.Store) {
	ctx := t.Context()
	named := func(account string) api.Repository {
		return api.Repository{ID: api.NewRepositoryID(), State: api.RepositoryReady, Name: "web", Key: "k", Account: account, CreatedAt: began}
	}
	for _, account := range []string{"", "alice", "bob"} {
		first := named(account)
		must(t, s.InsertRepository(ctx, first))
		wantKind(t, s.InsertRepository(ctx, named(account)), api.KindExists)
		first.State, first.EndedAt = api.RepositoryRemoved, began
		must(t, replaceRepository(ctx, s, first))
		must(t, s.InsertRepository(ctx, named(account)))
	}
}

// replaceRepository stores another row in the place of a repository's.
func replaceRepository(ctx context.Context, s store.Store, r api.Repository) error {
	_, err := s.ChangeRepository(ctx, r.ID, func(was *api.Repository) error { *was = r; return nil })
	return err
}

// testRepositoryChanges has several daemons change one repository at once: each change is made to the row that the one before left.
func testRepositoryChanges(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRepository(t, s, nil)
	const each = 20
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range each {
				if _, err := s.ChangeRepository(ctx, r.ID, func(r *api.Repository) error { r.PrepareEveryMS++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := s.Repository(ctx, r.ID)
	must(t, err)
	if got.PrepareEveryMS != r.PrepareEveryMS+4*each {
		t.Errorf("%d changes are left of %d", got.PrepareEveryMS-r.PrepareEveryMS, 4*each)
	}
	refused := api.Errorf(api.KindDenied, "refused")
	_, err = s.ChangeRepository(ctx, r.ID, func(r *api.Repository) error { r.Subject = "lost"; return refused })
	wantKind(t, err, api.KindDenied)
	if now, err := s.Repository(ctx, r.ID); err != nil || now.Subject != got.Subject {
		t.Errorf("a refused change was stored: %q, %v", now.Subject, err)
	}
}
