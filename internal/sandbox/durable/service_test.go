package durable

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/register"
	"hortus.dev/internal/storage/workspace/shared"
	"hortus.dev/internal/store/database"
)

type world struct {
	*Service
	t     *testing.T
	store *workspace.Store
	live  []api.Sandbox
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newHost(t, "")
}

// newHost is newWorld for a host, which shares workspaces in a directory unless that is empty.
func newHost(t *testing.T, dir string) *world {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cfg := layer.Config{Dir: t.TempDir()}
	blobs := archive.Dir{Path: dir}
	if dir != "" {
		cfg.Archive = archive.Archive{Blobs: blobs}
	}
	layers, err := layer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rows := db
	w := &world{t: t}
	var all *shared.Workspaces
	released := func(id api.WorkspaceID) {
		if all != nil {
			all.Released(id)
		}
	}
	if w.store, err = workspace.Open(t.Context(), workspace.Config{Dir: t.TempDir(), Layers: layers, Rows: rows, Released: released}); err != nil {
		t.Fatal(err)
	}
	if dir != "" {
		all = shared.New(shared.Config{Store: w.store, Layers: layers, Register: register.New(register.Config{Blobs: blobs, Host: "host"})})
		if err := all.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { all.Close(context.WithoutCancel(t.Context())); w.store.Close(); layers.Close() })
	}
	w.Service = New(Config{Store: w.store, Layers: layers, Rows: rows, Shared: all, Live: func(context.Context, bool) ([]api.Sandbox, error) { return w.live, nil }})
	return w
}

