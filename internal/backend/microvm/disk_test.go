package microvm

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/test/tools"
)

// TestFormat: a disk has as much space and as many inodes as were requested, takes little of the host's, and the checker of ext4
// finds nothing wrong.
func TestFormat(t *testing.T) {
	formatter, err := findFormatter()
	if err != nil {
		tools.Cannot(t, "e2fsprogs is not installed: %v", err)
	}
	h := &host{formatter: formatter}
	for _, bytes := range []int64{1 << 20, 16 << 20, 128<<20 + 5, 1 << 30, 10 << 30} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			inodes := workdir.Inodes(bytes)
			if err := h.format(t.Context(), f, bytes, inodes); err != nil {
				t.Fatal(err)
			}
			super := make([]byte, 1024)
			if _, err := f.ReadAt(super, 1024); err != nil {
				t.Fatal(err)
			}
			at := func(i int) int64 { return int64(binary.LittleEndian.Uint32(super[i:])) }
			if free := at(12) * 4096; free < bytes || free > bytes+bytes/16+2<<20 {
				t.Errorf("%d bytes are free", free)
			}
			if free := at(16); free < inodes-inodes/64-16 {
				t.Errorf("%d inodes are free, want %d", free, inodes)
			}
			var st syscall.Stat_t
			if err := syscall.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > 1<<20+bytes/1000 {
				t.Errorf("it takes %d bytes of the host: %v", st.Blocks*512, err)
			}
			if out, err := exec.Command(filepath.Join(filepath.Dir(formatter), "e2fsck"), "-f", "-n", f.Name()).CombinedOutput(); bytes < 1<<30 && err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
