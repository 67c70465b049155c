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

// terminal is the command's own terminal, between which and ours everything is copied.
type terminal struct {
	master, slave *os.File
	state         *term.State
	copied        chan struct{} // the command's output is all printed
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

// resize gives the command's terminal the size of ours.
func (t *terminal) resize() {
	size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return // as it was
	}
	raw, err := t.master.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
	}
}

// begin copies, from when the guest has the command's end of the terminal.
func (t *terminal) begin() {
	t.slave.Close()
	// Without raw mode all still works, but each line is shown twice.
	t.state, _ = term.MakeRaw(int(os.Stdin.Fd()))
	go func() { _, _ = io.Copy(t.master, os.Stdin) }() // until the process ends
	go func() {
		defer close(t.copied)
		_, _ = io.Copy(os.Stdout, t.master)
	}()
}

// end waits for the rest of the output, which ends when nobody has the terminal open.
func (t *terminal) end() {
	<-t.copied
}

// close gives the terminal its state back.
func (t *terminal) close() {
	if t.state != nil {
		_ = term.Restore(int(os.Stdin.Fd()), t.state)
	}
	t.master.Close()
}
