package forker

import (
	"fmt"
	"syscall"

	"hortus.dev/internal/backend/jail/cgroup"
)

// Mode is the argument by which the stage's program learns that it is to be a forker.
const Mode = "fork"

// maxPacket bounds an order, and maxAnswer what is said of one, in bytes.
const (
	maxPacket = 64 << 10
	maxAnswer = 4 << 10
)

// Order says what to fork: this process's own program, in new namespaces.
type Order struct {
	// Args are its arguments, the name first, and Env its whole environment.
	Args, Env []string
	// Namespaces are the flags of clone(2).
	Namespaces uintptr
	// UIDs and GIDs are written for its user namespace. Root has it change to id 0 of
	// both, which needs ranges of ids and lets it set groups.
	UIDs, GIDs []syscall.SysProcIDMap
	Root       bool
	// Owner is the user id to which the kernel charges its user namespace and what is
	// used there of every per-user quota; 0 is the forker's own. It needs CAP_SETUID.
	Owner int
	// Ambient are capabilities that it keeps when it is executed.
	Ambient []uintptr
	// Clocks gives it a time namespace, Keyring a session keyring of its own, and
	// Slack, in nanoseconds, lets its timers be late.
	Clocks, Keyring bool
	Slack           uintptr
	Seat            cgroup.Seat
}

// answer is what became of an order. A descriptor of the process comes with it, where
// the kernel has them.
type answer struct {
	PID   int
	Errno syscall.Errno `json:",omitempty"`
	Text  string        `json:",omitempty"`
}

// end is how a process ended, said on the socket of its order.
type end struct {
	Status syscall.WaitStatus
}

// failure is an order that could not be carried out.
type failure struct {
	text  string
	errno syscall.Errno
}

func (f *failure) Error() string { return f.text }

// Unwrap gives the system's error, where there was one.
func (f *failure) Unwrap() error {
	if f.errno == 0 {
		return nil
	}
	return f.errno
}

// attributes are those of the process that an order asks for.
func (o *Order) attributes(group int, pidfd *int) (*syscall.SysProcAttr, error) {
	if len(o.Args) == 0 {
		return nil, fmt.Errorf("the order names no program")
	}
	if own := o.Namespaces&syscall.CLONE_NEWUSER != 0; own != (len(o.UIDs) > 0) || own != (len(o.GIDs) > 0) {
		// The child would wait for ids from a thread that waits for the child.
		return nil, fmt.Errorf("the order has ids without a user namespace, or none for one")
	}
	// A session of its own: the signals of the daemon's terminal are not for it.
	attr := &syscall.SysProcAttr{
		Cloneflags: o.Namespaces, Setsid: true, PidFD: pidfd,
		UidMappings: o.UIDs, GidMappings: o.GIDs, GidMappingsEnableSetgroups: o.Root,
		AmbientCaps: o.Ambient, UseCgroupFD: group >= 0, CgroupFD: group,
	}
	if o.Root {
		attr.Credential = &syscall.Credential{}
	}
	return attr, nil
}
