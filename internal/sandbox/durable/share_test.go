package durable

import (
	"bytes"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestShared: two hosts use one workspace under its name; other accounts have others of that name.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	one, other := newHost(t, dir), newHost(t, dir)
	create := func(w *world, account string, req api.CreateWorkspace) (api.Workspace, error) {
		req.Shared = true
		return w.Create(t.Context(), account, req)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := create(one, "alice", api.CreateWorkspace{Name: "shop", QuotaBytes: 1 << 20})
	must(err)
	done, err := one.Open(t.Context(), a.ID)
	must(err)
	one.write(a.ID, "notes.txt", "hello")
	w, err := one.Get(t.Context(), a.ID)
	must(err)
	if v := w.Version; v == nil || v.Number != 0 || !v.Changed {
		t.Errorf("%+v", v)
	}
	z, err := create(other, "alice", api.CreateWorkspace{Name: "shop"})
	must(err)
	if z.ID == a.ID || z.QuotaBytes != 1<<20 {
		t.Errorf("%+v", z)
	}
	if _, err = other.Open(t.Context(), z.ID); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "host host") {
		t.Errorf("a second writer: %v", err)
	}
	done()
	sealed, err := one.Seal(t.Context(), a.ID)
	must(err)
	if v := sealed.Workspace.Version; v == nil || v.Number != 1 || len(sealed.Workspace.Layers) != 2 {
		t.Errorf("%+v", v)
	}
	var tar bytes.Buffer
	if _, err = other.Export(t.Context(), z.ID, false, &tar); err != nil || !strings.Contains(tar.String(), "notes.txt") {
		t.Errorf("a reader: %v", err)
	}
	fork, err := other.Fork(t.Context(), z.ID, api.ForkWorkspace{Name: "mine"})
	must(err)
	if fork.Version != nil {
		t.Errorf("a fork is shared: %+v", fork.Version)
	}

	bob, err := create(other, "bob", api.CreateWorkspace{Name: "shop"})
	must(err)
	if w, err := other.Get(t.Context(), bob.ID); err != nil || w.Version.Number != 0 || len(w.Layers) != 1 {
		t.Errorf("another account has %+v, %v", w, err)
	}
	for what, c := range map[string]struct {
		w    *world
		req  api.CreateWorkspace
		kind api.Kind
	}{
		"no name":       {other, api.CreateWorkspace{}, api.KindInvalid},
		"taken here":    {other, api.CreateWorkspace{Name: "shop"}, api.KindExists},
		"another quota": {newHost(t, dir), api.CreateWorkspace{Name: "shop", QuotaBytes: 1}, api.KindExists},
		"no archive":    {newWorld(t), api.CreateWorkspace{Name: "shop"}, api.KindUnsupported},
	} {
		if _, err := create(c.w, "alice", c.req); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The setting was removed: a sandbox would write what no other host gets.
	other.cfg.Shared, done = nil, nil
	if _, err := other.Open(t.Context(), z.ID); api.KindOf(err) != api.KindUnsupported || !strings.Contains(api.HintOf(err), "daemon.layer-archive") {
		t.Errorf("without an archive: %v", err)
	}
	if _, err := one.Remove(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	again, err := create(one, "alice", api.CreateWorkspace{Name: "shop"})
	must(err)
	if w, err := one.Get(t.Context(), again.ID); err != nil || w.Version.Number != 0 || w.QuotaBytes != 0 {
		t.Errorf("a new one of that name: %+v, %v", w, err)
	}
}
