package erofs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMerged: an image has what an overlay of the directories shows, without what a mask hides. The control is the same image
// without the mask.
func TestMerged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "what nobody may see of this file"
	write("root/etc/name", "of the root")
	write("root/usr/covered", "below the mount")
	write("usr/bin/tool", "a tool of the host")
	write("usr/lib/secret", secret)
	write("usr/lib/other", "beside it")
	if err := os.Link(filepath.Join(dir, "usr/bin/tool"), filepath.Join(dir, "usr/bin/alias")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("tool", filepath.Join(dir, "usr/bin/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "mask/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(dir, "mask/lib/secret"), unix.S_IFCHR, 0); err != nil {
		t.Skipf("this user cannot make a whiteout: %v", err)
	}
	image := func(dirs ...string) string {
		t.Helper()
		f, err := os.Create(filepath.Join(t.TempDir(), "image"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := Merge(t.Context(), filepath.Join(dir, "root"), []Mount{{Target: "/usr", Dirs: dirs}})
		if err == nil {
			_, err = b.Write(t.Context(), f)
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	masked := image(filepath.Join(dir, "mask"), filepath.Join(dir, "usr"))
	for _, want := range []string{"of the root", "a tool of the host", "beside it", "alias"} {
		if !strings.Contains(masked, want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	if n := strings.Count(masked, "a tool of the host"); n != 1 {
		t.Errorf("a file with two names is there %d times", n)
	}
	for _, not := range []string{secret, "below the mount"} {
		if strings.Contains(masked, not) {
			t.Errorf("the image has %q", not)
		}
	}
	if !strings.Contains(image(filepath.Join(dir, "usr")), secret) {
		t.Error("without the mask the image lacks the file too")
	}
}
