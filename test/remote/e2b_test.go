package remote

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/sandboxtest"
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

func TestConformance(t *testing.T) {
	w, key := hortus(t)
	s, b := atHortus(t, w.URL, key), newBench(t)
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
		return sandboxtest.Fixture{
			Backend: b.backend(t, s, false), Store: b.layers, Workspaces: b.workspaces,
			Leftovers: func(id api.SandboxID) []string { return boxes(t, s, b, id) },
		}
	})
}

// TestAdopt: a second process finds what the first one left, takes it over, and stores what was changed.
func TestAdopt(t *testing.T) {
	w, key := hortus(t)
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
