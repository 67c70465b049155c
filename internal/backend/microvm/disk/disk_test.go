package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFormat: the checker of ext4 finds nothing wrong, whatever the size, and there is as much room as was asked for.
func TestFormat(t *testing.T) {
	check, err := exec.LookPath("e2fsck")
	if err != nil {
		t.Skip("e2fsck is not installed: the file system is checked where the backend boots only")
	}
	for _, c := range []Config{{1 << 20, 10}, {blockSize, 1}, {100 << 20, 5000}, {128 << 20, 32768}, {128<<20 + 5, 1}, {1 << 30, 200_000},
		{10 << 30, 1_000_000}, {127 << 20, 100}, {300 << 30, 20_000_000}} {
		t.Run(fmt.Sprintf("%d bytes %d inodes", c.Bytes, c.Inodes), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := Format(f, c); err != nil {
				t.Fatal(err)
			}
			l, _ := plan(c)
			var free int64
			for g := range l.groups {
				all, used := l.in(g)
				free += all - used
			}
			if free*blockSize < c.Bytes || l.groups*l.inodes < c.Inodes {
				t.Errorf("%d bytes and %d inodes are free", free*blockSize, l.groups*l.inodes)
			}
			if c.Bytes > 1<<30 {
				return // the checker reads every inode
			}
			if out, err := exec.Command(check, "-f", "-n", path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if err := Format(nil, Config{Bytes: 1 << 60, Inodes: 1}); err == nil {
		t.Error("a disk that is too large was made")
	}
}
