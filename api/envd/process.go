package envd

// The procedures of process.Process.
const (
	ProcStart       = "/process.Process/Start"
	ProcConnect     = "/process.Process/Connect"
	ProcList        = "/process.Process/List"
	ProcUpdate      = "/process.Process/Update"
	ProcSendInput   = "/process.Process/SendInput"
	ProcStreamInput = "/process.Process/StreamInput"
	ProcSendSignal  = "/process.Process/SendSignal"
	ProcCloseStdin  = "/process.Process/CloseStdin"
)

// The headers of the extension hortus.v1. A guest that knows it answers every
// request that has HeaderVersion with the same header.
const (
	// HeaderVersion requests the extension; its value is "1".
	HeaderVersion = "Hortus-Version"
	// HeaderExecID, on Start, names the process; Connect finds it by the
	// selector's tag or pid, or by this header alone.
	HeaderExecID = "Hortus-Exec-Id"
	// HeaderOffset, on Connect, replays the kept output from that byte on.
	HeaderOffset = "Hortus-Offset"
	// HeaderOutputLimit, on Start, kills the process when it has written more.
	HeaderOutputLimit = "Hortus-Output-Limit"
	// HeaderWarmUp marks, with the value "1", a request of the host's own to a
	// guest that nobody has claimed. Others wait for the claim; after it the
	// header means nothing.
	HeaderWarmUp = "Hortus-Warm-Up"
	// HeaderKeep marks the stream by which a host keeps a command's record. When it
	// breaks before the command's end, the host may have died: the guest keeps what
	// the command writes, and has it wait once there is no more room, until a stream
	// with this header comes again, and for a while longer, in which clients of that
	// host may read on from where they were.
	HeaderKeep = "Hortus-Keep"
)

// Version is the value of HeaderVersion.
const Version = "1"

// Size is a terminal's size.
type Size struct {
	Cols uint32 `json:"cols,omitempty" proto:"1"`
	Rows uint32 `json:"rows,omitempty" proto:"2"`
}

// PTY requests a terminal.
type PTY struct {
	Size *Size `json:"size,omitempty" proto:"1"`
}

// ProcessConfig is a command.
type ProcessConfig struct {
	Cmd  string            `json:"cmd,omitempty" proto:"1"`
	Args []string          `json:"args,omitempty" proto:"2"`
	Envs map[string]string `json:"envs,omitempty" proto:"3"`
	Cwd  *string           `json:"cwd,omitempty" proto:"4"`
}

// ProcessInfo describes a live process.
type ProcessInfo struct {
	Config *ProcessConfig `json:"config,omitempty" proto:"1"`
	PID    uint32         `json:"pid,omitempty" proto:"2"`
	Tag    *string        `json:"tag,omitempty" proto:"3"`
}

// Selector names a process by pid or by tag.
type Selector struct {
	PID *uint32 `json:"pid,omitempty" proto:"1,oneof"`
	Tag *string `json:"tag,omitempty" proto:"2,oneof"`
}

// StartRequest starts a process. Stdin absent means true.
type StartRequest struct {
	Process *ProcessConfig `json:"process,omitempty" proto:"1"`
	PTY     *PTY           `json:"pty,omitempty" proto:"2"`
	Tag     *string        `json:"tag,omitempty" proto:"3"`
	Stdin   *bool          `json:"stdin,omitempty" proto:"4"`
}

// ConnectRequest attaches to a process.
type ConnectRequest struct {
	Process *Selector `json:"process,omitempty" proto:"1"`
}

// ProcessResponse is a message of the Start and Connect streams.
type ProcessResponse struct {
	Event *ProcessEvent `json:"event,omitempty" proto:"1"`
}

// ProcessEvent holds exactly one of its fields.
type ProcessEvent struct {
	Start     *StartEvent `json:"start,omitempty" proto:"1,oneof"`
	Data      *DataEvent  `json:"data,omitempty" proto:"2,oneof"`
	End       *EndEvent   `json:"end,omitempty" proto:"3,oneof"`
	Keepalive *Empty      `json:"keepalive,omitempty" proto:"4,oneof"`
}

