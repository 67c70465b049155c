package initns

import (
	"errors"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
)

// Argv0 is the argv[0] with which a multi-call binary is this stage.
const Argv0 = "hortus-init"

// MaxSpec is the maximum size of a Spec packet, in bytes, and MaxFDs the maximum number of its
// descriptors.
const (
	MaxSpec = 128 << 10
	MaxFDs  = 240 // the kernel passes 253 at most
)

// Built is the packet that the stage sends when everything is mounted, with a descriptor of the
// sandbox's disk.
const Built = "built"

// SocketName is the name of the listening socket in the run directory.
const SocketName = "s"

// Spec is what to build. Descriptor fields are indexes into the descriptors of the packet; -1
// means none.
type Spec struct {
	Hostname string `json:"hostname"`
	// RunDir is the directory for the socket, Guest the executable.
	RunDir int `json:"runDir"`
	Guest  int `json:"guest"`
	// Listen is the socket on which the guest serves, and Threads the number of threads that it keeps. Both
	// are for a container of an engine only; elsewhere the stage binds the socket, and the guest has a
	// limit of processes of its own.
	Listen  int `json:"listen,omitempty"`
	Threads int `json:"threads,omitempty"`
	// Roots are the root's lower layers, the top one first.
	Roots []Lower `json:"roots"`
	// Dev is a detached mount for /dev; -1 means to make one of the host's nodes.
	Dev    int     `json:"dev"`
	Mounts []Mount `json:"mounts,omitempty"`
	// DiskBytes and DiskInodes limit everything that can be written.
	DiskBytes  int64 `json:"diskBytes"`
	DiskInodes int64 `json:"diskInodes"`
	// Dirs are made in the upper layer before the root is mounted, in order.
	Dirs []birth.Dir `json:"dirs,omitempty"`
	// Saved is the initial content of the upper layers, in the format of package upper;
	// with -1 the root's starts with Dirs and Files.
	Saved int `json:"saved"`
	// Workspace is mounted at /workspace; nil for a plain directory.
	Workspace *Workspace `json:"workspace,omitempty"`
	// Files are written into the upper layer; their directories are in Dirs.
	Files []birth.File `json:"files,omitempty"`
	// Run are the files of birth.RunDir. They are not in the upper layer, because a saved
	// one belongs to another sandbox.
	Run []birth.File `json:"run,omitempty"`
	// UID and GID are the guest's. Caps are the capabilities of the guest, Bounding those
	// that any process may ever get.
	UID      int    `json:"uid"`
	GID      int    `json:"gid"`
	Caps     uint64 `json:"caps"`
	Bounding uint64 `json:"bounding"`
	Quotas   Quotas `json:"quotas"`
	// Limits are what programs see of the limits; nil leaves the machine's.
	Limits *Limits `json:"limits,omitempty"`
	// Switch is true if the stage changes to UID and GID.
	Switch bool `json:"switch"`
	// Clocks says to make a time namespace for the guest; otherwise the stage is in one
	// already, or there is none.
	Clocks bool `json:"clocks,omitempty"`
	// Hidepid hides other users' processes; the group GID can see them all.
	Hidepid bool `json:"hidepid"`
	// Filter is the seccomp program: 8 bytes for each instruction, in host byte order.
	Filter []byte `json:"filter"`
	// Probe says to stop after the Built packet instead of becoming the guest.
	Probe bool `json:"probe,omitempty"`
	// Capture says to fail if outgoing connections cannot be captured. Otherwise the sandbox
	// then has none.
	Capture bool `json:"capture,omitempty"`
	// Keeper says to become a keeper instead, for a guest with its own kernel. The root is
	// then read-only, because that kernel keeps what is written, and Guest is not used.
	Keeper *keeper.Plan `json:"keeper,omitempty"`
}

// Lower is a lower layer of an overlay: a detached mount, or a path if FD is -1.
type Lower struct {
	FD   int    `json:"fd"`
	Path string `json:"path,omitempty"`
}

// Workspace is an overlay at Workspace.Target.
type Workspace struct {
	Target string `json:"target"`
	// Lowers are its lower layers, the top one first.
	Lowers []Lower `json:"lowers"`
	// Disk is the directory that contains the upper and the work directory, named Upper
	// and Work; nil for the sandbox's own disk.
	Disk  *Lower `json:"disk,omitempty"`
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// UID and GID own the top directory on the sandbox's own disk.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Try says to try every operation that an overlay must support, on the entries "file"
	// and "dir/file" of its lower layer.
	Try bool `json:"try,omitempty"`
	// Access are files and directories that are mounted read-only or writable, in order.
	Access []Access `json:"access,omitempty"`
	// View requests a read-only mount of it at birth.ViewDir. On a kernel of its own the
	// guest makes it.
	View bool `json:"view,omitempty"`
}

// Access is a path below the target of a workspace.
type Access struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Mount is a read-only tree: an overlay over Lowers, the top one first.
type Mount struct {
	Target string  `json:"target"`
	Lowers []Lower `json:"lowers"`
}

// step is an error of one named step.
type step struct {
	name string
	err  error
}

func (s *step) Error() string { return s.name + ": " + s.err.Error() }

// at adds the name of its step to an error; nil stays nil.
func at(name string, err error) error {
	if err == nil {
		return nil
	}
	return &step{name, err}
}

func (s *step) errno() int {
	var e unix.Errno
	if errors.As(s.err, &e) {
		return int(e)
	}
	return 0
}
