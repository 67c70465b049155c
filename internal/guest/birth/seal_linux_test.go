package birth

import (
	"errors"
	"fmt"
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

// A passed file whose number is just below the executable's: the os package moves a descriptor of its own to that of the executable.
func TestProgram(t *testing.T) {
	at := func(path string, least int) *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, least)
		if err != nil {
			t.Fatal(err)
		}
		out := os.NewFile(uintptr(fd), path)
		t.Cleanup(func() { out.Close() })
		return out
	}
	passed := at(os.DevNull, 900)
	executable := at("/bin/true", int(passed.Fd())+1)
	if executable.Fd() != passed.Fd()+1 {
		t.Fatalf("descriptors %d and %d", passed.Fd(), executable.Fd())
	}
	run := func(path string) error {
		p, err := os.StartProcess(path, []string{"true"}, &os.ProcAttr{Files: []*os.File{passed}})
		if err != nil {
			return err
		}
		state, err := p.Wait()
		if err == nil && !state.Success() {
			err = errors.New(state.String())
		}
		return err
	}
	if err := run(fmt.Sprintf("/proc/self/fd/%d", executable.Fd())); err == nil {
		t.Error("the control ran")
	}
	program, err := Program(executable, passed)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := run(program.Name()); err != nil {
		t.Error(err)
	}
}
