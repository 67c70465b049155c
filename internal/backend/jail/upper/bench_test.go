package upper

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkHundredFiles saves, and unpacks, 100 files of 4,000 bytes in 100
// directories, in memory where /dev/shm is.
func BenchmarkHundredFiles(b *testing.B) {
	top, err := os.MkdirTemp("/dev/shm", "upper")
	if err != nil {
		top = b.TempDir()
	}
	defer os.RemoveAll(top)
	from := filepath.Join(top, "from")
	for i := range 100 {
		d := filepath.Join(from, fmt.Sprint(i))
		must(b, os.MkdirAll(d, 0o755))
		must(b, os.WriteFile(filepath.Join(d, "file"), make([]byte, 4000), 0o644))
	}
	dir := open(b, from)
	var saved bytes.Buffer
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			saved.Reset()
			must(b, Write(context.Background(), &saved, []Tree{{Name: Root, Dir: dir}}, options()))
		}
	})
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			to, err := os.MkdirTemp(top, "to")
			must(b, err)
			b.StartTimer()
			must(b, unpack(b, saved.Bytes(), to))
		}
	})
}
