package sandbox

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/terminal"
)

// signals passes this process's signals to a command. In a fresh sandbox the
// first SIGINT kills the sandbox; elsewhere the command gets it. The second one
// ends this process.
type signals struct {
	ch   <-chan os.Signal
	own  chan os.Signal
	exit func(int)
	// before is called before exit: it gives the terminal back.
	before func()
	// terminal is the one that the command has, nil without one.
	terminal *terminal.Terminal
	once     sync.Once
}

// catchSignals begins to catch the signals. On a terminal that is the command's
// own the keys reach it as bytes, and are no signals of ours.
func catchSignals(a *app.App) *signals {
	s := &signals{ch: a.Env.Signals, exit: a.Env.Exit}
	if s.exit == nil {
		s.exit = os.Exit
	}
	if s.ch == nil {
		s.own = make(chan os.Signal, 16)
		terminal.Catch(s.own, terminal.Passed[:]...)
		s.ch = s.own
	}
	return s
}

// close restores the default handling of signals.
func (s *signals) close() {
	s.once.Do(func() {
		if s.own != nil {
			signal.Stop(s.own)
		}
	})
}

// The command's terminal is another than the one that hung up, and stays. A shell
// that gets the signal on its way to its prompt finds no end of input there, as it
// would at home, and waits for keys: the signal is sent again, every second for a while.
const (
	hangupAgain = time.Second
	maxHangups  = 10
)

// setup returns a context for what comes before the command: a signal that would
// end this process ends the context instead, so that what was made is destroyed.
// ready ends that and reports whether such a signal came.
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
		interrupts, hangups := 0, 0
		var again <-chan time.Time
		var killing sync.WaitGroup
		defer killing.Wait()
		for {
			var sig os.Signal
			select {
			case <-quit:
				return
			case sig = <-s.ch:
			case <-again:
				sig = syscall.SIGHUP
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
			if n == syscall.SIGHUP && hangups < maxHangups && s.terminal != nil && s.terminal.Gone() {
				hangups++
				again = time.After(hangupAgain)
			}
		}
	}()
	return func() bool { close(quit); <-done; return killed }
}
