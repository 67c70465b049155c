package keeper

import "encoding/json"

// Plan is what a keeper starts. It is part of the stage's Spec; descriptor fields are
// indexes into the descriptors of that packet.
type Plan struct {
	// ID names the sandbox to the kernel's programs.
	ID string `json:"id"`
	// Tools is a detached mount with the programs, mounted at ToolsDir. Its directory
	// GuestDir is also mounted in the sandbox, at GuestTarget.
	Tools     int    `json:"tools"`
	ToolsPath string `json:"toolsPath"` // if Tools is -1
	// Files are written before anything starts.
	Files []File `json:"files"`
	// Create is a command that starts the kernel's processes and ends. Its standard
	// input and output are the guest's socket; its error output is used in the report.
	Create []string `json:"create"`
	// Control is the socket on which the kernel accepts calls after Create has ended.
	Control string `json:"control"`
	// Kernel is the argv[0] of the kernel's process.
	Kernel string `json:"kernel"`
	// Start are the calls that start the guest, in order.
	Start []Call `json:"start"`
	// Restored is true if the guest comes from a saved state: it has its configuration,
	// and sends nothing before it received its identity. Before the calls the keeper waits
	// for a packet with one more Call, which reads the state and is the last one; its
	// descriptors are those of the packet, in order.
	Restored bool `json:"restored,omitempty"`
}

// Directories in a keeper's root.
const (
	// ToolsDir contains the programs, RootDir is the sandbox's root, WorkspaceDir is a
	// durable /workspace, and StateDir is for the state of the kernel's programs.
	ToolsDir     = "/tools"
	RootDir      = "/root"
	WorkspaceDir = "/durable"
	StateDir     = "/state"
	// GuestDir is the directory of the tools that is mounted in the sandbox, at
	// GuestTarget.
	GuestDir    = "guest"
	GuestTarget = "/.hortus"
)

// SocketName is the name, in the run directory, of the socket on which a keeper accepts
// requests of the daemon.
const SocketName = "k"

// File is a file in the keeper's root.
type File struct {
	Path string `json:"path"`
	Data string `json:"data"`
}

// Call is one call of the kernel: a method, its argument as JSON, and the descriptors that
// are sent with it.
type Call struct {
	Method string          `json:"method"`
	Arg    json.RawMessage `json:"arg"`
	FDs    []int           `json:"fds,omitempty"`
	// File is the content of a file whose descriptor is sent after FDs; nil for none. Only
	// calls of a start have one.
	File []byte `json:"file,omitempty"`
}

// Request is one packet on the keeper's socket: a save, or another call. Its descriptors are the files that
// the call writes, in that order.
type Request struct {
	// Save is the call that saves. Prepare, if there is one, is made before it, and Undo
	// after a save that failed, or whose answer nobody has read.
	Save    *Call `json:"save,omitempty"`
	Prepare *Call `json:"prepare,omitempty"`
	Undo    *Call `json:"undo,omitempty"`
	// Bases is the call that returns the files that the saved state refers to, and their
	// names; nil if it refers to none.
	Bases *Call `json:"bases,omitempty"`
	// Alone is a call that is made without a save. The answer has its result.
	Alone *Call `json:"alone,omitempty"`
	// Hold keeps the guest stopped after the save, until the connection ends.
	Hold *Hold `json:"hold,omitempty"`
}

// Hold are the calls that stop a kernel before a save and resume it later.
type Hold struct {
	Stop   Call `json:"stand"`
	Resume Call `json:"go"`
}

// Answer answers a Request in one packet.
type Answer struct {
	OK bool `json:"ok"`
	// Error is what failed. Going says that the guest has resumed, Held that it stays
	// stopped as long as the connection lasts.
	Error string `json:"error,omitempty"`
	Going bool   `json:"going,omitempty"`
	Held  bool   `json:"held,omitempty"`
	// Bases are the names that the call Bases of the request has returned. The descriptors
	// of their files are sent with the answer, in this order.
	Bases []string `json:"bases,omitempty"`
	// Result is what the call Alone of the request has returned.
	Result json.RawMessage `json:"result,omitempty"`
	// PausedUS is how long the guest was stopped, in microseconds.
	PausedUS int64 `json:"pausedUs,omitempty"`
}

// StepRestore is the step of a report in which a kernel reads an image.
const (
	stepCall    = "call the kernel's "
	StepRestore = stepCall + "Restore"
)

// Exit codes of a keeper. Any other one is the exit status of its kernel, which usually
// ended because its guest did.
const (
	// ExitFailed reports that the keeper failed. If the start failed, a report says why.
	ExitFailed = 125
	// ExitSignal plus the number of a signal says that the signal ended the kernel.
	ExitSignal = 128
	// ExitKilled reports that the host killed the kernel, for example at a memory limit.
	ExitKilled = ExitSignal + 9
)
