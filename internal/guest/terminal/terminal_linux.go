package terminal

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open opens a new pseudo-terminal. The caller closes both descriptors; the master does
// not block, the slave does, as programs expect.
func Open() (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("open /dev/ptmx", err)
	}
	if slave, err = openSlave(master); err != nil {
		unix.Close(master)
		return -1, -1, err
	}
	return master, slave, nil
}

func openSlave(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, os.NewSyscallError("unlock terminal", err)
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, os.NewSyscallError("number of terminal", err)
	}
	fd, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return fd, os.NewSyscallError("open terminal", err)
}

// SetSize sets the size of a terminal, in characters.
func SetSize(fd int, columns, rows uint32) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{
		Col: uint16(min(columns, 1<<16-1)), Row: uint16(min(rows, 1<<16-1)),
	})
}
