package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// workspaces are those that are stored.
func (g *garden) workspaces() []string {
	found, err := filepath.Glob(filepath.Join(g.dir, "workspaces/w*"))
	if err != nil {
		g.t.Fatal(err)
	}
	return found
}

// TestSetupDiskFull has a data directory on a small disk, which a setup fills: the error names the disk, nothing of the
// setup is left, and a smaller one succeeds.
func TestSetupDiskFull(t *testing.T) {
	tier.Soak(t) // TestWorkspaceDiskFull has a small disk too
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user cannot mount a small disk")
	}
	t.Parallel()
	g := newEmptyGarden(t)
	g.can("container", api.CapStart)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0")
	g.must("daemon", "stop", "--force")
	if err := os.RemoveAll(g.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", g.dir, "tmpfs", 0, "size=256m,mode=700"); err != nil {
		t.Skipf("this process cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		g.run("daemon", "stop", "--force")
		until(t, "the disk is free", func() string {
			if err := unix.Unmount(g.dir, 0); err != nil {
				return err.Error()
			}
			return ""
		})
	})
	fits := makeRepo(t, g, recipe("mkdir deps; echo good >deps/made"))
	g.prepare([]string{fits, "--disk", "1G"}, "[setup] sealed")
	full := makeRepo(t, g, recipe("mkdir deps; head -c 400000000 /dev/zero | tr '\\0' x >deps/made"))
	run := g.prepare([]string{full, "--disk", "1G"})
	if run.code == 0 || !strings.Contains(run.stderr, "no space left on the disk of "+g.dir) || !strings.Contains(run.stderr, "hortus gc") {
		t.Errorf("the disk is not named: %s", run)
	}
	// What is written twice does not fit either: the files, and the layer of them.
	twice := makeRepo(t, g, recipe("mkdir deps; head -c 130000000 /dev/urandom >deps/made"))
	run = g.prepare([]string{twice, "--disk", "1G"})
	if run.code == 0 || !strings.Contains(run.stderr, "no space left on the disk of "+g.dir) {
		t.Errorf("the disk is not named while the layer is written: %s", run)
	}
	until(t, "nothing of them is left", func() string {
		half, _ := filepath.Glob(filepath.Join(g.dir, "layers/new-*"))
		return strings.Join(append(g.workspaces(), half...), "\n")
	})
	g.prepare([]string{fits, "--disk", "1G"}, "[setup] reused: make")
}
