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

// Groups is where a guest on a kernel of its own finds cgroup v2.
const Groups = "/sys/fs/cgroup"

// Placeholder is a file that the guest removes at its start. It keeps a kernel from
// mounting a file system of its own on an empty /tmp, which the sandbox's disk limit would
// not cover.
const Placeholder = "/tmp/.hortus"

// Packets of the host to a guest on a kernel of its own, besides "go", at any time after
// the Config: a guest that is started ahead is warmed up and saved before "go".
const (
	// StreamPacket carries one descriptor, a connected stream socket for the guest to
	// serve. There is no answer.
	StreamPacket = "stream"
	// QuietPacket tells the guest to close every stream at once, because its kernel is
	// about to be saved and cannot save descriptors of the host. Commands continue. The guest
	// answers with a Report that sets Quiet when no stream is open, and accepts none until
	// an OnPacket or a Self.
	QuietPacket = "quiet"
	// OnPacket tells the guest to serve again.
	OnPacket = "on"
	// SelfPacket begins a packet with the JSON of a [Self]: the guest was restored and is
	// another sandbox now. It answers with a Report that sets Ready and repeats the Nonce.
	// A Self may replace "go".
	SelfPacket = "self"
)

// Self is the new identity of a guest that was restored.
type Self struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Template is the name of the template, for RunFiles.
	Template string `json:"template,omitempty"`
	// Env replaces Config.Env.
	Env map[string]string `json:"env,omitempty"`
	// Seed is fresh randomness, at least 16 bytes, from which ids inside are derived, such
	// as the machine's.
	Seed []byte `json:"seed"`
	// Nonce is repeated in the Report, to distinguish it from one that was sent before the
	// save.
	Nonce string `json:"nonce"`
}
