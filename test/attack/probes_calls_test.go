package attack

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callProbes are calls that Docker's default profile allows and this one does
// not. They work on any host whose kernel has them.
func callProbes() []probe {
	buf := uintptr(unsafe.Pointer(&scratch[0]))
	return []probe{
		{name: "message queue of System V", run: func() error {
			const private, remove = 0, 0
			id, _, e := unix.RawSyscall(unix.SYS_MSGGET, private, 0o600, 0)
			if e != 0 {
				return e
			}
			return sys(unix.SYS_MSGCTL, id, remove, 0)
		}, control: "userns"},
		{name: "message queue of POSIX", run: func() error {
			name, err := unix.BytePtrFromString("hortus-probe")
			if err != nil {
				return err
			}
			defer sys(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)))
			return fdCall(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CREAT, 0o600, 0)
		}, control: "userns"},
		{name: "io_setup", run: func() error {
			clear(scratch[:8])
			if err := sys(unix.SYS_IO_SETUP, 4, buf); err != nil {
				return err
			}
			return sys(unix.SYS_IO_DESTROY, uintptr(*(*uint64)(unsafe.Pointer(&scratch[0]))))
		}, control: "any"},
		{name: "vmsplice", run: func() error {
			var p [2]int
			if err := unix.Pipe(p[:]); err != nil {
				return err
			}
			defer unix.Close(p[0])
			defer unix.Close(p[1])
			_, err := unix.Vmsplice(p[1], []unix.Iovec{{Base: &scratch[0], Len: 8}}, 0)
			return err
		}, control: "any"},
		{name: "tee", run: func() error {
			var p, q [2]int
			if err := unix.Pipe(p[:]); err != nil {
				return err
			}
			if err := unix.Pipe(q[:]); err != nil {
				return err
			}
			if _, err := unix.Write(p[1], []byte("x")); err != nil {
				return err
			}
			_, err := unix.Tee(p[0], q[1], 1, 0)
			return err
		}, control: "any"},
		{name: "cachestat", run: func() error {
			f, err := os.Open("/proc/self/exe")
			if err != nil {
				return err
			}
			defer f.Close()
			clear(scratch[:])
			const cachestat = 451 // a range of 16 bytes, then the answer of 40
			return sys(cachestat, f.Fd(), buf, buf+64, 0)
		}, control: "any"},
		{name: "get_robust_list", run: func() error {
			return sys(unix.SYS_GET_ROBUST_LIST, 0, buf, buf+8)
		}, control: "any"},
		{name: "ioprio_set", run: func() error {
			const ofProcess, bestEffort = 1, 2<<13 | 4
			return sys(unix.SYS_IOPRIO_SET, ofProcess, 0, bestEffort)
		}, control: "any"},
		{name: "no address randomisation", run: func() error { return sys(unix.SYS_PERSONALITY, 0x0040000) }, control: "any"},
		{name: "listmount", run: func() error {
			// listmount of the root of this mount namespace.
			*(*[3]uint64)(unsafe.Pointer(&scratch[0])) = [3]uint64{24, ^uint64(0), 0}
			const listmount = 458
			return sys(listmount, buf, buf+32, 4, 0)
		}, control: "any"},
		{name: "memfd_secret", run: func() error { return fdCall(unix.SYS_MEMFD_SECRET, 0) }, control: "any"},
		{name: "mptcp socket", run: func() error { return fdErr(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)) }, control: "any"},
		{name: "udplite socket", run: func() error { return fdErr(unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE)) }, control: "any"},
		{name: "sctp socket", run: func() error { return fdErr(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)) }, control: "any"},
		{name: "smc socket", run: func() error { return fdErr(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 256)) }, control: "any"},
		{name: "tcp socket with another protocol above it", run: func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "hortus")
			if errors.Is(err, unix.ENOENT) {
				return nil // the kernel looked for one of that name
			}
			return err
		}, control: "any"},
		{name: "futex_wake of the new kind", run: func() error {
			const futexWake, private32 = 454, 0x82
			return sys(futexWake, buf, 1, 1, private32)
		}, control: "any"},
	}
}
