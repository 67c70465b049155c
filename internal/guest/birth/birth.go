package birth

// The descriptors that a guest inherits.
const (
	ListenFD  = 3
	ControlFD = 4
)

// MaxPacket bounds a packet on the control socket, in bytes.
const MaxPacket = 128 << 10

// Reserve is how many threads a guest needs to itself, beyond the limit of
// processes: a Go program that cannot have one more when it wants it dies.
const Reserve = 64

// GoPacket is the last packet of the host's, or its beginning: a [Claim] may
// follow it.
const GoPacket = "go"

// Claim is what a guest that was started ahead is told with its "go".
type Claim struct {
	// Env takes the place of Config.Env.
	Env map[string]string `json:"env"`
}

// Argv0 is the argument zero by which a multi-call binary knows that it is to be
// the guest.
const Argv0 = "hortus-guest"

// Identity is a user that commands may run as.
type Identity struct {
	Name   string   `json:"name"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	Home   string   `json:"home"`
	// Caps are capability numbers that the identity's commands hold; none for
	// an ordinary user.
	Caps []uintptr `json:"caps,omitempty"`
}

// Dir is a directory that belongs to one of the sandbox's users; it is made where
// it is missing.
type Dir struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// File is a small file that the guest writes at its start, owned by root inside.
type File struct {
	Path string `json:"path"`
	Data string `json:"data"`
}

// Config tells a guest what it is.
type Config struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Identities lists the users; the first is the default. A request for
	// another name is refused with WhyNot's text, or as unknown.
	Identities []Identity        `json:"identities"`
	WhyNot     map[string]string `json:"whyNot,omitempty"`
	// Switch says that the guest may change ids; false where it has a single
	// one, and then every identity must be its own.
	Switch bool `json:"switch"`
	// Workspace is where commands run and relative paths start that name no
	// home; it exists.
	Workspace string            `json:"workspace"`
	Path      string            `json:"path"`
	Env       map[string]string `json:"env,omitempty"`
	// Waits says that the guest is started ahead of whom it is for: until "go"
	// it answers the requests that warm it up, and lets all others wait.
	Waits bool `json:"waits,omitempty"`
	// Processes is set as RLIMIT_NPROC for commands when above 0. Where the guest
	// has ids of its own, whose threads count apart, it is at least Reserve.
	Processes int64 `json:"processes,omitempty"`
	// OutputBuffer bounds the kept output of one command, in bytes.
	OutputBuffer int `json:"outputBuffer"`
	// PID1 says that the guest is the init of a pid namespace and has
	// everything in it to itself.
	PID1 bool `json:"pid1"`
	// Memory, when above 0, is a limit in bytes that the guest itself watches,
	// because its host has no means: best effort.
	Memory int64 `json:"memory,omitempty"`
	// OwnKernel says that the guest and its commands have a kernel to themselves,
	// in which the guest prepares what the stage before it does elsewhere: the
	// directories of Own, the files of Files, the bound of Processes.
	OwnKernel bool   `json:"ownKernel,omitempty"`
	Own       []Dir  `json:"own,omitempty"`
	Files     []File `json:"files,omitempty"`
}

// Report is what a guest, or the stage before it, answers.
type Report struct {
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
	// Stage names the step that failed, for the message.
	Stage string `json:"stage,omitempty"`
	// Errno is the system error of that step, or 0.
	Errno int `json:"errno,omitempty"`
	// Quiet answers a QuietPacket, Nonce a Self.
	Quiet bool   `json:"quiet,omitempty"`
	Nonce string `json:"nonce,omitempty"`
}
