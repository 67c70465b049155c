package initns

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// TestMakeRun makes the mount point in trees as a saved sandbox may have left them: a link
// leads nowhere, and nothing is made where it points.
func TestMakeRun(t *testing.T) {
	for name, c := range map[string]struct {
		left func(root, away string) error
		want error
	}{
		"nothing":        {func(root, _ string) error { return os.Mkdir(root+"/run", 0o755) }, nil},
		"a directory":    {func(root, _ string) error { return os.MkdirAll(root+"/run/e2b/x", 0o755) }, nil},
		"no /run":        {func(string, string) error { return nil }, unix.ENOENT},
		"a link for run": {func(root, away string) error { return os.Symlink(away, root+"/run") }, unix.ELOOP},
		"a link for e2b": {func(root, away string) error {
			return errors.Join(os.Mkdir(root+"/run", 0o755), os.Symlink(away, root+"/run/e2b"))
		}, unix.ELOOP},
		"a file for e2b": {func(root, _ string) error {
			return errors.Join(os.Mkdir(root+"/run", 0o755), os.WriteFile(root+"/run/e2b", nil, 0o644))
		}, unix.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			root, away := t.TempDir(), t.TempDir()
			if err := c.left(root, away); err != nil {
				t.Fatal(err)
			}
			fd, err := makeRun(root, birth.RunDir)
			if fd >= 0 {
				unix.Close(fd)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if made, err := filepath.Glob(away + "/*"); err != nil || len(made) > 0 {
				t.Errorf("where the link points there is %q, %v", made, err)
			}
		})
	}
}
