package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestInstall: a kernel of a directory is installed by its digest, and replaced by another one.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	write := func(name, text string) {
		p := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	into := filepath.Join(dir, "into")
	refused := func(why, digest string) {
		t.Helper()
		_, err := Install(t.Context(), into, from, digest)
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want an error with %q", err, why)
		}
		if _, err := Open(into); api.KindOf(err) != api.KindNotFound {
			t.Errorf("something was installed: %v", err)
		}
	}
	refused("no such file", "")
	write("lib/modules/6.1/extra/a.ko", "x")
	refused("no boot/vmlinuz-RELEASE", "")
	write("boot/vmlinuz-6.1", "the kernel")
	refused("has the digest "+sum([]byte("the kernel")), strings.Repeat("0", 64))
	write("lib/modules/6.1/b.ko.xz", "x")
	refused("b.ko.xz is compressed", "")
	os.Remove(filepath.Join(from, "lib/modules/6.1/b.ko.xz"))
	write("lib/modules/6.1/kernel/erofs.ko", "no ELF file")
	refused("module erofs", "")
	os.Remove(filepath.Join(from, "lib/modules/6.1/kernel/erofs.ko"))
	k, err := Install(t.Context(), into, from, sum([]byte("the kernel")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Open(into); err != nil || got != k || k.Release != "6.1" {
		t.Errorf("installed %+v, found %+v, %v", k, got, err)
	}
	if b, err := os.ReadFile(k.Image); err != nil || string(b) != "the kernel" {
		t.Errorf("the image: %q, %v", b, err)
	}
}

// TestProgram: cpio unpacks what is written.
func TestProgram(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio is not installed: the kernel unpacks it where the backend boots only")
	}
	var b bytes.Buffer
	if err := WriteProgram(&b, []byte("program")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cpio, "-it")
	cmd.Stdin = &b
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "hortus-vm\n") {
		t.Errorf("%s, %v", out, err)
	}
}
