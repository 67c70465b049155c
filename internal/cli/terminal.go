package cli

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/term"

	"hortus.dev/api"
)

// terminal is the terminal that stdin leads to.
type terminal struct {
	in     *os.File
	stdout bool // stdout leads to a terminal too
}

// terminal gives stdin's terminal, nil where there is none.
func (a *app) terminal() *terminal {
	in, ok := a.env.Stdin.(*os.File)
	if !ok || in == nil || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	out, ok := a.env.Stdout.(*os.File)
	return &terminal{in: in, stdout: ok && term.IsTerminal(int(out.Fd()))}
}

// size gives the terminal's size, 80x24 when it does not know.
func (t *terminal) size() api.PTYSize {
	cols, rows, err := term.GetSize(int(t.in.Fd()))
	if err != nil || cols <= 0 || rows <= 0 || cols > 1<<15 || rows > 1<<15 {
		return api.PTYSize{Cols: 80, Rows: 24}
	}
	return api.PTYSize{Cols: uint16(cols), Rows: uint16(rows)}
}

// raw hands the keys to the command, and every change of size to resize. The
// returned function gives the terminal back as it was.
func (t *terminal) raw(resize func(api.PTYSize)) (restore func()) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	changes := make(chan os.Signal, 1)
	notifySize(changes)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-changes:
				resize(t.size())
			}
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(changes)
		close(quit)
		<-done
		if err == nil {
			_ = term.Restore(int(t.in.Fd()), before)
		}
	})
}

// gone says whether the terminal hung up: nobody presses its keys again.
func (t *terminal) gone() bool {
	_, err := term.GetState(int(t.in.Fd()))
	return err != nil
}
