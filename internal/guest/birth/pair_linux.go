package birth

import (
	"os"

	"golang.org/x/sys/unix"
)

// Pair makes a control socket and returns the host's end and the file that the guest
// inherits as ControlFD. Both are close-on-exec.
func Pair() (*Control, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	guest := os.NewFile(uintptr(fds[1]), "control")
	host, err := NewControl(os.NewFile(uintptr(fds[0]), "control"))
	if err != nil {
		guest.Close()
		return nil, nil, err
	}
	return host, guest, nil
}
