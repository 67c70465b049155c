package birth

// The descriptors that a guest inherits.
const (
	ListenFD  = 3
	ControlFD = 4
)

// MaxPacket is the maximum size of a packet on the control socket, in bytes.
const MaxPacket = 128 << 10

// Reserve is the number of threads that the guest needs in addition to the limit of
// processes: a Go program dies if it cannot create a thread.
const Reserve = 64

// GoPacket is the last packet of the host; a [Claim] may follow in the same packet.
const GoPacket = "go"

// Claim configures a guest that was started ahead, with its "go".
type Claim struct {
	// Env replaces Config.Env.
	Env map[string]string `json:"env"`
}

// Argv0 is the argument zero with which a multi-call binary runs the guest.
const Argv0 = "hortus-guest"

// Identity is a user that commands may run as.
type Identity struct {
	Name   string   `json:"name"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	Home   string   `json:"home"`
	// Caps are the capability numbers of the identity's commands; an ordinary user has
	// none.
	Caps []uintptr `json:"caps,omitempty"`
}

// Dir is a directory that belongs to a user of the sandbox. The guest makes it if it is
// missing.
type Dir struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// File is a small file, owned by root, that the guest writes at its start.
type File struct {
	Path string `json:"path"`
	Data string `json:"data"`
}

// Config configures a guest.
type Config struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Identities lists the users; the first is the default. A request for another user is
	// refused with that user's text in WhyNot, or as unknown.
	Identities []Identity        `json:"identities"`
	WhyNot     map[string]string `json:"whyNot,omitempty"`
	// Switch is true if the guest may change ids. If false, every identity must have the
	// guest's ids.
	Switch bool `json:"switch"`
	// Workspace is the directory, which must exist, of commands and relative paths, unless Dir
	// is set.
	Workspace string            `json:"workspace"`
	Dir       string            `json:"dir,omitempty"`
	Path      string            `json:"path"`
	Env       map[string]string `json:"env,omitempty"`
	// Waits is true if the guest is started ahead: until "go" it answers warm-up requests,
	// and other requests wait.
	Waits bool `json:"waits,omitempty"`
	// Processes is the maximum number of processes of commands (RLIMIT_NPROC); 0 means no
	// limit. With Switch, the guest's uid is counted separately, and its limit is at least
	// Reserve.
	Processes int64 `json:"processes,omitempty"`
	// OutputBuffer is the maximum output kept per command, in bytes. It must be positive.
	OutputBuffer int `json:"outputBuffer"`
	// PID1 is true if the guest is the init of a pid namespace in which all other processes
	// are the sandbox's.
	PID1 bool `json:"pid1"`
	// Capture is true if the sandbox's network redirects outgoing connections to CapturePort
	// and DNS queries to ResolverPort. The guest then serves these ports and ProxyPort.
	Capture bool `json:"capture,omitempty"`
	// Memory is the memory limit, in bytes, that the guest enforces by polling (best effort)
	// because its host cannot. 0 means no limit.
	Memory int64 `json:"memory,omitempty"`
	// OwnKernel is true if the guest and its commands have a kernel of their own. There the
	// guest makes the directories of Own and the files of Files, and enforces Processes,
	// which a stage before it does elsewhere.
	OwnKernel bool   `json:"ownKernel,omitempty"`
	Own       []Dir  `json:"own,omitempty"`
	Files     []File `json:"files,omitempty"`
	// View says that the guest, with OwnKernel, mounts the Workspace at ViewDir, read-only.
	View bool `json:"view,omitempty"`
}

// Report is the reply of a guest, or of the stage before it.
type Report struct {
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
	// Stage is the step that failed, for the message.
	Stage string `json:"stage,omitempty"`
	// Errno is the system error of that step, or 0.
	Errno int `json:"errno,omitempty"`
	// Quiet is set in the reply to a QuietPacket, Nonce in the reply to a Self.
	Quiet bool   `json:"quiet,omitempty"`
	Nonce string `json:"nonce,omitempty"`
}