// StartEvent is the first event of a stream.
type StartEvent struct {
	PID uint32 `json:"pid,omitempty" proto:"1"`
	// Offset is hortus.v1: the offset of the first byte of output that will
	// follow. Above the requested one it says how much was dropped.
	Offset int64 `json:"hortusOffset,omitempty,string" proto:"1001"`
}

// DataEvent holds output: exactly one of its byte fields.
type DataEvent struct {
	// Offset is hortus.v1: where these bytes stand in the output of the process, stdout
	// and stderr counted together, from 0. It is first so that the bytes come last: a
	// sender that has them in place writes in front of them only (see AppendDataHead).
	Offset int64  `json:"hortusOffset,omitempty,string" proto:"1001"`
	Stdout []byte `json:"stdout,omitempty" proto:"1,oneof"`
	Stderr []byte `json:"stderr,omitempty" proto:"2,oneof"`
	PTY    []byte `json:"pty,omitempty" proto:"3,oneof"`
}

// EndEvent is the last event. ExitCode is the exit code, or 128+n after signal n.
type EndEvent struct {
	ExitCode int32   `json:"exitCode,omitempty" proto:"1,sint32"`
	Exited   bool    `json:"exited,omitempty" proto:"2"`
	Status   string  `json:"status,omitempty" proto:"3"` // "exit status 1", "signal: killed"
	Error    *string `json:"error,omitempty" proto:"4"`
	// Cause is hortus.v1: why the guest killed it ("timeout", "output limit").
	Cause string `json:"hortusCause,omitempty" proto:"1001"`
}

// Empty is a message without fields.
type Empty struct{}

// ListResponse lists the live processes that clients started.
type ListResponse struct {
	Processes []*ProcessInfo `json:"processes,omitempty" proto:"1"`
}

// UpdateRequest resizes a terminal.
type UpdateRequest struct {
	Process *Selector `json:"process,omitempty" proto:"1"`
	PTY     *PTY      `json:"pty,omitempty" proto:"2"`
}

// ProcessInput holds exactly one of its fields.
type ProcessInput struct {
	Stdin []byte `json:"stdin,omitempty" proto:"1,oneof"`
	PTY   []byte `json:"pty,omitempty" proto:"2,oneof"`
}

// SendInputRequest writes to a process.
type SendInputRequest struct {
	Process *Selector     `json:"process,omitempty" proto:"1"`
	Input   *ProcessInput `json:"input,omitempty" proto:"2"`
}

// StreamInputRequest is a message of the StreamInput client stream: Start first,
// then Data. It holds exactly one of its fields.
type StreamInputRequest struct {
	Start     *StreamInputStart `json:"start,omitempty" proto:"1,oneof"`
	Data      *StreamInputData  `json:"data,omitempty" proto:"2,oneof"`
	Keepalive *Empty            `json:"keepalive,omitempty" proto:"3,oneof"`
}

// StreamInputStart names the process that the stream writes to.
type StreamInputStart struct {
	Process *Selector `json:"process,omitempty" proto:"1"`
}

// StreamInputData carries input.
type StreamInputData struct {
	Input *ProcessInput `json:"input,omitempty" proto:"2"`
}

// Signal is a signal that may be sent: "SIGNAL_SIGTERM" and "SIGNAL_SIGKILL" in
// JSON, 15 and 9 in protobuf. Other numbers from 1 to 31 are hortus.v1.
type Signal int32

// SendSignalRequest signals a process.
type SendSignalRequest struct {
	Process *Selector `json:"process,omitempty" proto:"1"`
	Signal  Signal    `json:"signal,omitempty" proto:"2"`
}

// CloseStdinRequest ends a process's input.
type CloseStdinRequest struct {
	Process *Selector `json:"process,omitempty" proto:"1"`
}
