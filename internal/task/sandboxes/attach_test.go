package sandboxes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/durable"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/repo"
)

// TestAttach: a task makes the workspace that it names, and takes it over from one that is
// done, over the same layers and in the same account.
func TestAttach(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	layers, err := layer.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows := db
	spaces, err := workspace.Open(t.Context(), workspace.Config{Dir: t.TempDir(), Layers: layers, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	states := map[api.TaskID]api.TaskState{}
	p := New(Config{Layers: layers, Workspaces: spaces,
		Durable: durable.New(durable.Config{Store: spaces, Layers: layers, Rows: rows, Live: func(context.Context, bool) ([]api.Sandbox, error) { return nil, nil }}),
		Task: func(_ context.Context, id api.TaskID) (api.Task, error) {
			return api.Task{ID: id, State: states[id]}, nil
		},
	})
	base := func(letter string) repo.Layer {
		d := layer.Digest("sha256-" + strings.Repeat(letter, 64))
		if _, err := layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
			root := filepath.Join(dir, "root")
			return layer.Tree{Root: root}, os.Mkdir(root, 0o755)
		}); err != nil {
			t.Fatal(err)
		}
		return repo.Layer(d)
	}
	a, b := base("a"), base("b")
	alice := api.WithPrincipal(t.Context(), api.Principal{Account: "alice", Key: api.NewKeyID(), Role: api.RoleUser})
	bob := api.WithPrincipal(t.Context(), api.Principal{Account: "bob", Key: api.NewKeyID(), Role: api.RoleUser})
	first, second, third := api.NewTaskID(), api.NewTaskID(), api.NewTaskID()
	states[first] = api.TaskRunning

	id, err := p.Attach(alice, first, "fix", a)
	if err != nil {
		t.Fatal(err)
	}
	if w, err := spaces.Get(id); err != nil || w.Name != "fix" || w.Account != "alice" || w.Task != first || !w.Keep {
		t.Fatalf("%+v, %v", w, err)
	}
	if _, err := p.Attach(alice, second, "fix", a); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), string(first)) {
		t.Errorf("while a task works in it: %v", err)
	}
	states[first] = api.TaskDone
	if _, err := p.Attach(alice, second, "fix", b); api.KindOf(err) != api.KindConflict || api.HintOf(err) == "" {
		t.Errorf("over other layers: %v", err)
	}
	if _, err := p.Attach(bob, third, string(id), a); api.KindOf(err) != api.KindNotFound {
		t.Errorf("that of another account: %v", err)
	}
	if other, err := p.Attach(bob, third, "fix", a); err != nil || other == id {
		t.Errorf("the same name in another account: %s, %v", other, err)
	}
	l, err := spaces.Lease(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Attach(alice, second, "fix", a); api.KindOf(err) != api.KindConflict {
		t.Errorf("while it is used: %v", err)
	}
	l.Release()
	if got, err := p.Attach(alice, second, "fix", a); err != nil || got != id {
		t.Errorf("%s, %v", got, err)
	}
	if w, err := spaces.Get(id); err != nil || w.Task != second {
		t.Errorf("%+v, %v", w, err)
	}
}
