package modules

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/test/tier"
)

// TestWrite: the tree has what Info says, is the same each time, and the means of the real one.
func TestWrite(t *testing.T) {
	n := tier.Count(300, 3000)
	var infos [2]Info
	for i := range infos {
		dir := t.TempDir()
		var err error
		if infos[i], err = Write(t.Context(), dir, n); err != nil {
			t.Fatal(err)
		}
		var files int
		var bytes int64
		filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if fi, err := os.Lstat(p); err == nil && fi.Mode().IsRegular() {
				files, bytes = files+1, bytes+fi.Size()
			}
			return err
		})
		if files != n || infos[i].Files != files || infos[i].Bytes != bytes {
			t.Errorf("%+v, but there are %d files with %d bytes", infos[i], files, bytes)
		}
	}
	if infos[0] != infos[1] {
		t.Errorf("%+v, then %+v", infos[0], infos[1])
	}
	if mean := infos[0].Bytes / int64(n); mean < 7_000 || mean > 30_000 {
		t.Errorf("files have %d bytes on average", mean)
	}
}
