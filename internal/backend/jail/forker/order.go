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

// Order is what to fork: this process's own program, in new namespaces.
type Order struct {
	// Args are its arguments, argv[0] first. Env is its whole environment.
	Args, Env []string
	// Namespaces are the flags of clone(2).
	Namespaces uintptr
	// UIDs and GIDs are mapped in its user namespace. Root makes it change to id 0 of
	// both, which needs ranges of ids, and allows setgroups.
	UIDs, GIDs []syscall.SysProcIDMap
	Root       bool
	// Owner is the user id to which the kernel charges its user namespace and the
	// per-user quotas used there; 0 is the forker's own. It needs CAP_SETUID.
	Owner int
	// Ambient are the capabilities that it keeps across execve.
	Ambient []uintptr
	// Clocks gives it a time namespace, Keyring its own session keyring. Slack is its
	// timer slack, in nanoseconds.
	Clocks, Keyring bool
	Slack           uintptr
	Seat            cgroup.Seat
}

// answer is the result of an order. A pidfd comes with it, if the kernel has them.
type answer struct {
	PID   int
	Errno syscall.Errno `json:",omitempty"`
	Text  string        `json:",omitempty"`
}

// end is the exit status of a process, sent on the socket of its order.
type end struct {
	Status syscall.WaitStatus
}

// failure is the error of an order that could not be carried out.
type failure struct {
	text  string
	errno syscall.Errno
}

func (f *failure) Error() string { return f.text }

// Unwrap returns the system error, if there was one.
func (f *failure) Unwrap() error {
	if f.errno == 0 {
		return nil
	}
	return f.errno
}

// attributes are those of the process of an order.
func (o *Order) attributes(group int, pidfd *int) (*syscall.SysProcAttr, error) {
	if len(o.Args) == 0 {
		return nil, fmt.Errorf("the order has no program")
	}
	if own := o.Namespaces&syscall.CLONE_NEWUSER != 0; own != (len(o.UIDs) > 0) || own != (len(o.GIDs) > 0) {
		// The child would wait for its ids, while the thread waits for the child.
		return nil, fmt.Errorf("the order has ids without a user namespace, or a user namespace without ids")
	}
	// Its own session: it must not get the signals of the daemon's terminal.
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
