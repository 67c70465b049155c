package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
)

// seeds holds the templates that tests begin with, each built once: building one reads
// all of /usr. TestMain removes them.
var seeds struct {
	sync.Mutex
	dir string // empty until a test wants one
}

// withTemplate copies into a data directory the template that a daemon with that home and path
// would build there first. Its files are links: nothing ever writes to them.
func withTemplate(t *testing.T, data, home, path string) {
	t.Helper()
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
	tree, err := image.NewHost(image.Config{Store: store, Home: home, Path: path, Sudo: self, SudoKey: version.Describe().Build}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layers := filepath.Join(data, "layers")
	if err := os.MkdirAll(layers, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-al", filepath.Join(seeds.dir, string(tree.Digest)), layers).CombinedOutput(); err != nil {
		t.Fatalf("copy the template: %v: %s", err, out)
	}
}
