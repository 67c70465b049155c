package confinement

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is the kernel's struct seccomp_notif: a system call that is pending at a
// listener.
type notification struct {
	id          uint64
	pid, flags  uint32
	nr          int32
	arch        uint32
	instruction uint64
	args        [6]uint64
}

// notifAddFD is SECCOMP_IOCTL_NOTIF_ADDFD: it copies a descriptor to the waiting process.
const notifAddFD = 0x40182103

// seccompListener filters the calling thread and returns a listener for the calls that need
// an answer.
func seccompListener(filter []unix.SockFilter) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// nextNotification receives a pending call. got is false if there is none now. over is true
// if there will be no more.
func nextNotification(listener int) (n notification, got, over bool) {
	// The ioctl blocks even if the descriptor is non-blocking.
	ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(ready, 0); err == unix.EINTR {
			continue
		} else if err != nil {
			return n, false, true
		}
		switch events := ready[0].Revents; {
		case events&unix.POLLIN != 0:
		case events != 0:
			return n, false, true
		default:
			return n, false, false
		}
		n = notification{} // the kernel requires zeros
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n)))
		switch errno {
		case 0:
			return n, true, false
		case unix.EINTR, unix.ENOENT: // the caller was killed
		default:
			return n, false, true
		}
	}
}

// handOver answers a call with a copy of a descriptor, which gets the given flags.
func handOver(listener int, id uint64, fd int, flags uint32) error {
	arg := struct {
		id                        uint64
		flags, from, to, newFlags uint32
	}{id: id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, from: uint32(fd), newFlags: flags}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifAddFD, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return errno
	}
	return nil
}

// refuse answers a call with an error. It ignores a caller that has ended.
func refuse(listener int, id uint64, why unix.Errno) {
	arg := struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}{id: id, errno: -int32(why)}
	unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&arg)))
}

// seccompFilter filters the calling thread only.
func seccompFilter(prog *unix.SockFprog) error {
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
