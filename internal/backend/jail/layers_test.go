package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// What is removed of a layer stays removed, also when something of the same name
// is made, and what is moved keeps what was changed in it.
func TestChangesOfLayers(t *testing.T) {
	e := newEnv(t)
	// A known limit of older kernels, which doctor tells too.
	if a, _ := e.Probe(context.Background()).Has(api.CapPrivateFiles); a.Reason != "" {
		t.Skip(a.Reason)
	}
	m, _ := e.start(t)
	user := "user"
	if isRoot() {
		user = "root"
	}
	got := sh(t, m, user, `cd /srv && echo changed >tree/deep/file && echo more >tree/new && rm tree/deep/file && ls -A tree/deep &&
rm -r tree && ! [ -e tree ] && mkdir tree && ls -A tree && echo again >tree/file && mv tree moved && ! [ -e tree ] && cat moved/file`)
	if got != "again" {
		t.Errorf("said %q", got)
	}
}

// TestLayersAreReleased: a layer is held while sandboxes use it, and can be removed after the last
// one. One of this machine's own programs is held until the backend is closed.
func TestLayersAreReleased(t *testing.T) {
	e := newEnv(t)
	ctx := context.Background()
	const above = layer.Digest("sha256-0000000000000000000000000000000000000000000000000000000000000001")
	_, err := e.layers.Put(ctx, above, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		return layer.Tree{Root: root}, os.MkdirAll(filepath.Join(root, "above"), 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	leased := func(d layer.Digest) bool {
		t.Helper()
		held, err := e.layers.Leased(d)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	var machines []sandbox.Machine
	for range 2 {
		m, err := e.Start(ctx, sandbox.Spec{ID: api.NewSandboxID(), Layers: []layer.Digest{testDigest, above}, Limits: limits(), Hostname: "h"})
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, m)
	}
	for _, m := range machines {
		if !leased(above) {
			t.Error("a layer in use is not held")
		}
		if _, err := m.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if leased(above) {
		t.Error("a layer is held after its last sandbox")
	}
	if !leased(testDigest) {
		t.Error("the layer of this machine's programs is not held")
	}
	// A start that fails holds nothing either.
	const missing = layer.Digest("sha256-0000000000000000000000000000000000000000000000000000000000000002")
	if _, err := e.Start(ctx, sandbox.Spec{ID: api.NewSandboxID(), Layers: []layer.Digest{above, missing}, Limits: limits(), Hostname: "h"}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a missing layer: %v", err)
	}
	if leased(above) {
		t.Error("a layer is held after a start that failed")
	}
}
