package process

import (
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/terminal"
)

// ends are the descriptors that connect the guest and a process.
type ends struct {
	ours  [2]int     // output
	child [3]uintptr // the child's descriptors 0, 1 and 2
	close []int      // the child's descriptors, to close after the fork
}

func (m *Manager) openEnds(p *Process, in *envd.StartRequest, id *identity.Identity) (e ends, err error) {
	e.ours = [2]int{-1, -1}
	p.exitFD = -1
	if !m.programs.PidFDs() {
		if p.exitFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return e, os.NewSyscallError("eventfd", err)
		}
		p.signalled = true
	}
	if p.isPTY {
		err = e.terminal(p, in.PTY.Size)
	} else {
		err = e.pipes(m.devNull, p, in.Stdin == nil || *in.Stdin)
	}
	if err != nil {
		e.closeChild()
		e.closeOurs(p)
		return e, err
	}
	if m.cfg.Switch {
		// A command must own /dev/stderr and its terminal to reopen them by name. If chown
		// fails, everything else still works.
		for _, fd := range e.close {
			unix.Fchown(fd, int(id.UID), int(id.GID))
		}
	}
	return e, nil
}

func (e *ends) pipes(devNull *os.File, p *Process, stdin bool) error {
	e.child[0] = devNull.Fd()
	for i := range e.ours {
		var fd [2]int
		if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
			return os.NewSyscallError("pipe", err)
		}
		e.ours[i] = fd[0]
		e.child[i+1] = uintptr(fd[1])
		e.close = append(e.close, fd[1])
	}
	if !stdin {
		return nil
	}
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	e.child[0] = uintptr(fd[0])
	e.close = append(e.close, fd[0])
	unix.SetNonblock(fd[1], true)
	p.input = os.NewFile(uintptr(fd[1]), "stdin")
	return nil
}

// closeChild closes the guest's copies of the child's descriptors.
func (e *ends) closeChild() {
	for _, fd := range e.close {
		unix.Close(fd)
	}
	e.close = nil
}

// closeOurs closes the guest's descriptors after a start that failed.
func (e *ends) closeOurs(p *Process) {
	for _, fd := range e.ours {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if p.exitFD >= 0 {
		unix.Close(p.exitFD)
	}
	if p.input != nil {
		p.input.Close()
	}
}

// terminal opens a pseudo-terminal. Output and input use two descriptors of the same
// master, so that each has one owner.
func (e *ends) terminal(p *Process, size *envd.Size) error {
	master, slave, err := terminal.Open()
	if err != nil {
		return err
	}
	e.ours[0] = master
	e.close = append(e.close, slave)
	e.child = [3]uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}
	if size != nil {
		if err := terminal.SetSize(master, size.Cols, size.Rows); err != nil {
			return os.NewSyscallError("size of terminal", err)
		}
	}
	input, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	p.input = os.NewFile(uintptr(input), "terminal")
	return nil
}
