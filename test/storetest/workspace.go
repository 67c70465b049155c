package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newWorkspace(t *testing.T, s store.Store, change func(*api.Workspace)) api.Workspace {
	t.Helper()
	w := api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceIdle, Layers: []string{"sha256-a"}, CreatedAt: began}
	if change != nil {
		change(&w)
	}
	must(t, s.InsertWorkspace(t.Context(), w))
	return w
}

func testWorkspaces(t *testing.T, s store.Store) {
	ctx := t.Context()
	owner := newOwner(t, s)
	var w api.Workspace
	fill(&w)
	w.State, w.Owner, w.Account, w.Name = api.WorkspaceActive, owner, "alice", "shop"
	must(t, s.InsertWorkspace(ctx, w))
	got, err := s.Workspace(ctx, w.ID)
	must(t, err)
	if diff := cmp.Diff(w, got); diff != "" {
		t.Error("insert:", diff)
	}
	plain := newWorkspace(t, s, func(p *api.Workspace) { p.CreatedAt = began.Add(time.Hour) })
	removed := newWorkspace(t, s, func(p *api.Workspace) {
		p.State, p.Name, p.Account, p.Keep = api.WorkspaceRemoved, w.Name, w.Account, true
	})
	page := func(account string) func() ([]api.Workspace, error) {
		return func() ([]api.Workspace, error) {
			all, _ := walk(t, 1, func(p api.PageRequest) ([]api.Workspace, string, error) { return s.WorkspacePage(ctx, account, p) })
			return all, nil
		}
	}
	checkLists(t, func(w api.Workspace) string { return string(w.ID) }, []listed[api.Workspace]{
		{"list", func() ([]api.Workspace, error) { return s.ListWorkspaces(ctx) }, []api.Workspace{plain, w}},
		{"named", func() ([]api.Workspace, error) { return s.NamedWorkspaces(ctx, w.Account, w.Name) }, []api.Workspace{w}},
		{"named by the operator", func() ([]api.Workspace, error) { return s.NamedWorkspaces(ctx, "", w.Name) }, nil},
		{"injection", func() ([]api.Workspace, error) { return s.NamedWorkspaces(ctx, w.Account, "' OR 1=1 --") }, nil},
		{"page", page(""), []api.Workspace{plain, w}},
		{"page of an account", page(w.Account), []api.Workspace{w}},
		{"page of another account", page("nobody"), nil},
	})
	if got, err := s.Workspace(ctx, removed.ID); err != nil || got.State != api.WorkspaceRemoved {
		t.Errorf("removed: %+v, %v", got, err)
	}
	for account, want := range map[string]int{w.Account: 1, "": 0} {
		if n, err := s.KeptWorkspaces(ctx, account, 9); err != nil || n != want {
			t.Errorf("account %q keeps %d workspaces, %v; want %d", account, n, err, want)
		}
	}
	newWorkspace(t, s, func(p *api.Workspace) { p.Account, p.Keep, p.CreatedAt = w.Account, true, began.Add(-time.Hour) })
	if n, err := s.KeptWorkspaces(ctx, w.Account, 1); err != nil || n != 1 {
		t.Errorf("up to one: %d, %v", n, err)
	}
	found, err := s.FindWorkspaceOf(ctx, "", string(plain.ID)[1:6])
	if must(t, err); found != plain.ID {
		t.Errorf("found %s; want %s", found, plain.ID)
	}
	_, err = s.FindWorkspaceOf(ctx, "another", string(plain.ID))
	wantKind(t, err, api.KindNotFound)
	id := plain.ID
	plain = w
	plain.ID = id
	must(t, s.UpdateWorkspace(ctx, plain))
	got, err = s.Workspace(ctx, id)
	must(t, err)
	if diff := cmp.Diff(plain, got); diff != "" {
		t.Error("update:", diff)
	}
	archived := &api.WorkspaceArchive{Ref: "0123", Bytes: 7, Of: id, Layers: []string{"a"}, Task: api.NewTaskID(), Step: "round 2", StoredAt: began}
	changed, err := s.ChangeWorkspace(ctx, id, func(w *api.Workspace) error { w.Archived = archived; return nil })
	must(t, err)
	plain.Archived = archived
	got, err = s.Workspace(ctx, id)
	if must(t, err); !cmp.Equal(plain, got) || !cmp.Equal(plain, changed) {
		t.Error("change:", cmp.Diff(plain, got), cmp.Diff(plain, changed))
	}
	_, err = s.ChangeWorkspace(ctx, id, func(*api.Workspace) error { return api.Errorf(api.KindConflict, "no") })
	wantKind(t, err, api.KindConflict)
	_, err = s.ChangeWorkspace(ctx, api.NewWorkspaceID(), func(*api.Workspace) error { return nil })
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.InsertWorkspace(ctx, w), api.KindExists)
	wantKind(t, s.InsertWorkspace(ctx, api.Workspace{ID: api.NewWorkspaceID(), State: "odd", CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertWorkspace(ctx, api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceIdle}), api.KindInvalid)
	_, err = s.Workspace(ctx, api.NewWorkspaceID())
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.UpdateWorkspace(ctx, api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceIdle, CreatedAt: began}), api.KindNotFound)
	w.Owner = api.NewOwnerID()
	wantKind(t, s.UpdateWorkspace(ctx, w), api.KindConflict)
	_, _, err = s.WorkspacePage(ctx, "", api.PageRequest{Limit: -1})
	wantKind(t, err, api.KindInvalid)
}
