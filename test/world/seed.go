package world

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/tools"
)

// seeds holds the templates that data directories begin with, each built once: building one reads
// all of /usr. It also holds the versions of their programs, which a daemon asks in a sandbox. Main removes them.
var seeds struct {
	sync.Mutex
	dir   string                  // empty until a test wants one
	trees map[string]layer.Digest // by home and path
}

// seed copies into cfg's data directory the template that its daemon would build there first and the small
// guest: a test that is linked with the C library cannot be the guest of gVisor's sandboxes, and each daemon copies
// its guest into memory twice. The files of the template are links: nothing ever writes to them. With asked, the daemon need not
// ask for the versions of programs.
func seed(t *testing.T, cfg daemon.Config, asked bool) {
	t.Helper()
	if programs, err := tools.Built(); err == nil {
		bin := filepath.Join(cfg.DataDir, "bin")
		b, err := os.ReadFile(filepath.Join(programs, tools.Guest))
		if err == nil {
			err = os.MkdirAll(bin, 0o700)
		}
		if err == nil {
			err = os.WriteFile(gvisorbuild.GuestPath(bin), b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	digest := template(t, cfg.Home, cfg.Path)
	layers := filepath.Join(cfg.DataDir, "layers")
	if _, err := os.Stat(filepath.Join(layers, string(digest))); err == nil {
		return
	}
	if err := os.MkdirAll(layers, 0o700); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(seeds.dir, string(digest)+".json")); err == nil && asked {
		if err := os.WriteFile(inventory(cfg), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var from, to syscall.Stat_t
	if err := errors.Join(syscall.Stat(seeds.dir, &from), syscall.Stat(layers, &to)); err != nil {
		t.Fatal(err)
	}
	how := "-al"
	if from.Dev != to.Dev { // a test with a file system of its own
		how = "-a"
	}
	if out, err := exec.Command("cp", how, filepath.Join(seeds.dir, string(digest)), layers).CombinedOutput(); err != nil {
		t.Fatalf("copy the template: %v: %s", err, out)
	}
}

// inventory is the file with the versions of programs.
func inventory(cfg daemon.Config) string { return filepath.Join(cfg.DataDir, "inventory.json") }

// keepInventory keeps what a daemon asked for the next ones.
func keepInventory(t *testing.T, cfg daemon.Config) {
	t.Helper()
	digest := template(t, cfg.Home, cfg.Path)
	seeds.Lock()
	defer seeds.Unlock()
	to := filepath.Join(seeds.dir, string(digest)+".json")
	b, err := os.ReadFile(inventory(cfg))
	if _, gone := os.Stat(to); gone == nil || err != nil {
		return // it is there, or nothing could be asked
	}
	if err := os.WriteFile(to+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// template returns the digest of the template of this machine, which it builds if it is not there.
func template(t *testing.T, home, path string) layer.Digest {
	t.Helper()
	seeds.Lock()
	defer seeds.Unlock()
	if d := seeds.trees[home+"\n"+path]; d != "" {
		return d
	}
	if seeds.dir == "" {
		dir, err := os.MkdirTemp("", "hortus-seeds")
		if err != nil {
			t.Fatal(err)
		}
		seeds.dir, seeds.trees = dir, map[string]layer.Digest{}
	}
	store, err := layer.Open(seeds.dir)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe") // the guest of this build
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	tree, err := image.NewHost(image.Config{Store: store, Home: home, Path: path, Sudo: self, SudoKey: version.Describe().Build}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seeds.trees[home+"\n"+path] = tree.Digest
	return tree.Digest
}
