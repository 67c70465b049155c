package bench_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"hortus.dev/api/admin"
	"hortus.dev/internal/bench"
	"hortus.dev/internal/bench/restores"
)

// TestCacheHost takes the part of the measurement that needs no sandbox, and leaves nothing. A
// program that is not there is a row that says so.
func TestCacheHost(t *testing.T) {
	packs := os.Geteuid() == 0
	if data, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(data), "erofs") {
		packs = false // or its module is not loaded: then the rows say what they say
	}
	_, err := exec.LookPath("zstd")
	for _, tar := range []bool{err == nil, false} {
		if !tar {
			t.Setenv("PATH", "/nonexistent")
		}
		scratch := t.TempDir()
		b := &bench.Bench{
			Sandboxes: newManager(t), Trees: []restores.Tree{{Name: "small", Files: 300}},
			Storage: &bench.Storage{Scratch: func() (string, func() error, error) {
				dir, err := os.MkdirTemp(scratch, "")
				return dir, func() error { return os.RemoveAll(dir) }, err
			}},
		}
		got := map[string]admin.BenchRow{}
		err := b.Run(t.Context(), admin.BenchRequest{N: 80, Only: []string{"cache"}, Backends: []string{"process"}},
			func(r admin.BenchRow) { got[r.Name] = r }, func(admin.BenchProgress) {})
		if err != nil {
			t.Fatal(err)
		}
		if r := got["cache: create to first exec, small, attached"]; r.N != 0 || !strings.HasPrefix(r.Note, "not measured") {
			t.Errorf("without workspaces: %+v", r)
		}
		if r := got["cache: restore, small, tar.zst"]; tar != (r.N == 2) || tar != (r.Note != "" && !strings.HasPrefix(r.Note, "not measured")) {
			t.Errorf("tar.zst: %+v", r)
		} else if tar && packs && (r.Ratio <= 1 || r.Baseline != "cache: restore, small, layer") {
			t.Errorf("tar.zst beside a layer: %+v", r)
		}
		if r := got["cache: read all, small, new mount"]; packs && (r.N != 2 || r.P50MS <= 0) {
			t.Errorf("a new mount: %+v", r)
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
