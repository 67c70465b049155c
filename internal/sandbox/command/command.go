package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"hortus.dev/internal/sandbox"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// command is a command whose end is not recorded yet, or a viewer of one.
type command struct {
	c       *Commands
	set     *Set
	stream  *envd.ProcessStream
	ctx     context.Context    // of the stream, and of those that follow it
	cancel  context.CancelFunc // ends the stream, not the command
	timeout time.Duration
	overdue *time.Timer
	due     time.Time // when overdue is up; guarded by mu
	start   envd.StartEvent
	viewer  bool                  // attached later: the record is another's business
	end     func(sandbox.Outcome) // notifies the watcher; nil if the command began elsewhere
	stored  chan struct{}         // closed once its end is recorded, or could not be; nil for a viewer

	// What follows is the reader's alone.
	saves   uint64 // the last save before the stream was opened
	at      int64  // offset of the next byte
	lost    int64  // bytes before it that were lost and not reported yet
	resumes bool   // the last error of next was about that

	mu       sync.Mutex
	row      api.Exec
	done     bool  // its end is being recorded
	unstored error // why that could not be recorded; set before stored is closed
}

func (x *command) record() api.Exec {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.row
}

// next reads an event, counts its output and records the end. The guest's word
// is mistaken for the exit code alone; limits are the host's to count.
func (x *command) next() (*envd.ProcessEvent, error) {
	ev, err := x.stream.Next()
	for err != nil {
		again, rerr := x.reattach()
		if !again || rerr != nil {
			if rerr != nil {
				err = rerr
			}
			return nil, x.cut(err)
		}
		if gone := x.gap(); gone != nil {
			x.resumes = true
			return nil, gone
		}
		ev, err = x.stream.Next()
	}
	switch {
	case ev.Data != nil:
		n := int64(len(ev.Data.Stdout) + len(ev.Data.Stderr) + len(ev.Data.PTY))
		x.at += n
		x.mu.Lock()
		x.row.OutputBytes = max(x.row.OutputBytes, x.at) // another reader may have recorded the end
		total := x.row.OutputBytes
		x.mu.Unlock()
		// The guest stops a command at the limit. If it does not, it is malicious.
		if max := x.set.Sandbox.Row().Limits.OutputBytes; max > 0 && total > max+maxOverrun && !x.viewer {
			x.finish(api.ExecUnknown, api.Exit{Code: -1, Cause: api.CauseOutput})
			x.release()
			return nil, api.Errorf(api.KindExhausted, "the guest sent more than %d bytes of output", max)
		}
	case ev.End != nil:
		return x.ended(*ev.End) // the event is the stream's until it is read again
	}
	return ev, nil
}

// release gives up the stream, and its context, which would hang on the manager's
// for as long as the daemon lives.
func (x *command) release() {
	if x.stream != nil {
		x.stream.Close()
	}
	x.cancel()
}

// drain reads the end of the stream, which makes the connection fit for the next
// command. A guest that holds it back loses the connection, not the caller's
// time: the end is known already.
func (x *command) drain() {
	if !x.viewer { // whose stream is limited by its caller only
		late := time.AfterFunc(endMark, x.cancel)
		_, _ = x.stream.Next()
		late.Stop()
	}
	x.release()
}

// maxOverrun is what may be on its way when a guest stops a command.
const maxOverrun = 1 << 20

// exit turns the reaper's report into the record's.
func (x *command) exit(end *envd.EndEvent) api.Exit {
	e := api.Exit{Code: int(end.ExitCode), Cause: end.Cause}
	if e.Code > 128 && e.Code < 128+65 && !end.Exited {
		e.Signal = signalName(e.Code - 128)
	}
	switch e.Cause {
	case "", api.CauseTimeout, api.CauseOutput, api.CauseMemory:
	default:
		e.Cause = "" // not a word of ours
	}
	// A SIGKILL without a request may be due to the memory limit. The backend's
	// counter decides: the host's own one, and where there is none, as in a pod, the guest's.
	// A kill that the guest reports is noted: it may be one of those that the counter has.
	if (e.Signal == "SIGKILL" && e.Cause == "" || e.Cause == api.CauseMemory) && x.set.memoryKilled(x.c) {
		e.Cause = api.CauseMemory
	}
	return e
}

// cut records an end that the guest did not report.
func (x *command) cut(err error) error {
	if x.viewer && !x.set.suspended() {
		if errors.Is(err, io.EOF) { // which to a caller means that the command ended
			err = api.Errorf(api.KindUnavailable, "the guest of sandbox %s interrupted the stream of command %s", x.row.Sandbox, x.row.ID)
		}
		return envd.APIError(err)
	}
	if x.set.left() {
		x.release()
		row := x.record()
		return api.Errorf(api.KindUnavailable, "the daemon is stopping; command %s in sandbox %s keeps running", row.ID, row.Sandbox).
			WithHint("attach to it again: the next daemon adopts it")
	}
	if x.set.suspended() {
		// Its record stays as it is until the sandbox continues.
		x.release()
		row := x.record()
		if x.set.Sandbox.Row().Moving {
			return api.Errorf(api.KindUnavailable, "%w", &envd.Error{
				Code: envd.CodeAborted, Message: fmt.Sprintf("sandbox %s is moving to another node, where command %s continues: attach to it again", row.Sandbox, row.ID),
			})
		}
		return api.Errorf(api.KindConflict, "sandbox %s was paused to disk while command %s was running; the command continues when the sandbox resumes", row.Sandbox, row.ID).
			WithHint("resume the sandbox and attach again: hortus sandbox resume %s", row.Sandbox)
	}
	cause, kind := api.CauseLost, api.KindUnavailable
	switch {
	case x.timeout > 0 && errors.Is(err, context.Canceled) && x.c.cfg.Context.Err() == nil && !x.set.ending():
		cause, kind = api.CauseTimeout, api.KindTimeout
	case x.set.awaitEnding():
		// The sandbox ended beneath the command; its reason is the cause.
		cause = x.set.Sandbox.Row().Reason
	}
	x.finish(api.ExecUnknown, api.Exit{Code: -1, Cause: cause})
	x.release()
	row := x.record()
	return api.Errorf(kind, "command %s in sandbox %s: its exit code is unknown: %s", row.ID, row.Sandbox, row.Exit.Cause)
}

// abandon records that the sandbox ended beneath the command.
func (x *command) abandon(reason string) {
	x.finish(api.ExecUnknown, api.Exit{Code: -1, Cause: reason})
	x.cancel()
}

// signalName returns the usual name of a signal number.
func signalName(n int) string {
	names := [...]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS",
		8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
		16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU", 23: "SIGURG",
		24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS"}
	if n > 0 && n < len(names) {
		return names[n]
	}
	return "SIGRTMIN+" + string(rune('0'+(n-32)/10)) + string(rune('0'+(n-32)%10))
}
