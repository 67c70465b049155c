package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKinds: an image is mounted by both kinds, cloned, and nothing is left in the
// namespace or on a loop device.
func TestKinds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	if err := write(t.Context(), image, dir); err != nil {
		t.Fatal(err)
	}
	for _, k := range []Kind{File, Loop} {
		t.Run(string(k), func(t *testing.T) {
			m := &Mounter{k}
			if err := m.try(image); err != nil {
				t.Skipf("this host cannot mount images (%s): %v", k, err)
			}
			img, err := m.Mount(image)
			if err != nil {
				t.Fatal(err)
			}
			fd, err := img.Clone()
			if err != nil {
				t.Fatal(err)
			}
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil || strings.Contains(string(mounts), image) {
				t.Errorf("the mount is visible: %v", err)
			}
			img.Close()
			img.Close()
			if err := unix.Faccessat(fd, ".", unix.R_OK, 0); err != nil {
				t.Errorf("the clone ended with its image: %v", err)
			}
			unix.Close(fd)
			if out, err := exec.Command("losetup", "-j", image).Output(); err == nil && len(out) > 0 {
				t.Errorf("a loop device is left: %s", out)
			}
		})
	}
}
