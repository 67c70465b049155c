package initns

import (
	"errors"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
)

// Argv0 is the argument zero by which a multi-call binary knows that it is to be
// this stage.
const Argv0 = "hortus-init"

// MaxSpec bounds a Spec packet, in bytes; MaxFDs the descriptors with it.
const (
	MaxSpec = 128 << 10
	MaxFDs  = 128
)

// Built is what the stage says when everything is in place. One descriptor comes
// with it, of the sandbox's disk, for statfs.
const Built = "built"

// SocketName is the name of the listening socket in the run directory.
const SocketName = "s"

// Spec says what to build. Descriptor fields are indexes into the descriptors
// that come with the packet; -1 means that there is none.
type Spec struct {
	Hostname string `json:"hostname"`
	// RunDir is the directory that gets the socket, Guest the executable.
	RunDir int `json:"runDir"`
	Guest  int `json:"guest"`
	// Roots are the root's lower layers, the top one first.
	Roots []Lower `json:"roots"`
	// Dev is a detached mount for /dev, or -1 for one of our own.
	Dev    int     `json:"dev"`
	Mounts []Mount `json:"mounts,omitempty"`
	// DiskBytes and DiskInodes bound everything that can be written.
	DiskBytes  int64 `json:"diskBytes"`
	DiskInodes int64 `json:"diskInodes"`
	// Dirs are made in the upper layer before the root is mounted, in order.
	Dirs []birth.Dir `json:"dirs,omitempty"`
	// Saved holds what the upper layers start with, as package upper saves it;
	// without it, -1, the root's starts with Dirs and Files.
	Saved int `json:"saved"`
	// Workspace is mounted at /workspace; nil for a plain directory.
	Workspace *Workspace `json:"workspace,omitempty"`
	// Files are written into the upper layer; their directories are in Dirs.
	Files []birth.File `json:"files,omitempty"`
	// Run are the files of birth.RunDir. They are no part of the upper layer: one that
	// was saved belongs to another sandbox.
	Run []birth.File `json:"run,omitempty"`
	// UID, GID are the guest's. Caps is what the guest holds, Bounding what any
	// process may ever hold.
	UID      int    `json:"uid"`
	GID      int    `json:"gid"`
	Caps     uint64 `json:"caps"`
	Bounding uint64 `json:"bounding"`
	// Quotas bound what the kernel counts for each user.
	Quotas Quotas `json:"quotas"`
	// Switch says that the stage has to change to UID and GID.
	Switch bool `json:"switch"`
	// Clocks says to make a time namespace for the guest; otherwise the stage
	// was born in one, or there is none.
	Clocks bool `json:"clocks,omitempty"`
	// Hidepid hides other users' processes; ProcGID may see them all.
	Hidepid bool `json:"hidepid"`
	// Filter is the seccomp program: 8 bytes an instruction, host byte order.
	Filter []byte `json:"filter"`
	// Probe says to stop after the Built packet instead of becoming the guest.
	Probe bool `json:"probe,omitempty"`
	// Keeper, when there is one, says to become a keeper instead, for a guest with a
	// kernel of its own. The root is then read-only but for what that kernel keeps
	// itself, and Guest is not used.
	Keeper *keeper.Plan `json:"keeper,omitempty"`
}

// Lower is a lower layer of an overlay: a detached mount, or a path when FD is -1.
type Lower struct {
	FD   int    `json:"fd"`
	Path string `json:"path,omitempty"`
}

// Workspace is an overlay at Workspace.Target.
type Workspace struct {
	Target string `json:"target"`
	// Lowers are its lower layers, the top one first.
	Lowers []Lower `json:"lowers"`
	// Disk is the directory with its upper and its work directory; nil for the
	// sandbox's own disk. Upper and Work are their names.
	Disk  *Lower `json:"disk,omitempty"`
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// UID and GID own the top directory on the sandbox's own disk.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Try says to try everything that an overlay must be able to do, with the
	// entries "file" and "dir/file" of its lower layer.
	Try bool `json:"try,omitempty"`
}

// Mount is a read-only tree: an overlay of its own over Lowers, the top one first.
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

// at gives an error the name of its step; nil stays nil.
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
