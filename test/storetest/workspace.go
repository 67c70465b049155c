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
	all, err := s.Workspaces(ctx, store.WorkspaceFilter{})
	must(t, err)
	if diff := cmp.Diff([]api.Workspace{plain, w}, all); diff != "" {
		t.Error("list:", diff)
	}
	for name, f := range map[string]store.WorkspaceFilter{
		"state": {States: []api.WorkspaceState{api.WorkspaceActive}}, "owner": {Owner: owner}, "task": {Task: w.Task}, "account": {Account: w.Account}, "name": {Name: w.Name}, "keep": {Keep: true},
	} {
		some, err := s.Workspaces(ctx, f)
		must(t, err)
		if diff := cmp.Diff([]api.Workspace{w}, some); diff != "" {
			t.Errorf("filter by %s: %s", name, diff)
		}
	}
	own, err := s.Workspaces(ctx, store.WorkspaceFilter{NoAccount: true})
	must(t, err)
	if diff := cmp.Diff([]api.Workspace{plain}, own); diff != "" {
		t.Error("the operator's own:", diff)
	}
	page, next, err := s.WorkspacePage(ctx, store.WorkspaceFilter{Limit: 1})
	must(t, err)
	if diff := cmp.Diff([]api.Workspace{plain}, page); diff != "" {
		t.Error("page:", diff)
	}
	page, next, err = s.WorkspacePage(ctx, store.WorkspaceFilter{Limit: 1, After: next})
	must(t, err)
	if diff := cmp.Diff([]api.Workspace{w}, page); diff != "" || !next.IsZero() {
		t.Error("last page:", diff, next)
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
	wantKind(t, s.InsertWorkspace(ctx, w), api.KindExists)
	wantKind(t, s.InsertWorkspace(ctx, api.Workspace{ID: api.NewWorkspaceID(), State: "odd", CreatedAt: began}), api.KindInvalid)
	wantKind(t, s.InsertWorkspace(ctx, api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceIdle}), api.KindInvalid)
	_, err = s.Workspace(ctx, api.NewWorkspaceID())
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.UpdateWorkspace(ctx, api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceIdle, CreatedAt: began}), api.KindNotFound)
	w.Owner = api.NewOwnerID()
	wantKind(t, s.UpdateWorkspace(ctx, w), api.KindNotFound)
	_, err = s.Workspaces(ctx, store.WorkspaceFilter{Limit: -1})
	wantKind(t, err, api.KindInvalid)
}
