package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// TestCopyMemoryIsConfigured: with gvisor.copy-memory a daemon's snapshots and forks share no memory:
// nothing says what their memory refers to. Without it, it does.
func TestCopyMemoryIsConfigured(t *testing.T) {
	tier.Soak(t) // TestAccountsShareNoMemory looks at the same files
	tier.AnyUser(t)
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		shares bool
	}{"copied": {"[gvisor]\ncopy-memory = true\n", false}, "shared": {"[gvisor]\ncopy-memory = false\n", true}} {
		t.Run(name, func(t *testing.T) {
			// The file has to be there until the garden has ended.
			path := filepath.Join(t.TempDir(), "config.toml")
			if err := os.WriteFile(path, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			g := newGarden(t)
			g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_ISOLATION=gvisor", "HORTUS_CONFIG="+path)
			g.canSaveMemory()
			parent := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "5m"))
			child := strings.TrimSpace(g.must("sandbox", "fork", parent))
			g.must("sandbox", "exec", child, "--", "true")
			if links := g.files("run/gvisor/" + child + ".bases/*"); (links > 0) != c.shares {
				t.Errorf("the child's memory refers to %d files", links)
			}
			snapshot := strings.TrimSpace(g.must("sandbox", "snapshot", child))
			if notes := g.files("snapshots/*/bases.json"); (notes > 0) != c.shares {
				t.Errorf("%d snapshots refer to files", notes)
			}
			g.must("sandbox", "kill", parent)
			g.must("sandbox", "kill", child)
			again := strings.TrimSpace(g.must("sandbox", "create", "--template", snapshot))
			g.must("sandbox", "exec", again, "--", "true")
			g.must("sandbox", "kill", again)
		})
	}
}

// files counts the files of the data directory with a pattern.
func (g *garden) files(pattern string) int {
	g.t.Helper()
	found, err := filepath.Glob(filepath.Join(g.dir, pattern))
	if err != nil {
		g.t.Fatal(err)
	}
	return len(found)
}
