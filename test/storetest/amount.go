package storetest

import (
	"encoding/json"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testAmounts: what an account stores is that account's, and what was removed is nobody's.
func testAmounts(t *testing.T, s store.Store) {
	ctx := t.Context()
	ids := map[string][]string{}
	for _, account := range []string{"", "alice", "bob"} {
		task := newTask(t, s, func(k *api.Task) { k.Account = account })
		box := newSandbox(t, s, func(b *api.Sandbox) { b.Account = account })
		space := newWorkspace(t, s, func(w *api.Workspace) { w.Account = account })
		gone := newWorkspace(t, s, func(w *api.Workspace) { w.Account = account })
		gone.State, gone.EndedAt = api.WorkspaceRemoved, began
		must(t, s.UpdateWorkspace(ctx, gone))
		snap := newSnapshot(t, s, func(n *api.Snapshot) { n.Account = account })
		for stream, size := range map[api.Stream]int{
			{Kind: api.StreamTask, ID: string(task.ID)}:   100 * (1 + len(account)),
			{Kind: api.StreamSandbox, ID: string(box.ID)}: 1000,
		} {
			data, err := json.Marshal(string(slices.Repeat([]byte("x"), size-2)))
			must(t, err)
			_, err = s.AppendEvent(ctx, stream, api.EventOutput, began, data)
			must(t, err)
		}
		ids[account] = []string{string(task.ID), string(space.ID), string(snap.ID)}
	}
	got, err := s.Accounts(ctx)
	if must(t, err); !slices.Equal(got, []string{"", "alice", "bob"}) {
		t.Errorf("accounts %q", got)
	}
	for account, want := range ids {
		for i, kind := range []store.Kind{store.KindTask, store.KindWorkspace, store.KindSnapshot} {
			got, err := s.StoredIDs(ctx, kind, account)
			if must(t, err); !slices.Equal(got, want[i:i+1]) {
				t.Errorf("%ss of %q: %q, want %q", kind, account, got, want[i])
			}
		}
		got, err := s.StoredIDs(ctx, store.KindSession, account)
		if must(t, err); len(got) != 0 {
			t.Errorf("sessions of %q: %q", account, got)
		}
		n, err := s.EventBytes(ctx, account)
		if must(t, err); n != int64(1000+100*(1+len(account))) {
			t.Errorf("events of %q have %d bytes", account, n)
		}
	}
	if n, err := s.EventBytes(ctx, "nobody"); n != 0 || err != nil {
		t.Errorf("events of nobody: %d, %v", n, err)
	}
	_, err = s.StoredIDs(ctx, "key", "alice")
	wantKind(t, err, api.KindInvalid)
}
