package birth

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sealTries is the maximum number of attempts of [Seal]. A refused attempt takes the kernel
// about 150 ms.
const sealTries = 60

// Seal makes a memory file immutable, permanently, so that no process can replace a guest's
// executable.
//
// The kernel refuses with EBUSY while it still references a page that was just written, as
// on a busy machine. Seal then retries.
func Seal(f *os.File) error {
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	for try := 1; ; try++ {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
		if err != unix.EBUSY || try == sealTries {
			return os.NewSyscallError("fcntl F_ADD_SEALS", err)
		}
	}
}

// Program returns a second descriptor of an open executable, to run it by its path while the passed files become the descriptors of the new
// process: the caller closes it then. Its number is not the executable's own, because between fork and exec the os package moves
// descriptors to the numbers above the highest passed one. If the executable has one of these, another file is run in its place, which
// fails with EACCES or ENOEXEC.
func Program(executable *os.File, passed ...*os.File) (*os.File, error) {
	above := len(passed)
	for _, f := range passed {
		above = max(above, int(f.Fd()))
	}
	// Each passed one may be moved, and the pipe on which the child reports errors.
	fd, err := unix.FcntlInt(executable.Fd(), unix.F_DUPFD_CLOEXEC, above+len(passed)+3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
}
