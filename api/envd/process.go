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
	// HeaderVersion asks for the extension; its value is "1".
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
	Cols uint32 `json:"cols,omitempty"` // 1
	Rows uint32 `json:"rows,omitempty"` // 2
}

// PTY asks for a terminal.
type PTY struct {
	Size *Size `json:"size,omitempty"` // 1
}

// ProcessConfig is a command.
type ProcessConfig struct {
	Cmd  string            `json:"cmd,omitempty"`  // 1
	Args []string          `json:"args,omitempty"` // 2
	Envs map[string]string `json:"envs,omitempty"` // 3
	Cwd  *string           `json:"cwd,omitempty"`  // 4
}

// ProcessInfo describes a live process.
type ProcessInfo struct {
	Config *ProcessConfig `json:"config,omitempty"` // 1
	PID    uint32         `json:"pid,omitempty"`    // 2
	Tag    *string        `json:"tag,omitempty"`    // 3
}

// Selector names a process by pid or by tag.
type Selector struct {
	PID *uint32 `json:"pid,omitempty"` // 1
	Tag *string `json:"tag,omitempty"` // 2
}

// StartRequest starts a process. Stdin absent means true.
type StartRequest struct {
	Process *ProcessConfig `json:"process,omitempty"` // 1
	PTY     *PTY           `json:"pty,omitempty"`     // 2
	Tag     *string        `json:"tag,omitempty"`     // 3
	Stdin   *bool          `json:"stdin,omitempty"`   // 4
}

// ConnectRequest attaches to a process.
type ConnectRequest struct {
	Process *Selector `json:"process,omitempty"` // 1
}

// ProcessResponse is a message of the Start and Connect streams.
type ProcessResponse struct {
	Event *ProcessEvent `json:"event,omitempty"` // 1
}

// ProcessEvent holds exactly one of its fields.
type ProcessEvent struct {
	Start     *StartEvent `json:"start,omitempty"`     // 1
	Data      *DataEvent  `json:"data,omitempty"`      // 2
	End       *EndEvent   `json:"end,omitempty"`       // 3
	Keepalive *Empty      `json:"keepalive,omitempty"` // 4
}

// StartEvent is the first event of a stream.
type StartEvent struct {
	PID uint32 `json:"pid,omitempty"` // 1
	// Offset is hortus.v1: the offset of the first byte of output that will
	// follow. Above the requested one it says how much was dropped.
	Offset int64 `json:"hortusOffset,omitempty,string"` // 1001
}

// DataEvent holds output: exactly one of its byte fields.
type DataEvent struct {
	Stdout []byte `json:"stdout,omitempty"` // 1
	Stderr []byte `json:"stderr,omitempty"` // 2
	PTY    []byte `json:"pty,omitempty"`    // 3
	// Offset is hortus.v1: where these bytes stand in the output of the
	// process, stdout and stderr counted together, from 0.
	Offset int64 `json:"hortusOffset,omitempty,string"` // 1001
}

// EndEvent is the last event. ExitCode is the exit code, or 128+n after signal n.
type EndEvent struct {
	ExitCode int32   `json:"exitCode,omitempty"` // 1, sint32
	Exited   bool    `json:"exited,omitempty"`   // 2
	Status   string  `json:"status,omitempty"`   // 3: "exit status 1", "signal: killed"
	Error    *string `json:"error,omitempty"`    // 4
	// Cause is hortus.v1: why the guest killed it ("timeout", "output limit").
	Cause string `json:"hortusCause,omitempty"` // 1001
}

// Empty is a message without fields.
type Empty struct{}

// ListResponse lists the live processes that clients started.
type ListResponse struct {
	Processes []*ProcessInfo `json:"processes,omitempty"` // 1
}

// UpdateRequest resizes a terminal.
type UpdateRequest struct {
	Process *Selector `json:"process,omitempty"` // 1
	PTY     *PTY      `json:"pty,omitempty"`     // 2
}

// ProcessInput holds exactly one of its fields.
type ProcessInput struct {
	Stdin []byte `json:"stdin,omitempty"` // 1
	PTY   []byte `json:"pty,omitempty"`   // 2
}

// SendInputRequest writes to a process.
type SendInputRequest struct {
	Process *Selector     `json:"process,omitempty"` // 1
	Input   *ProcessInput `json:"input,omitempty"`   // 2
}

// StreamInputRequest is a message of the StreamInput client stream: Start first,
// then Data. It holds exactly one of its fields.
type StreamInputRequest struct {
	Start     *StreamInputStart `json:"start,omitempty"`     // 1
	Data      *StreamInputData  `json:"data,omitempty"`      // 2
	Keepalive *Empty            `json:"keepalive,omitempty"` // 3
}

// StreamInputStart names the process that the stream writes to.
type StreamInputStart struct {
	Process *Selector `json:"process,omitempty"` // 1
}

// StreamInputData carries input.
type StreamInputData struct {
	Input *ProcessInput `json:"input,omitempty"` // 2
}

// Signal is a signal that may be sent: "SIGNAL_SIGTERM" and "SIGNAL_SIGKILL" in
// JSON, 15 and 9 in protobuf. Other numbers from 1 to 31 are hortus.v1.
type Signal int32

// SendSignalRequest signals a process.
type SendSignalRequest struct {
	Process *Selector `json:"process,omitempty"` // 1
	Signal  Signal    `json:"signal,omitempty"`  // 2
}

// CloseStdinRequest ends a process's input.
type CloseStdinRequest struct {
	Process *Selector `json:"process,omitempty"` // 1
}
