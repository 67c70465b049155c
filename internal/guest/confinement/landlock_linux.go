package confinement

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ruleset is a Landlock ruleset for commands.
//
// A thread that restricts itself creates a domain, and everything that is forked from it is
// in that domain. The guest's other threads are outside: a command can neither signal nor
// trace the guest, nor read its /proc, even with the same ids. The guest can do all of that
// to commands.
type Ruleset int

// Versions of Landlock and what they added.
const (
	landlockRefer = 2 // renames across directories, which version 1 forbids
	landlockIoctl = 5
	landlockScope = 6
)

// erratumSignal is set if the kernel has the fix for signal scoping: signals between the
// threads of one process, which the Go runtime needs, are not blocked.
const erratumSignal = 1 << (2 - 1)

// NoRuleset is the Ruleset that restricts nothing.
const NoRuleset Ruleset = -1

// NewRuleset creates the ruleset, or returns NoRuleset if the kernel has no usable
// Landlock. It forbids: making device nodes; ioctl on devices outside /dev; abstract unix
// sockets and signals to processes that were not forked from the same thread. It does not
// restrict other access to files: a rule grants a path and cannot mean "everything except
// /proc/sys", so mounts decide what can be written.
func NewRuleset() (Ruleset, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < landlockRefer {
		return NoRuleset, nil // missing, disabled or too old
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_REFER}
	if version >= landlockIoctl {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= landlockScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		errata, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
		if errno == 0 && errata&erratumSignal != 0 {
			attr.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0) // kernels ignore zeros after the fields that they know
	if errno != 0 {
		return NoRuleset, fmt.Errorf("landlock: create ruleset: %w", errno)
	}
	r := Ruleset(fd)
	for _, rule := range []struct {
		path   string
		access uint64
	}{{"/", unix.LANDLOCK_ACCESS_FS_REFER}, {"/dev", unix.LANDLOCK_ACCESS_FS_IOCTL_DEV & attr.Handled_access_fs}} {
		if rule.access == 0 {
			continue
		}
		if err := r.allow(rule.path, rule.access); err != nil {
			r.Close()
			return NoRuleset, fmt.Errorf("landlock: add rule for %s: %w", rule.path, err)
		}
	}
	return r, nil
}

// allow grants access below a directory.
func (r Ruleset) allow(path string, access uint64) error {
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(dir)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Restrict restricts the calling thread permanently. It needs no_new_privs.
func (r Ruleset) Restrict() error {
	if r < 0 {
		return nil
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: restrict thread: %w", errno)
	}
	return nil
}

// Close closes the ruleset. The threads that it restricted stay restricted.
func (r Ruleset) Close() {
	if r >= 0 {
		unix.Close(int(r))
	}
}
