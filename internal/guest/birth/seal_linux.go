package birth

import (
	"os"

	"golang.org/x/sys/unix"
)

// sealTries bounds the attempts of [Seal]. One that is refused takes the kernel
// some 150 ms.
const sealTries = 60

// Seal makes what a memory file holds unchangeable, for good: a guest's
// executable that nobody can exchange.
//
// The kernel refuses while anything of its own still holds one of the pages just
// written, as the batches of a busy machine do; it waits a moment by itself, and
// is asked again here.
func Seal(f *os.File) error {
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	for try := 1; ; try++ {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
		if err != unix.EBUSY || try == sealTries {
			return os.NewSyscallError("fcntl F_ADD_SEALS", err)
		}
	}
}
