package daemon

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/embedded"
	"hortus.dev/internal/guest/birth"
)

// guestBinary gives the executable that sandboxes run as their guest: the small
// one that a release embeds, or this very executable, which can be the guest too.
//
// It lies in sealed memory, not in a file: nothing that runs it, nor anybody on
// the host, can change what the next sandbox starts from, and it outlives the
// temporary directory that `go run` executes from.
func guestBinary() (*os.File, error) {
	if b := embedded.Guest(); len(b) > 0 {
		return sealed("hortus-guest", bytes.NewReader(b))
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the own executable: %w", err)
	}
	defer self.Close()
	return sealed("hortus", self)
}

func sealed(name string, r io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // kernels before 6.3 do not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "memory for the guest: %w", err)
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(0o555)
	}
	if err == nil {
		err = birth.Seal(f)
	}
	if err != nil {
		f.Close()
		return nil, api.Errorf(api.KindInternal, "seal the guest: %w", err)
	}
	return f, nil
}
