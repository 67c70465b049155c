package birth

// ArgStdio is the first argument of a guest whose control socket is its standard
// input and output, because it runs on a kernel of its own that gives it no other
// descriptors. Its streams come over that socket too, which stays open for as long
// as it lives: [ListenFD] and [ControlFD] are not there.
//
// # What it needs of its container
//
// With Config.OwnKernel, Switch and PID1, the container of such a guest is, in the
// words of the OCI's specification and of runsc's flags:
//
//	process.args             [the guest's path, "stdio"]; the first ends in Argv0 where
//	                         the program is a multi-call binary
//	process.user             a uid and gid of its own, not 0 and no identity's
//	process.noNewPrivileges  true
//	process.capabilities     OwnKernelCaps, and those of the identities, as permitted,
//	                         effective, inheritable and ambient; the bounding set may
//	                         be empty, which spares each thread 40 calls
//	standard input, output   the control socket, both, here and at a restore; the error
//	                         output is the host's choice, and shows a panic
//	linux.namespaces         pid, mount, uts, ipc, network; no cgroup, no user
//	mounts                   proc at /proc, devpts at /dev/pts, and one of the type
//	                         "cgroup" at Groups, writable
//	--in-sandbox-cgroup=v2   a group with a bound is what stops a fork bomb there
//	--overlay2=root:memory   or another writable root: the guest makes Own and Files,
//	                         and writes /etc/hostname, hosts and machine-id, and
//	                         those of RunDir, in a Self
//
// The guest unmounts Groups, and binds its own root there: its commands are chrooted
// to that, because a process in a changed root gets no user namespace.
const ArgStdio = "stdio"

// Groups is where a guest on a kernel of its own finds version 2 of control groups.
const Groups = "/sys/fs/cgroup"

// Placeholder is a file that such a guest removes at its start. It keeps a kernel
// from taking an empty /tmp for one that wants a file system of its own, which the
// sandbox's bound of disk would not hold.
const Placeholder = "/tmp/.hortus"

// What a host says to such a guest beside "go", one packet each, at any time after its
// Config: a guest that is started ahead is warmed up, and saved, before "go".
const (
	// StreamPacket brings one descriptor, a connected stream socket, for the guest
	// to serve. There is no answer.
	StreamPacket = "stream"
	// QuietPacket tells the guest to let go of every stream, at once, because its
	// kernel is about to be saved and can save no descriptor of the host's.
	// Commands go on. The guest answers with a Report that says Quiet when no
	// stream is open any more, and serves none until it hears OnPacket or a Self.
	QuietPacket = "quiet"
	// OnPacket tells the guest to go on as who it is.
	OnPacket = "on"
	// SelfPacket begins a packet, the JSON of a [Self] follows: the guest came from
	// a saved state and is another one from here on. It answers with a Report that
	// says Ready and repeats the Nonce. It may come in the place of "go" too.
	SelfPacket = "self"
)

// Self is who a guest is after it was restored.
type Self struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Template is the name that RunFiles tell.
	Template string `json:"template,omitempty"`
	// Env takes the place of Config.Env.
	Env map[string]string `json:"env,omitempty"`
	// Seed is fresh randomness for what is derived from it inside, such as the
	// machine's id: at least 16 bytes.
	Seed []byte `json:"seed"`
	// Nonce comes back in the Report, which tells it from one that was said before
	// the save.
	Nonce string `json:"nonce"`
}
