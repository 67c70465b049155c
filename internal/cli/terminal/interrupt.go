package terminal

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"hortus.dev/internal/cli/app"
)

// Interrupts waits for Ctrl-C. The first one is the command's to handle, the
// second ends the process.
type Interrupts struct {
	ch   <-chan os.Signal
	own  chan os.Signal
	exit func(int)

	once  sync.Once
	mu    sync.Mutex
	last  func()        // what the second one waits for, a moment at the most
	fired chan struct{} // closed at the first one
	quit  chan struct{}
	done  chan struct{}
}

// CatchInterrupts begins to catch SIGINT, SIGTERM and SIGHUP.
func CatchInterrupts(a *app.App) *Interrupts {
	in := &Interrupts{ch: a.Env.Signals, exit: a.Env.Exit,
		fired: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{})}
	if in.exit == nil {
		in.exit = os.Exit
	}
	if in.ch == nil {
		in.own = make(chan os.Signal, 4)
		Catch(in.own, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		in.ch = in.own
	}
	go func() {
		defer close(in.done)
		for n := 0; ; n++ {
			select {
			case <-in.quit:
				return
			case <-in.ch:
			}
			if n > 0 {
				in.mu.Lock()
				last := in.last
				in.mu.Unlock()
				if last != nil {
					last()
				}
				in.exit(130)
				return
			}
			close(in.fired)
		}
	}()
	return in
}

// Before names what the second interrupt waits for. It must be short.
func (in *Interrupts) Before(last func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = last
}

// First waits for the first interrupt; it is false when ended is closed before.
func (in *Interrupts) First(ended <-chan struct{}) bool {
	select {
	case <-in.fired:
		return true
	case <-ended:
		return false
	}
}

// Cancel returns a context that the first interrupt cancels, after it called onFirst, which
// may be nil. done ends the watching and must be called.
func (in *Interrupts) Cancel(ctx context.Context, onFirst func()) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if in.First(ended) {
			if onFirst != nil {
				onFirst()
			}
			cancel()
		}
	}()
	return ctx, func() { close(ended); <-watched; cancel() }
}

// Close restores the default handling of signals.
func (in *Interrupts) Close() {
	in.once.Do(func() {
		if in.own != nil {
			signal.Stop(in.own)
		}
		close(in.quit)
		<-in.done
	})
}

// Catch is signal.Notify, which would undo what nohup did.
func Catch(ch chan<- os.Signal, sigs ...os.Signal) {
	for _, sig := range sigs {
		if sig == syscall.SIGHUP && signal.Ignored(sig) {
			continue
		}
		signal.Notify(ch, sig)
	}
}
