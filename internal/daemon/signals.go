package daemon

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// signalled is the cause of a context that a signal ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return "signal: " + s.String() }

// untilSignal gives a context that the first signal ends which asks a daemon to stop.
// stop lets go of them, and waits for the goroutine.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			cancel(signalled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		cancel(context.Canceled)
		<-done
	}
}

// hostGroup is the control group that systemd is told to put the daemon into, below
// the service's, with DelegateSubgroup.
const hostGroup = "hortus-host"

// beside says whether a daemon that a service manager starts anew can live beside what
// this one leaves running. systemd cannot start a process in a group that is divided,
// as a service's is in which sandboxes run, unless the unit gives the daemon a group of
// its own in it (docs/operations.md).
func beside(getenv func(string) string, cgroups string) bool {
	if getenv == nil || getenv("NOTIFY_SOCKET") == "" {
		return true // nobody else ends what it leaves
	}
	b, err := os.ReadFile(cgroups)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasSuffix(strings.TrimSpace(line), "/"+hostGroup) {
			return true
		}
	}
	return false
}
