//go:build linux

package sudo

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	pty "hortus.dev/internal/guest/terminal"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminal is the command's own terminal. Everything is copied between it and the program's
// terminal.
type terminal struct {
	master, slave *os.File
	state         *term.State
	copied        chan struct{} // closed when all output is printed
}

func openTerminal() (*terminal, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	t := &terminal{
		master: os.NewFile(uintptr(master), "terminal"), slave: os.NewFile(uintptr(slave), "terminal"), copied: make(chan struct{}),
	}
	t.resize()
	return t, nil
}

// resize sets the size of the command's terminal to that of the program's.
func (t *terminal) resize() {
	size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return // keep the size
	}
	raw, err := t.master.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
	}
}

// begin starts copying, after the guest has received the command's end.
func (t *terminal) begin() {
	t.slave.Close()
	// Without raw mode each line is shown twice.
	t.state, _ = term.MakeRaw(int(os.Stdin.Fd()))
	go func() { _, _ = io.Copy(t.master, os.Stdin) }() // until the process ends
	go func() {
		defer close(t.copied)
		_, _ = io.Copy(os.Stdout, t.master)
	}()
}

// end waits for the rest of the output, until no process has the terminal open.
func (t *terminal) end() {
	<-t.copied
}

// close restores the state of the program's terminal.
func (t *terminal) close() {
	if t.state != nil {
		_ = term.Restore(int(os.Stdin.Fd()), t.state)
	}
	t.master.Close()
}
