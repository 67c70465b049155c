package birth

// ArgStdio is the first argument of a guest whose control socket is its standard
// input and output, because it runs on a kernel of its own that gives it no other
// descriptors. The same socket passes its streams and stays open while the guest
// lives: [ListenFD] and [ControlFD] do not exist.
//
// # Container requirements
//
// With Config.OwnKernel, Switch and PID1, the container of such a guest needs, in the
// terms of the OCI specification and of runsc's flags:
//
//	process.args             [the guest's path, "stdio"]; the path ends in Argv0 if
//	                         the program is a multi-call binary
//	process.user             a uid and gid of its own, not 0 and not an identity's
//	process.noNewPrivileges  true
//	process.capabilities     OwnKernelCaps, and those of the identities, as permitted,
//	                         effective, inheritable and ambient; the bounding set may
//	                         be empty, which saves 40 system calls per thread
//	standard input, output   the control socket, at the start and after a restore;
//	                         standard error is the host's choice, and shows a panic
//	linux.namespaces         pid, mount, uts, ipc, network; no cgroup, no user
//	mounts                   proc at /proc, devpts at /dev/pts, and one of the type
//	                         "cgroup" at Groups, writable
//	--in-sandbox-cgroup=v2   a group with a limit stops fork bombs
//	--overlay2=root:memory   or another writable root: the guest makes Own and Files,
//	                         and, for a Self, writes /etc/hostname, hosts,
//	                         machine-id and the files of RunDir
//
// The guest unmounts Groups and bind-mounts its own root there. Its commands are
// chrooted to that mount, because a process in a chroot cannot create a user namespace.
const ArgStdio = "stdio"

// Groups is where a guest on a kernel of its own finds cgroup v2.
const Groups = "/sys/fs/cgroup"

// Placeholder is a file that the guest removes at its start. It keeps a kernel from
// mounting a file system of its own on an empty /tmp, which the sandbox's disk limit would
// not cover.
const Placeholder = "/tmp/.hortus"

// Packets of the host to a guest on a kernel of its own, besides "go". They may be sent at
// any time after the Config: a guest that is started ahead is warmed up and saved before
// "go".
const (
	// StreamPacket carries one descriptor, a connected stream socket for the guest to
	// serve. There is no reply.
	StreamPacket = "stream"
	// QuietPacket orders the guest to close every stream at once, because its kernel will
	// be saved and cannot save descriptors of the host. Commands continue. When no stream is
	// open, the guest answers with a Report that sets Quiet. It accepts no stream until an
	// OnPacket or a Self.
	QuietPacket = "quiet"
	// OnPacket orders the guest to serve again.
	OnPacket = "on"
	// SelfPacket begins a packet with the JSON of a [Self]: the guest was restored and is
	// another sandbox now. The guest answers with a Report that sets Ready and repeats the
	// Nonce. A Self may replace "go".
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
	// Seed is fresh randomness, at least 16 bytes. The guest derives the machine id and the
	// boot id from it.
	Seed []byte `json:"seed"`
	// Nonce is repeated in the Report, to distinguish it from one that was sent before the
	// save.
	Nonce string `json:"nonce"`
}
