package terminal

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// Terminal is the terminal that stdin leads to.
type Terminal struct {
	in     *os.File
	Stdout bool // stdout leads to a terminal too
}

// Of returns stdin's terminal, nil if there is none.
func Of(a *app.App) *Terminal {
	in, ok := a.Env.Stdin.(*os.File)
	if !ok || in == nil || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	out, ok := a.Env.Stdout.(*os.File)
	return &Terminal{in: in, Stdout: ok && term.IsTerminal(int(out.Fd()))}
}

// Size returns the terminal's size, 80x24 when it does not know.
func (t *Terminal) Size() api.PTYSize {
	cols, rows, err := term.GetSize(int(t.in.Fd()))
	if err != nil || cols <= 0 || rows <= 0 || cols > 1<<15 || rows > 1<<15 {
		return api.PTYSize{Cols: 80, Rows: 24}
	}
	return api.PTYSize{Cols: uint16(cols), Rows: uint16(rows)}
}

// Raw hands the keys to the command, and every change of size to resize. The
// returned function gives the terminal back as it was.
func (t *Terminal) Raw(resize func(api.PTYSize)) (restore func()) {
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
				resize(t.Size())
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

// Gone reports whether the terminal hung up: nobody presses its keys again.
func (t *Terminal) Gone() bool {
	_, err := term.GetState(int(t.in.Fd()))
	return err != nil
}
