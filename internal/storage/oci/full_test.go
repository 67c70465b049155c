package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/test/ocitest"
)

// TestDiskFull pulls images that do not fit on a small disk: the error names the disk, nothing of
// them is left, and with more space the same pull succeeds.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("this process cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	layers, err := layer.New(layer.Config{Dir: filepath.Join(disk, "layers"), Space: space.New(space.Config{Dir: disk})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(layers.Close)
	s, err := Open(Config{Dir: filepath.Join(disk, "images"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	small, large := filepath.Join(dir, "small"), filepath.Join(dir, "large")
	ocitest.Save(t, small, ocitest.Image(t, v1.Config{}, base(t)))
	ocitest.Save(t, large, ocitest.Image(t, v1.Config{}, base(t), ocitest.Layer(t, ocitest.File("one", strings.Repeat("x", 40<<20)), ocitest.File("two", strings.Repeat("y", 40<<20)))))
	kept := pull(t, s, api.PullImage{Reference: small})
	before := names(t, filepath.Join(disk, "layers"))
	if _, err := s.Pull(t.Context(), api.PullImage{Reference: large}, nil); api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), disk) {
		t.Errorf("%v does not name the disk %s", err, disk)
	}
	if after := names(t, filepath.Join(disk, "layers")); after != before {
		t.Errorf("left: %s\nbefore: %s", after, before)
	}
	if _, err := s.Layers(kept.ID); err != nil {
		t.Errorf("the image that was there: %v", err)
	}
	if err := unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size=600m"); err != nil {
		t.Fatal(err)
	}
	pull(t, s, api.PullImage{Reference: large})

	// The disk is full before the first byte.
	if err := unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	fill.Close()
	if _, err := s.Pull(t.Context(), api.PullImage{Reference: small, Name: "small"}, nil); api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), disk) {
		t.Errorf("%v does not name the disk %s", err, disk)
	}
	if _, err := s.Find("small"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a record without a file: %v", err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}
