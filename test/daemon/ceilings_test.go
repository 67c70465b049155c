package daemon

import (
	"context"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/world"
)

// TestComputersHaveCeilings: no way in which a task creates a sandbox exceeds the ceilings of
// the key that the task belongs to.
func TestComputersHaveCeilings(t *testing.T) {
	w := newTown(t)
	w.Isolates(t, "")
	k := world.Must(w.Client.Keys.Create(t.Context(), api.CreateKey{Account: "carol", Ceilings: api.Ceilings{Sandboxes: 1}}))(t)
	ctx := api.WithPrincipal(t.Context(), api.Principal{Account: "carol", Key: k.ID, Role: api.RoleUser, Ceilings: k.Key.Ceilings})
	base, release, err := w.TaskSandboxes.Layer(ctx, "ceilings", func(_ context.Context, dir string) error {
		return os.WriteFile(dir+"/a", nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	space := world.Must(w.TaskSandboxes.Workspace(ctx, "", base))(t)
	first := world.Must(w.TaskSandboxes.Clean(ctx, api.CreateSandbox{}, "", base))(t)
	defer first.Close(context.WithoutCancel(ctx))
	if row := first.Info(); row.Account != "carol" || row.Key != k.ID {
		t.Errorf("the sandbox belongs to account %q and key %q", row.Account, row.Key)
	}
	more := map[string]func() (repo.Sandbox, error){
		"over layers":      func() (repo.Sandbox, error) { return w.TaskSandboxes.Clean(ctx, api.CreateSandbox{}, "", base) },
		"over a workspace": func() (repo.Sandbox, error) { return w.TaskSandboxes.Open(ctx, api.CreateSandbox{}, space, nil) },
		"of a program": func() (repo.Sandbox, error) {
			made, err := w.TaskSandboxes.Create(ctx, api.CreateSandbox{})
			if err != nil {
				return nil, err
			}
			return made.(repo.Sandbox), nil
		},
	}
	for name, create := range more {
		if _, err := create(); api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), `"sandboxes"`) {
			t.Errorf("a second sandbox %s: %v", name, err)
		}
	}
	world.Must(first.Close(ctx))(t)
	for name, create := range more {
		c, err := create()
		if err != nil {
			t.Fatalf("the control, %s: %v", name, err)
		}
		if _, err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	// Nobody creates nothing.
	if _, err := w.TaskSandboxes.Clean(t.Context(), api.CreateSandbox{}, "", base); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("nobody's sandbox: %v", err)
	}
}
