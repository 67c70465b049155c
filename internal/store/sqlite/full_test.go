package sqlite

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// TestDiskFull fills a small file system: an append that the disk had no space
// for is an error, and what was confirmed before is there.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0700"); err != nil {
		t.Skipf("a file system of 1 MiB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "hortus.db")
	db := openTest(t, path)
	data := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 3000)...), '"')
	confirmed := int64(0)
	for {
		seq, err := db.AppendEvent(t.Context(), stream, api.EventOutput, time.Now(), data)
		if err != nil {
			if api.KindOf(err) != api.KindExhausted || api.HintOf(err) == "" {
				t.Errorf("%v: kind %s, hint %q", err, api.KindOf(err), api.HintOf(err))
			}
			break
		}
		if confirmed++; seq != confirmed {
			t.Fatalf("number %d, want %d", seq, confirmed)
		}
		if confirmed > 1000 {
			t.Fatal("3 MB fit into 1 MiB")
		}
	}
	n := int64(0)
	for {
		page, err := db.ReadEvents(t.Context(), stream, n, 50)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if n++; e.Seq != n || !bytes.Equal(e.Data, data) {
				t.Fatalf("event %d is number %d with %d bytes", n, e.Seq, len(e.Data))
			}
		}
	}
	if n != confirmed || n == 0 {
		t.Errorf("%d events are stored, %d were confirmed", n, confirmed)
	}
}
