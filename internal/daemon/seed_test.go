package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	testtools "hortus.dev/test/tools"
)

// seeds holds the templates that tests begin with, each built once: building one reads
// all of /usr. TestMain removes them.
var seeds struct {
	sync.Mutex
	dir string // empty until a test wants one
}

// withTemplate copies into cfg's data directory the template that its daemon would build there
// first and, if the daemon has gVisor, the small guest. The files of the template are links:
// nothing ever writes to them.
func withTemplate(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Runsc != "" {
		withGuest(t, cfg.DataDir)
	}
	seeds.Lock()
	defer seeds.Unlock()
	if seeds.dir == "" {
		dir, err := os.MkdirTemp("", "hortus-seeds")
		if err != nil {
			t.Fatal(err)
		}
		seeds.dir = dir
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
	tree, err := image.NewHost(image.Config{Store: store, Home: cfg.Home, Path: cfg.Path, Sudo: self, SudoKey: version.Describe().Build}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layers := filepath.Join(cfg.DataDir, "layers")
	if err := os.MkdirAll(layers, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-al", filepath.Join(seeds.dir, string(tree.Digest)), layers).CombinedOutput(); err != nil {
		t.Fatalf("copy the template: %v: %s", err, out)
	}
}

// withGuest copies the small guest into a data directory: a test that is linked with the C
// library cannot be the guest of gVisor's sandboxes.
func withGuest(t *testing.T, data string) {
	t.Helper()
	dir := filepath.Join(data, "bin")
	guest, err := os.ReadFile(filepath.Join(testtools.Dir(t), testtools.Guest))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(gvisorbuild.GuestPath(dir), guest, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}
