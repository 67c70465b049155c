package privilege

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// dropped are the capabilities that nothing in a daemon or in what it starts uses. A
// sandbox's user namespace has a set of its own, which this does not bound.
var dropped = []int{
	unix.CAP_LINUX_IMMUTABLE, unix.CAP_NET_BROADCAST, unix.CAP_NET_RAW, unix.CAP_IPC_OWNER, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO,
	unix.CAP_SYS_PACCT, unix.CAP_SYS_BOOT, unix.CAP_SYS_TTY_CONFIG, unix.CAP_LEASE, unix.CAP_AUDIT_WRITE, unix.CAP_AUDIT_CONTROL,
	unix.CAP_AUDIT_READ, unix.CAP_MAC_OVERRIDE, unix.CAP_MAC_ADMIN, unix.CAP_SYSLOG, unix.CAP_WAKE_ALARM, unix.CAP_BLOCK_SUSPEND,
	unix.CAP_PERFMON, unix.CAP_BPF, unix.CAP_CHECKPOINT_RESTORE,
}

// Drop takes from this process what a daemon of root's never uses, and executes the
// program anew without it. It returns where there is nothing to take: for another user
// than root, and when the program runs anew. Call it before anything is opened. After an
// error, such as that of a kernel without filters, the program continues as it is, but for
// the caller's thread.
func Drop() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || nnp == 1 && !excess() {
		return err
	}
	// The thread is this program until the exec, and is not given back when that fails.
	runtime.LockOSThread()
	if err := take(); err != nil {
		return err
	}
	self, err := program()
	if err == nil {
		err = unix.Exec(self, os.Args, os.Environ())
	}
	return fmt.Errorf("run again without privileges: %w", err)
}

// excess reports whether this thread has one of the capabilities, or none of the filters.
func excess() bool {
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err == nil && mode == 0 && filterable {
		return true
	}
	have, err := capabilities()
	if err != nil {
		return false
	}
	for _, c := range dropped {
		if have[c/32].Permitted&(1<<(c%32)) != 0 {
			return true
		}
	}
	return false
}

// take does it for this thread.
func take() error {
	for _, c := range dropped {
		// Without CAP_SETPCAP the bounding set stays; then no_new_privs keeps a program
		// that is executed from having what this one has not.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EPERM && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, err)
		}
	}
	have, err := capabilities()
	if err != nil {
		return err
	}
	for _, c := range dropped {
		bit := uint32(1) << (c % 32)
		have[c/32].Effective &^= bit
		have[c/32].Permitted &^= bit
		have[c/32].Inheritable &^= bit
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return install()
}

func capabilities() (have [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return have, fmt.Errorf("read capabilities: %w", err)
	}
	return have, nil
}

// program is this program's path. Under that of the kernel it would be shown as "exe".
func program() (string, error) {
	const kernels = "/proc/self/exe"
	running, err := os.Stat(kernels)
	if err != nil {
		return "", err
	}
	if path, err := os.Readlink(kernels); err == nil && filepath.IsAbs(path) {
		if st, err := os.Stat(path); err == nil && os.SameFile(st, running) {
			return path, nil
		}
	}
	return kernels, nil // it was replaced since it was started
}
