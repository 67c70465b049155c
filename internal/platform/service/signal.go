package service

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ os.Signal }

func (s signalError) Error() string { return "signal: " + s.String() }

// UntilSignal returns a context that SIGINT, SIGTERM or SIGHUP ends. A second signal ends the process at once: the
// next daemon does what it does after a crash. stop restores the
// default handling of these signals, and waits for the goroutine.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			signal.Stop(ch)
			cancel(signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		cancel(context.Canceled)
		<-done
	}
}

// hostGroup is the control group of the daemon below that of its systemd unit, which the unit
// sets with DelegateSubgroup.
const hostGroup = "hortus-host"

// restartable reports whether a service manager can start the next daemon while sandboxes of
// this one still run. systemd cannot start a process in a control group with subgroups, as a
// unit has while sandboxes run, unless the unit gives the daemon a subgroup of its own
// (docs/operations.md).
func restartable(getenv func(string) string, cgroups string) bool {
	if getenv == nil || getenv("NOTIFY_SOCKET") == "" {
		return true // no service manager ends the sandboxes
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

// ToJournal reports whether a file is the stream that systemd collects. stream is the value
// of JOURNAL_STREAM, DEVICE:INODE.
func ToJournal(f *os.File, stream string) bool {
	var st unix.Stat_t
	if stream == "" || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == strconv.FormatUint(uint64(st.Dev), 10)+":"+strconv.FormatUint(st.Ino, 10)
}
