package forklayer

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/erofs"
)

// TestMounts: all who open a layer at once have one mount of it, which ends with the last of them. A clone keeps
// the layer. One that cannot be mounted is no obstacle to a later attempt.
func TestMounts(t *testing.T) {
	var m Mounts
	if err := m.Can(t.Context(), t.TempDir()); err != nil {
		t.Skipf("this host cannot mount images: %v", err)
	}
	path := filepath.Join(t.TempDir(), "layer")
	if _, err := m.Open(t.Context(), t.TempDir(), "a", path); err == nil {
		t.Error("a file that is not there was mounted")
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := erofs.NewBuilder(erofs.Meta{Mode: 0o755})
	b.Root().Small("file", erofs.Meta{Mode: 0o644}, []byte("content"))
	if _, err := b.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	layers := make([]*Layer, 8)
	var all sync.WaitGroup
	for i := range layers {
		all.Go(func() {
			l, err := m.Open(t.Context(), t.TempDir(), "a", path)
			if err != nil {
				t.Error(err)
			}
			layers[i] = l
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, l := range layers {
		if l.Image != layers[0].Image {
			t.Error("there are two mounts of one layer")
		}
	}
	clone, err := layers[0].Clone()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(clone)
	Close(layers[1:])
	if got, err := os.ReadFile(filepath.Join(layers[0].Path(), "file")); err != nil || string(got) != "content" {
		t.Errorf("while one uses it: %q, %v", got, err)
	}
	layers[0].Close()
	layers[0].Close()
	if len(m.open) != 0 {
		t.Errorf("left: %v", m.open)
	}
	if err := unix.Faccessat(clone, "file", unix.R_OK, 0); err != nil {
		t.Errorf("the clone ended with its layer: %v", err)
	}
}
