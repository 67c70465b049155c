package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

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

// ReadHidden reads one line without showing it, after a prompt on stderr. Ctrl-C restores the
// terminal and ends the process.
func (t *Terminal) ReadHidden(a *app.App, prompt string) ([]byte, error) {
	fd := int(t.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "read the terminal: %w", err)
	}
	in := CatchInterrupts(a)
	defer in.Close()
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if in.First(ended) {
			_ = term.Restore(fd, before)
			fmt.Fprintln(a.Env.Stderr)
			in.exit(130)
		}
	}()
	fmt.Fprint(a.Env.Stderr, prompt)
	line, err := term.ReadPassword(fd)
	close(ended)
	<-watched
	fmt.Fprintln(a.Env.Stderr)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "read the terminal: %w", err)
	}
	return line, nil
}

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

// ReadLine reads one line after a prompt on stderr.
func (t *Terminal) ReadLine(a *app.App, prompt string) (string, error) {
	fmt.Fprint(a.Env.Stderr, prompt)
	var line []byte
	var b [1]byte
	for len(line) < 4096 {
		n, err := t.in.Read(b[:])
		if n > 0 && b[0] == '\n' {
			break
		}
		if n > 0 {
			line = append(line, b[0])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", api.Errorf(api.KindUnavailable, "read the terminal: %w", err)
		}
	}
	return string(line), nil
}
