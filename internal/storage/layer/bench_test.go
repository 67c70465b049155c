package layer_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/cmd/hortus-bench/modules"
	"hortus.dev/internal/storage/layer"
)

const benchDigest = layer.Digest("sha256-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

// BenchmarkRestore compares, in turn, ways to have a node_modules of 44,227 files at hand:
// extraction of a tar.zst archive, and a mount of the packed layer below an overlay, with and
// without its verification. Each round extracts into a new directory and nothing is removed
// before the end: removals in between make extractions on some disks several times slower.
func BenchmarkRestore(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("only root can mount images")
	}
	dir := b.TempDir()
	path := func(name string, n int) string { return filepath.Join(dir, fmt.Sprint(name, n)) }
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	archive := path("archive.tar.zst", 0)
	open := func(wait time.Duration) *layer.Store {
		s, err := layer.New(layer.Config{Dir: path("store", 0), VerifyWait: wait})
		must(err)
		return s
	}
	s := open(0)
	var build, pack time.Duration
	start := time.Now()
	tree, err := s.Put(b.Context(), benchDigest, func(ctx context.Context, d string) (layer.Tree, error) {
		root := filepath.Join(d, "root")
		must(os.Mkdir(root, 0o755))
		_, err := modules.Write(ctx, root, modules.Files)
		must(err)
		out, err := exec.CommandContext(ctx, "tar", "-C", root, "-I", "zstd -3 -T2", "-cf", archive, ".").CombinedOutput()
		if err != nil {
			return layer.Tree{}, fmt.Errorf("tar: %w: %s", err, out)
		}
		build = time.Since(start)
		return layer.Tree{Root: root}, nil
	})
	pack = time.Since(start) - build
	if err != nil || !tree.Packed() {
		b.Skipf("no packed layer: %v", err)
	}
	s.Close()
	must(exec.Command("sync").Run())
	times := map[string][]time.Duration{}
	take := func(name string, f func()) {
		start := time.Now()
		f()
		times[name] = append(times[name], time.Since(start))
	}
	n := 0
	for b.Loop() {
		n++
		to := path("extracted", n)
		must(os.Mkdir(to, 0o755))
		take("tar.zst", func() { must(exec.Command("tar", "-C", to, "-I", "zstd", "-xf", archive).Run()) })
		take("read-tar.zst", func() { readAll(b, to) })
		must(exec.Command("sync").Run())
		for name, wait := range map[string]time.Duration{"verified-layer": time.Minute, "layer": 1} {
			s := open(wait)
			upper, work, at := path("upper"+name, n), path("work"+name, n), path("merged"+name, n)
			for _, d := range []string{upper, work, at} {
				must(os.Mkdir(d, 0o755))
			}
			take(name, func() {
				tree, err := s.Resolve(benchDigest)
				must(err)
				must(unix.Mount("overlay", at, "overlay", 0, "lowerdir="+tree.Root+",upperdir="+upper+",workdir="+work))
			})
			if name == "layer" {
				take("read-layer", func() { readAll(b, at) })
			}
			must(unix.Unmount(at, 0))
			s.Close()
		}
	}
	median := func(name string) float64 {
		t := slices.Sorted(slices.Values(times[name]))
		return float64(t[len(t)/2].Microseconds()) / 1000
	}
	for name := range times {
		b.ReportMetric(median(name), name+"-ms")
	}
	b.ReportMetric(median("tar.zst")/median("layer"), "tar.zst/layer")
	b.ReportMetric(median("tar.zst")/median("verified-layer"), "tar.zst/verified-layer")
	b.ReportMetric(float64(pack.Milliseconds()), "pack-ms")
	b.ReportMetric(0, "ns/op")
}

// readAll reads every file of a tree.
func readAll(b *testing.B, root string) {
	var buf bytes.Buffer
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		buf.Reset()
		_, err = buf.ReadFrom(f)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
