package birth

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Sealing fails while a page is still referenced, and succeeds afterwards.
func TestSeal(t *testing.T) {
	fd, err := unix.MemfdCreate("seal", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "seal")
	defer f.Close()
	if _, err := f.WriteString("the guest"); err != nil {
		t.Fatal(err)
	}
	held, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if err := Seal(f); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a file that is mapped for writing was sealed: %v", err)
	}
	if err := unix.Munmap(held); err != nil {
		t.Fatal(err)
	}
	if err := Seal(f); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("what is sealed was written to")
	}
}
