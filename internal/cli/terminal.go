package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
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

// signals passes this process's signals to a command. In a fresh sandbox the
// first SIGINT kills the sandbox; elsewhere the command gets it. The second one
// ends this process.
type signals struct {
	ch   <-chan os.Signal
	own  chan os.Signal
	exit func(int)
	// before is called before exit: it gives the terminal back.
	before func()
	once   sync.Once
}

// signals begins to catch the signals. On a terminal that is the command's
// own the keys reach it as bytes, and are no signals of ours.
func (a *app) signals() *signals {
	s := &signals{ch: a.env.Signals, exit: a.env.Exit}
	if s.exit == nil {
		s.exit = os.Exit
	}
	if s.ch == nil {
		s.own = make(chan os.Signal, 16)
		signal.Notify(s.own, passed[:]...)
		s.ch = s.own
	}
	return s
}

// close gives the signals their usual meaning back.
func (s *signals) close() {
	s.once.Do(func() {
		if s.own != nil {
			signal.Stop(s.own)
		}
	})
}

// setup gives a context for what comes before the command: a signal that would
// end this process ends the context instead, so that what was made is destroyed.
// ready ends that and says whether such a signal came.
func (s *signals) setup(ctx context.Context) (_ context.Context, ready func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	interrupted := false
	go func() {
		defer close(done)
		for !interrupted {
			select {
			case <-quit:
				return
			case sig := <-s.ch:
				interrupted = sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP
			}
		}
		cancel()
	}()
	return ctx, sync.OnceValue(func() bool { close(quit); <-done; cancel(); return interrupted })
}

// pass hands signals on until the returned function is called, which says
// whether an interrupt killed the sandbox.
func (s *signals) pass(ctx context.Context, box *client.Sandbox, cmd *client.Cmd, fresh bool) (stop func() bool) {
	quit, done := make(chan struct{}), make(chan struct{})
	killed := false
	go func() {
		defer close(done)
		interrupts := 0
		var killing sync.WaitGroup
		defer killing.Wait()
		for {
			var sig os.Signal
			select {
			case <-quit:
				return
			case sig = <-s.ch:
			}
			n, ok := sig.(syscall.Signal)
			if !ok {
				continue
			}
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			if n == syscall.SIGINT {
				interrupts++
				if interrupts > 1 {
					cancel()
					if s.before != nil {
						s.before()
					}
					s.exit(130)
					return
				}
				if fresh {
					killed = true
					// The second interrupt must be heard while this lasts.
					killing.Go(func() { defer cancel(); _, _ = box.Kill(cctx) })
					continue
				}
			}
			_ = cmd.Signal(cctx, int(n))
			cancel()
		}
	}()
	return func() bool { close(quit); <-done; return killed }
}
