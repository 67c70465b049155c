package birth

import (
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
