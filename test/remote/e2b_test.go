package remote

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/world"
)

// boxes lists what the service has of a sandbox.
func boxes(t *testing.T, s remote.Service, b *bench, id api.SandboxID) (out []string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(b.run, string(id))); err == nil {
		out = append(out, "directory "+string(id))
	}
	ids, err := b.backend(t, s, false).Orphans(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ids {
		if o == id {
			out = append(out, "box of "+string(id))
		}
	}
	return out
}

// conforms: all cases in soak, and those of the start and the end in each run.
func conforms(t *testing.T, w *world.World, key string) {
	s, b := atHortus(t, w.URL, key), newBench(t)
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
		return sandboxtest.Fixture{
			Backend: b.backend(t, s, false), Store: b.layers, Workspaces: b.workspaces, Few: true,
			Leftovers: func(id api.SandboxID) []string { return boxes(t, s, b, id) },
		}
	})
}

// adopts: a second process finds what the first one left, takes it over, and stores what was changed.
func adopts(t *testing.T, w *world.World, key string) {
	s, b := atHortus(t, w.URL, key), newBench(t)
	first := b.backend(t, s, false)
	spec := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits()}
	m, err := first.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := b.backend(t, s, false)
	a, err := second.Adopt(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if a.Spec.ID != spec.ID || a.Paused {
		t.Errorf("adopted %+v", a)
	}
	if c, err := a.Machine.Link().Open(t.Context()); err != nil {
		t.Errorf("the link of an adopted machine: %v", err)
	} else {
		c.Close()
	}
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A third one reclaims it, also without the record.
	if err := os.RemoveAll(filepath.Join(b.run, string(spec.ID))); err != nil {
		t.Fatal(err)
	}
	third := b.backend(t, s, false)
	if left := boxes(t, s, b, spec.ID); len(left) != 1 {
		t.Errorf("without a record it is found as %q", left)
	}
	proof, err := third.Reclaim(t.Context(), spec.ID)
	if err != nil || proof.Left != 0 {
		t.Errorf("reclaimed %+v, %v", proof, err)
	}
	if left := boxes(t, s, b, spec.ID); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := third.Adopt(t.Context(), spec.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("adopted after its end: %v", err)
	}
	// Another data directory with the same key has other sandboxes.
	o := newBench(t)
	m, err = o.backend(t, s, false).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := third.Orphans(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("the sandboxes of another data directory are orphans here: %q, %v", ids, err)
	}
	if _, err := m.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// workspaces: a durable workspace has what a sandbox at the service changed, and is as before if that is too much.
func workspaces(t *testing.T, w *world.World, key string) {
	b := newBench(t)
	backend := b.backend(t, atHortus(t, w.URL, key), false)
	base := layer.Digest("sha256-" + strings.Repeat("c", 64))
	_, err := b.layers.Put(t.Context(), base, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		err := os.MkdirAll(filepath.Join(root, "old"), 0o755)
		for _, name := range []string{"keep", "change", "old/gone"} {
			if err == nil {
				err = os.WriteFile(filepath.Join(root, name), []byte(name), 0o644)
			}
		}
		if err == nil {
			err = workspace.Own(root)
		}
		return layer.Tree{Root: root}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := b.workspaces.Create(t.Context(), "", []layer.Digest{base})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script, want string
		kind         api.Kind // of the error of the kill
	}{
		{"cat change; echo changed > change; rm -r old; mkdir new; mv keep new/kept; chmod 0 new/kept", "change:changed\n keep:- new/kept:keep old/gone:-", ""},
		{"head -c 3000000 /dev/zero > large; echo lost > change", "change:changed\n keep:- new/kept:keep old/gone:-", api.KindExhausted},
	} {
		spec := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits(), Workspace: &sandbox.Workspace{Layers: []layer.Digest{base}, Upper: id}}
		spec.Limits.DiskBytes = 1 << 20
		m, err := backend.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		output(t, m, c.script)
		_, err = m.Kill(t.Context())
		if got := api.KindOf(err); err == nil && c.kind != "" || err != nil && got != c.kind {
			t.Errorf("%s: kill: %v (%s); want %q", c.script, err, got, c.kind)
		}
		if proof, err := m.Kill(t.Context()); err != nil || proof.Left != 0 {
			t.Errorf("killed again: %+v, %v", proof, err)
		}
		ch, err := b.workspaces.Changes(t.Context(), id, workspace.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range ch.List {
			text := "-"
			if !f.Delete {
				r, err := f.Open()
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(r)
				r.Close()
				text = string(b)
			}
			got = append(got, f.Path+":"+text)
		}
		ch.Close()
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: changes %q; want %q", c.script, s, c.want)
		}
	}
}