func (w *world) create(account, name string) api.Workspace {
	w.t.Helper()
	out, err := w.Create(w.t.Context(), account, api.CreateWorkspace{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// write writes a file as a sandbox would have.
func (w *world) write(id api.WorkspaceID, name, text string) {
	w.t.Helper()
	p := filepath.Join(w.store.Dir(), string(id), workspace.Upper, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// TestNames: a name is of one workspace of an account, and of one in each account.
func TestNames(t *testing.T) {
	w := newWorld(t)
	mine, other := w.create("alice", "shop"), w.create("bob", "shop")
	for _, c := range []struct {
		account, scope, name string
		want                 api.WorkspaceID
	}{
		{"alice", "alice", "shop", mine.ID}, {"bob", "bob", "shop", other.ID}, {"alice", "alice", string(mine.ID)[:8], mine.ID},
		{"", "", string(other.ID)[:8], other.ID},
		{"alice", "alice", string(other.ID)[:8], ""}, {"carol", "carol", "shop", ""}, {"alice", "alice", "a-b", ""}, {"alice", "alice", "", ""},
	} {
		got, err := w.Find(t.Context(), c.account, c.scope, c.name)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && api.KindOf(err) != api.KindNotFound {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	_, err := w.Create(t.Context(), "alice", api.CreateWorkspace{Name: "shop"})
	if api.KindOf(err) != api.KindExists || !strings.Contains(err.Error(), string(mine.ID)) {
		t.Errorf("a second one: %v", err)
	}
	for _, name := range []string{"Shop", "a b", "../x", "-x", string(api.NewWorkspaceID()), "last", strings.Repeat("x", 64)} {
		if _, err := w.Create(t.Context(), "alice", api.CreateWorkspace{Name: name}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Of many at the same time, one gets the name.
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 8 {
		wg.Go(func() {
			if _, err := w.Create(t.Context(), "alice", api.CreateWorkspace{Name: "race"}); err == nil {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if made != 1 {
		t.Errorf("%d workspaces have the same name", made)
	}
	if _, err := w.Remove(t.Context(), mine.ID); err != nil {
		t.Fatal(err)
	}
	w.create("alice", "shop") // the name is free again
}

// TestInUse: what needs the files of a workspace that a sandbox uses names the sandbox.
func TestInUse(t *testing.T) {
	w := newWorld(t)
	s := w.create("", "shop")
	l, err := w.store.Lease(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := api.Sandbox{ID: api.NewSandboxID(), Workspace: s.ID}
	w.live = []api.Sandbox{{ID: api.NewSandboxID()}, sandbox}
	got, err := w.Get(t.Context(), s.ID)
	if err != nil || got.Sandbox != sandbox.ID || got.State != api.WorkspaceActive || got.Usage == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if rows, _, err := w.Page(t.Context(), "", api.PageRequest{}); err != nil || len(rows) != 1 || rows[0].Sandbox != sandbox.ID {
		t.Errorf("%+v, %v", rows, err)
	}
	calls := map[string]func() error{
		"diff":   func() error { _, err := w.Diff(t.Context(), s.ID, true); return err },
		"export": func() error { _, err := w.Export(t.Context(), s.ID, false, io.Discard); return err },
		"fork":   func() error { _, err := w.Fork(t.Context(), s.ID, api.ForkWorkspace{}); return err },
		"seal":   func() error { _, err := w.Seal(t.Context(), s.ID); return err },
		"quota":  func() error { _, err := w.SetQuota(t.Context(), s.ID, 1<<30); return err },
		"rm":     func() error { _, err := w.Remove(t.Context(), s.ID); return err },
	}
	for name, call := range calls {
		err := call()
		if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), string(sandbox.ID)) || !strings.Contains(err.Error(), "shop") || !strings.Contains(api.HintOf(err), string(sandbox.ID)) {
			t.Errorf("%s: %v (%s)", name, err, api.HintOf(err))
		}
	}
	l.Release()
	w.live = nil
	for _, name := range []string{"diff", "export", "fork", "seal", "quota", "rm"} {
		if err := calls[name](); err != nil {
			t.Errorf("%s of an idle one: %v", name, err)
		}
	}
}

// TestDiffAndExport reads a workspace, its copy, and what a seal leaves.
func TestDiffAndExport(t *testing.T) {
	w := newWorld(t)
	s := w.create("", "shop")
	w.write(s.ID, "a.txt", "one\n")
	w.write(s.ID, "d/bin", "\x00\x01")
	w.write(s.ID, "sub/.git/config", "[core]\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(w.store.Dir(), string(s.ID), workspace.Upper, "link")); err != nil {
		t.Fatal(err)
	}
	d, err := w.Diff(t.Context(), s.ID, true)
	if err != nil || !d.Complete || d.Added != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	texts := map[string]api.WorkspaceChange{}
	for _, c := range d.Changes {
		texts[c.Path] = c
	}
	if c := texts["a.txt"]; c.Text != "@@ -0,0 +1,1 @@\n+one\n" || c.Kind != api.ChangeAdded {
		t.Errorf("%+v", c)
	}
	if c := texts["d/bin"]; c.Text != "" || c.NoText == "" {
		t.Errorf("%+v", c)
	}
	read := func(id api.WorkspaceID, git bool) map[string]string {
		t.Helper()
		var b bytes.Buffer
		out, err := w.Export(t.Context(), id, git, &b)
		if err != nil || !out.Complete || (out.RefusedCount == 0) != git {
			t.Fatalf("%+v, %v", out, err)
		}
		files := map[string]string{}
		for r := tar.NewReader(&b); ; {
			h, err := r.Next()
			if err == io.EOF {
				return files
			}
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(r)
			files[h.Name] = string(text) + h.Linkname
		}
	}
	first := read(s.ID, false)
	if first["a.txt"] != "one\n" || first["d/bin"] != "\x00\x01" || first["link"] != "/etc/passwd" || first["sub/.git/config"] != "" {
		t.Errorf("%q", first)
	}
	if with := read(s.ID, true); with["sub/.git/config"] == "" {
		t.Errorf("%q", with)
	}
	copied, err := w.Fork(t.Context(), s.ID, api.ForkWorkspace{Name: "copy"})
	if err != nil || copied.Parent != s.ID || !copied.Keep {
		t.Fatalf("%+v, %v", copied, err)
	}
	sealed, err := w.Seal(t.Context(), s.ID)
	if err != nil || sealed.Layer == "" || len(sealed.Workspace.Layers) != 2 {
		t.Fatalf("%+v, %v", sealed, err)
	}
	if d, err := w.Diff(t.Context(), s.ID, true); err != nil || len(d.Changes) != 0 {
		t.Errorf("after the seal: %+v, %v", d, err)
	}
	w.write(s.ID, "a.txt", "two\n")
	if got := read(copied.ID, false); got["a.txt"] != "one\n" {
		t.Errorf("the copy has %q", got)
	}
	d, err = w.Diff(t.Context(), s.ID, true)
	if err != nil || d.Modified != 1 || d.Changes[0].Text != "@@ -1,1 +1,1 @@\n-one\n+two\n" || d.Changes[0].OldSize != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}
