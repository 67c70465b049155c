package upkeep

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/layer"
)

// cached makes a layer like that of a repository, last used so long ago.
func (w *world) cached(letter string, ago time.Duration) layer.Digest {
	w.t.Helper()
	d := layer.Digest("sha256-" + strings.Repeat(letter, 64))
	_, err := w.layers.Put(context.Background(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, os.WriteFile(filepath.Join(root, "f"), make([]byte, 1<<20), 0o644)
	})
	if err == nil {
		at := now.Add(-ago)
		err = os.Chtimes(filepath.Join(w.layers.Dir(), string(d), "tree.json"), at, at)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// TestLayerBudget: beyond the budget the layers go that were not used for the longest time;
// those that are in use, that something names, or that were used a moment ago stay.
func TestLayerBudget(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		name   string
		budget int64
		gone   string
	}{
		{"no budget", 0, ""},
		{"within", 20 * mib, ""},
		{"one too many", 7*mib - 1, "b"},
		{"two too many", 6*mib - 1, "bc"},
		{"nothing may stay", 1, "bcd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			all := map[string]layer.Digest{
				"a": w.cached("a", 90*time.Minute), // named
				"c": w.cached("c", 50*time.Minute), "b": w.cached("b", time.Hour),
				"d": w.cached("d", 2*time.Minute), "e": w.cached("e", time.Second),
				"f": w.cached("f", 2*time.Hour), "0": w.cached("0", 3*time.Hour),
			}
			w.named = []layer.Digest{all["a"]}
			_, held, err := w.layers.Lease(all["f"])
			if err != nil {
				t.Fatal(err)
			}
			defer held.Release()
			// A lease that ended is a use.
			_, ended, err := w.layers.Lease(all["0"])
			if err != nil {
				t.Fatal(err)
			}
			ended.Release()
			if used, err := w.layers.Used(all["0"]); err != nil || used.Before(now) {
				t.Fatalf("used %v, %v", used, err)
			}
			k := w.keeper()
			k.cfg.LayerBytes = test.budget
			dry, err := k.Collect(t.Context(), admin.CollectRequest{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			out, err := k.TrimLayers(t.Context())
			if err != nil || !slices.Equal(names(out), names(dry)) {
				t.Errorf("removed %q, %v; a dry run says %q", names(out), err, names(dry))
			}
			gone := ""
			for letter, d := range all {
				if !w.layers.Has(d) {
					gone += letter
				}
			}
			sorted := strings.Split(gone, "")
			slices.Sort(sorted)
			if strings.Join(sorted, "") != test.gone {
				t.Errorf("%q are gone, not %q", gone, test.gone)
			}
			if again, err := k.TrimLayers(t.Context()); err != nil || len(again.Items) != 0 {
				t.Errorf("again: %q, %v", names(again), err)
			}
		})
	}
}

// TestLayerAge: without a budget a layer goes when it was not used for long.
func TestLayerAge(t *testing.T) {
	w := newWorld(t)
	old, young := w.cached("a", 8*24*time.Hour), w.cached("b", 6*24*time.Hour)
	got, err := w.keeper().Collect(t.Context(), admin.CollectRequest{})
	if err != nil || !slices.Equal(names(got), []string{"layers " + string(old)}) || !w.layers.Has(young) {
		t.Errorf("%q, %v", names(got), err)
	}
	_, err = w.layers.Used(old)
	if api.KindOf(err) != api.KindNotFound {
		t.Errorf("a layer that is gone was used: %v", err)
	}
}

// TestTrimmer: an added layer has others removed, without anybody's request.
func TestTrimmer(t *testing.T) {
	w := newWorld(t)
	old := w.cached("a", time.Hour)
	k := w.keeper()
	k.cfg.LayerBytes = 3 << 19
	added := make(chan struct{})
	tr := NewTrimmer(k, added, time.Hour)
	added <- struct{}{}
	added <- struct{}{} // the first look is over
	if !w.layers.Has(old) {
		t.Error("a layer within the budget is gone")
	}
	w.cached("b", time.Minute/2)
	added <- struct{}{}
	added <- struct{}{}
	if err := tr.Close(t.Context()); err != nil || w.layers.Has(old) {
		t.Errorf("it is there, %v", err)
	}
}
