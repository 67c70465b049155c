package api

import (
	"strings"
	"time"
)

// ExecState is where a command stands: running, then exited; or unknown when
// its end was not seen. An exit code comes from the guest's reaper alone and is
// never invented.
type ExecState string

const (
	ExecRunning ExecState = "running"
	ExecExited  ExecState = "exited"
	ExecUnknown ExecState = "unknown"
)

// ExecRequest requests one command in a sandbox.
type ExecRequest struct {
	// Args is the command and its arguments; Args[0] is looked up in PATH.
	Args []string `json:"args"`
	// Dir is where it runs; empty means the sandbox's workspace.
	Dir string            `json:"dir,omitempty"`
	Env map[string]string `json:"env,omitempty"`
	// User is "user", "root", or the user of the sandbox's image. The default is that of the
	// image, otherwise "user".
	User string `json:"user,omitempty"`
	// TimeoutMS kills the command after that long; 0 means the sandbox's life.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
	// Stdin reports whether input will follow; without it stdin is /dev/null.
	Stdin bool `json:"stdin,omitempty"`
	// PTY gives it a terminal of that size.
	PTY *PTYSize `json:"pty,omitempty"`
	// Tag finds the command again later.
	Tag string `json:"tag,omitempty"`
}

// PTYSize is a terminal's size in characters.
type PTYSize struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Exec is the stored record of one command.
type Exec struct {
	ID      ExecID    `json:"id"`
	Sandbox SandboxID `json:"sandbox"`
	// Args is the command as it was requested, or the first MaxRecordedArgs bytes of it:
	// ArgsBytes is then the size of all arguments.
	Args      []string  `json:"args"`
	ArgsBytes int64     `json:"argsBytes,omitempty"`
	Dir       string    `json:"dir,omitempty"`
	User      string    `json:"user"`
	PID       int       `json:"pid,omitempty"` // inside the sandbox
	State     ExecState `json:"state"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Exit is in JSON exactly if the command has ended, a success too.
	Exit Exit `json:"exit,omitzero"`
	// TimeoutMS is what was requested.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
	// OutputBytes counts what the host received of its output.
	OutputBytes int64 `json:"outputBytes"`
}

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code; 128+n after signal n; -1 when unknown.
	Code int `json:"code"`
	// Signal names the signal that ended it ("SIGKILL"), or is empty.
	Signal string `json:"signal,omitempty"`
	// Cause is what Hortus knows beyond the code: "timeout", "memory limit",
	// "output limit", "cpu time limit", "killed", "lost"; empty for a plain exit.
	Cause string `json:"cause,omitempty"`
}

// IsZero reports whether the command has not ended, for encoding/json: an end that is unknown
// has a cause.
func (e Exit) IsZero() bool { return e == Exit{Code: -1} }

// Causes of an Exit.
const (
	CauseTimeout = "timeout"
	CauseMemory  = "memory limit"
	CauseOutput  = "output limit"
	CauseCPUTime = "cpu time limit"
	CauseDisk    = "disk limit"              // of a workspace; see Limits.DiskBytes
	CauseQuota   = "workspace quota"         // see Workspace.QuotaBytes
	CauseFull    = "host disk full"          // less is free than a workspace must leave
	CauseAccount = "account storage ceiling" // the setting daemon.account-size
	CauseKilled  = "killed"
	CauseLost    = "lost"
)

// Because returns the reason of an end with a cause and what is known of it.
func Because(cause, why string) string {
	if why == "" {
		return cause
	}
	return cause + ": " + why
}

// CauseOf returns the cause in a reason that Because made with CauseFull or CauseAccount, and any other reason as it is.
func CauseOf(reason string) string {
	if cause, _, _ := strings.Cut(reason, ": "); cause == CauseFull || cause == CauseAccount {
		return cause
	}
	return reason
}

// ExecOutput is a piece of a command's output. Data is base64 in JSON.
type ExecOutput struct {
	// Offset is where it stands in the command's output, stdout and stderr counted
	// together.
	Offset int64  `json:"offset"`
	Stream string `json:"stream"` // "stdout", "stderr" or "pty"
	Data   []byte `json:"data"`
}

// ExecGap is output that was written and is not kept any more: bytes From up to To.
type ExecGap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// SignalExec requests a signal, 1 to 31, to a command's process group.
type SignalExec struct {
	Signal int `json:"signal"`
}

// KilledExec is the answer to the kill of a command.
type KilledExec struct {
	// Exec is its record: it has ended.
	Exec Exec `json:"exec"`
	// How is what makes that certain, and of how much.
	How string `json:"how"`
}
