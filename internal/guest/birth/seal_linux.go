package birth

import (
	"os"

	"golang.org/x/sys/unix"
)

// sealTries is the maximum number of attempts of [Seal]. A refused attempt takes the kernel
// about 150 ms.
const sealTries = 60

// Seal makes a memory file immutable, for good: for a guest's executable that nobody can
// replace.
//
// The kernel refuses while it holds one of the pages that were just written, as the batches
// of a busy machine do; then Seal retries.
func Seal(f *os.File) error {
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	for try := 1; ; try++ {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
		if err != unix.EBUSY || try == sealTries {
			return os.NewSyscallError("fcntl F_ADD_SEALS", err)
		}
	}
}
