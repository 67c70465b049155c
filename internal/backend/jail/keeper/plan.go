package keeper

import "encoding/json"

// Plan is what a keeper is told with the stage's Spec. Descriptor fields are indexes
// into the descriptors of that packet.
type Plan struct {
	// ID names the sandbox to the kernel's programs.
	ID string `json:"id"`
	// Tools is a detached mount with the programs, seen at ToolsDir. Its directory
	// GuestDir is seen by the sandbox too, at GuestTarget.
	Tools     int    `json:"tools"`
	ToolsPath string `json:"toolsPath"` // where Tools is -1
	// Files are written before anything starts: path and text.
	Files []File `json:"files"`
	// Create is a command that makes the kernel's processes and ends. Its standard
	// input and output are the guest's socket, its error output is kept for the
	// report.
	Create []string `json:"create"`
	// Control is the socket on which the kernel takes calls, once Create has ended.
	Control string `json:"control"`
	// Kernel is the argument zero of the process that is the kernel.
	Kernel string `json:"kernel"`
	// Start are calls that bring the guest to life, in order.
	Start []Call `json:"start"`
	// Restored says that the guest comes from a saved state: it has its configuration,
	// and says nothing before it was told who it is.
	Restored bool `json:"restored,omitempty"`
	// Held says that what the calls need is not there yet: before them the daemon
	// sends GoOn.
	Held bool `json:"held,omitempty"`
}

// GoOn is the packet for which a keeper waits that was told to hold.
const GoOn = "go on"

// Where a keeper finds things, below its own root.
const (
	// ToolsDir has the programs, RootDir the sandbox's root, WorkspaceDir what lies
	// at the sandbox's /workspace where that is mounted apart, StateDir is for what
	// the kernel's programs keep.
	ToolsDir     = "/tools"
	RootDir      = "/root"
	WorkspaceDir = "/durable"
	StateDir     = "/state"
	// GuestDir is the directory of the tools that the sandbox sees, and GuestTarget
	// where.
	GuestDir    = "guest"
	GuestTarget = "/.hortus"
)

// SocketName is the name, in the run directory, of the socket on which a keeper
// takes requests of the daemon's.
const SocketName = "k"

// File is a file below the keeper's root.
type File struct {
	Path string `json:"path"`
	Data string `json:"data"`
}

// Call is one call of the kernel: a method, its argument as JSON, and the
// descriptors that go with it.
type Call struct {
	Method string          `json:"method"`
	Arg    json.RawMessage `json:"arg"`
	FDs    []int           `json:"fds,omitempty"`
}

// Request is one packet on the keeper's socket. What it may hold is a save; its
// descriptors are the files that the call writes into, in its order.
type Request struct {
	// Save is the call that saves.
	Save *Call `json:"save"`
	// Hold leaves the guest standing still after the save, until the connection ends.
	Hold *Hold `json:"hold,omitempty"`
}

// Hold are the calls of a kernel that stands still: Stand before the save, and Go
// when it is to go on.
type Hold struct {
	Stand Call `json:"stand"`
	Go    Call `json:"go"`
}

// Answer answers a Request in one packet.
type Answer struct {
	OK bool `json:"ok"`
	// Error says what failed; Going whether the guest goes on, Held whether it stands
	// still for as long as the connection lasts.
	Error string `json:"error,omitempty"`
	Going bool   `json:"going,omitempty"`
	Held  bool   `json:"held,omitempty"`
	// PausedUS is how long the guest stood still, in microseconds.
	PausedUS int64 `json:"pausedUs,omitempty"`
}

// StepRestore names the step of a report in which a kernel was to take an image.
const (
	stepCall    = "call the kernel's "
	StepRestore = stepCall + "Restore"
)

// Exit codes of a keeper. Any other is the one with which its kernel ended by itself,
// most often because its guest did.
const (
	// ExitFailed says that it could not start, or not go on; a report has said why in
	// the first case.
	ExitFailed = 125
	// ExitSignal and the number of a signal say that the kernel ended by that.
	ExitSignal = 128
	// ExitKilled says that the kernel was killed by the host, as by a limit of
	// memory.
	ExitKilled = ExitSignal + 9
)
