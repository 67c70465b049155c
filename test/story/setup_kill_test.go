package story

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// many writes enough files for a packed layer.
const many = "mkdir deps; i=0; while [ $i -lt 400 ]; do echo $i >deps/$i; i=$((i+1)); done; echo whole >deps/made"

// TestSetupKilled kills the daemon while a setup installs, packs and seals. The next daemon leaves nothing of it, and
// the next setup is whole. HORTUS_TEST_KILLS=100 kills as often as that.
func TestSetupKilled(t *testing.T) {
	t.Parallel()
	g := newGarden(t)
	g.can("container", api.CapStart)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0")
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 18))
	t.Logf("seed %d", seed)
	dir := makeRepo(t, g, recipe(many))
	began := time.Now()
	g.prepare([]string{dir}, "[setup] sealed 401 files")
	took := time.Since(began)
	fell := map[string]int{}
	for i := range killCount(t, 3, 30) {
		// Another recipe has another key.
		for name, text := range recipe(many + fmt.Sprintf(" # %d", i)) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		gitIn(t, dir, "commit", "-q", "-a", "-m", "more")
		before := g.workspaces() // of the gates
		run := g.start("repo", "prepare", dir)
		until(t, "a daemon starts", func() string {
			if daemonOf(g.dir) == 0 {
				return "none yet"
			}
			return ""
		})
		instant := time.NewTimer(time.Duration(random.Int64N(int64(2 * took / 3))))
		<-instant.C
		if pid := daemonOf(g.dir); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		run.ends()
		fell[phaseOfSetup(run.output.String())]++
		g.must("sandbox", "ls")
		until(t, fmt.Sprintf("kill %d: nothing is left", i), func() string {
			left := g.leftoversAlive()
			half, _ := filepath.Glob(filepath.Join(g.dir, "layers/new-*"))
			left = append(left, half...)
			for _, w := range g.workspaces() {
				if !slices.Contains(before, w) {
					left = append(left, w)
				}
			}
			for _, p := range orphans() {
				left = append(left, "process "+p.String())
			}
			return strings.Join(left, "\n")
		})
		if run := g.gate(dir, "test $(ls deps | wc -l) = 401 && grep -qx whole deps/made && grep -qx 399 deps/399"); !strings.Contains(run.stderr, "[gate] before any change: passed") {
			t.Errorf("kill %d: the next setup is not whole: %s", i, run)
		}
		if t.Failed() {
			t.Fatalf("stopped after kill %d; the daemon's log:\n%s", i, g.log())
		}
		g.must("daemon", "stop", "--force")
	}
	t.Logf("kills fell: %v", fell)
}

// workspaces are those that are stored.
func (g *garden) workspaces() []string {
	found, err := filepath.Glob(filepath.Join(g.dir, "workspaces/w*"))
	if err != nil {
		g.t.Fatal(err)
	}
	return found
}

// phaseOfSetup is how far a setup came, by what it said.
func phaseOfSetup(said string) string {
	for _, s := range []struct{ text, phase string }{
		{"\nprepared ", "after the end"}, {"[setup] sealed", "after the seal"}, {"[setup] begins: sealing", "seal"}, {"[setup] make in", "before the seal"},
		{"[setup] begins: make", "install"}, {"[checkout]", "sandbox"}, {"[fetch]", "checkout"},
	} {
		if strings.Contains(said, s.text) {
			return s.phase
		}
	}
	return "start and fetch"
}

// TestSetupDiskFull has a data directory on a small disk, which a setup fills: the error names the disk, nothing of the
// setup is left, and a smaller one succeeds.
func TestSetupDiskFull(t *testing.T) {
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
