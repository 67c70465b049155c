package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts waits for Ctrl-C. The first one is the command's to handle, the
// second ends the process.
type interrupts struct {
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

// interrupts begins to catch SIGINT, SIGTERM and SIGHUP.
func (a *app) interrupts() *interrupts {
	in := &interrupts{ch: a.env.Signals, exit: a.env.Exit,
		fired: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{})}
	if in.exit == nil {
		in.exit = os.Exit
	}
	if in.ch == nil {
		in.own = make(chan os.Signal, 4)
		catch(in.own, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
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

// before names what the second interrupt waits for. It must be short.
func (in *interrupts) before(last func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = last
}

// first waits for the first interrupt; it is false when ended is closed before.
func (in *interrupts) first(ended <-chan struct{}) bool {
	select {
	case <-in.fired:
		return true
	case <-ended:
		return false
	}
}

// close gives the signals their usual meaning back.
func (in *interrupts) close() {
	in.once.Do(func() {
		if in.own != nil {
			signal.Stop(in.own)
		}
		close(in.quit)
		<-in.done
	})
}
