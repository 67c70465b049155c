package workdir

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/patience"
)

// TestQuota writes more than the quota of a workspace, with the workspace of the same content
// and no quota as the control.
func TestQuota(t *testing.T) {
	layers, err := layer.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base := layer.Digest("sha256-" + strings.Repeat("a", 64))
	if _, err := layers.Put(t.Context(), base, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		return layer.Tree{Root: root}, os.Mkdir(root, 0o755)
	}); err != nil {
		t.Fatal(err)
	}
	spaces, err := workspace.Open(t.Context(), workspace.Config{Dir: t.TempDir(), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	m := &Mounter{Layers: layers, Spaces: spaces, Space: space.New(space.Config{Dir: spaces.Dir(), FloorBytes: 1, FloorInodes: 1}), Log: slog.New(slog.DiscardHandler)}
	const quota = 1 << 20
	for name, c := range map[string]struct {
		quota, limit int64
		cause        string
		refused      bool
	}{
		"above its quota":       {quota, 1 << 30, api.CauseQuota, true},
		"within its quota":      {64 << 20, 1 << 10, "", false}, // which stands above the limit of the sandbox
		"no quota":              {0, 1 << 30, "", false},
		"no quota, above limit": {0, quota, api.CauseDisk, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := spaces.Make(t.Context(), workspace.New{Quota: c.quota, Layers: []layer.Digest{base}})
			if err != nil {
				t.Fatal(err)
			}
			what := &sandbox.Workspace{Layers: []layer.Digest{base}, Upper: w.ID}
			d, err := m.Attach(t.Context(), what)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
			defer cancel()
			if c.cause == "" {
				// Long enough for one measurement, which is the first thing that happens.
				ctx, cancel = context.WithTimeout(t.Context(), 4*interval)
				defer cancel()
			}
			file := filepath.Join(spaces.Dir(), string(w.ID), workspace.Upper, "big")
			if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 2*quota), 0o600); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if got := m.Watch(ctx, d, api.NewSandboxID(), c.limit, Unlinked{PID: os.Getpid()}); got != c.cause {
				t.Errorf("cause %q after %s, want %q", got, time.Since(start), c.cause)
			}
			d.Release()
			again, err := m.Attach(t.Context(), what)
			if refused := api.KindOf(err) == api.KindExhausted && strings.Contains(api.HintOf(err), "workspace quota"); refused != c.refused || err != nil && !refused {
				t.Errorf("the next sandbox: %v", err)
			}
			again.Release()
			if st, err := os.Stat(file); err != nil || st.Size() != 2*quota {
				t.Errorf("what was written is gone: %v", err)
			}
			if !c.refused {
				return
			}
			if err := spaces.SetQuota(t.Context(), w.ID, 16<<20); err != nil {
				t.Fatal(err)
			}
			if again, err = m.Attach(t.Context(), what); err != nil {
				t.Errorf("with a larger quota: %v", err)
			}
			again.Release()
		})
	}
}
