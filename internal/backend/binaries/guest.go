package binaries

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/internal/platform/gvisorbuild"
)

// Guest opens the executable that sandboxes run as their guest: the small one that a
// release embeds, the one that was built in dir for this build, or this executable, which
// can be the guest too.
//
// The file is in sealed memory: neither a sandbox that runs it nor a process on the host
// can change what the next sandbox starts from, and it outlives the temporary directory
// that `go run` executes from.
func Guest(dir string) (*os.File, error) {
	if b := embedded.Guest(); len(b) > 0 {
		return sealed("hortus-guest", bytes.NewReader(b))
	}
	if f, err := os.OpenFile(gvisorbuild.GuestPath(dir), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
		defer f.Close()
		return sealed("hortus-guest", io.LimitReader(f, maxRunsc))
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open this executable: %w", err)
	}
	defer self.Close()
	return sealed("hortus", self)
}

// static checks that a guest needs no other file to run: a gVisor sandbox starts with an
// empty file system. The error is KindUnsupported.
func static(guest *os.File) error {
	f, err := elf.NewFile(guest)
	if err != nil {
		return api.Errorf(api.KindInternal, "read the guest: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return api.Errorf(api.KindUnsupported, "this hortus was linked with the C library, so it cannot be the guest of gVisor's sandboxes").
				WithHint("build gVisor once, which takes a few minutes: hortus gvisor build; or build hortus with CGO_ENABLED=0")
		}
	}
	return nil
}

// sealed copies r into an executable file in sealed memory.
func sealed(name string, r io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // kernels before 6.3 do not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "allocate memory for the guest: %w", err)
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
