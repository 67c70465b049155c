package guest

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// terminal opens a pseudo-terminal. The output end and the input end are two
// descriptors of the same master, so that each has one owner.
func (e *ends) terminal(p *process, size *envd.Size) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("open /dev/ptmx", err)
	}
	e.ours[0] = master
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return os.NewSyscallError("unlock terminal", err)
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return os.NewSyscallError("number of terminal", err)
	}
	slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open terminal", err)
	}
	e.close = append(e.close, slave)
	e.child = [3]uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}
	if err := setWinsize(master, size); err != nil {
		return os.NewSyscallError("size of terminal", err)
	}
	input, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	p.input = os.NewFile(uintptr(input), "terminal")
	return nil
}

func setWinsize(fd int, size *envd.Size) error {
	if size == nil {
		return nil
	}
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{
		Col: uint16(min(size.Cols, 1<<16-1)), Row: uint16(min(size.Rows, 1<<16-1)),
	})
}

// resize sets the size of a process's terminal.
func (p *process) resize(size *envd.Size) error {
	if !p.isPTY {
		return api.Errorf(api.KindInvalid, "process %d has no terminal", p.pid)
	}
	if size == nil {
		return api.Errorf(api.KindInvalid, "the request names no size")
	}
	in := p.inputFile()
	if in == nil {
		return api.Errorf(api.KindNotFound, "process %d has ended", p.pid)
	}
	raw, err := in.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = setWinsize(int(fd), size) })
	if cerr != nil {
		return cerr
	}
	return err
}
