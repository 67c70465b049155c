package initns

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
)

// backlog is the maximum number of streams that wait to be accepted.
const backlog = 512

// bind makes a listening socket in this network namespace. The address uses the descriptor of
// the run directory: this process cannot reach that directory by name, and the name may be
// longer than a socket address.
func bind(dir int, name string) (int, error) {
	if dir < 0 {
		return -1, nil // a probe
	}
	kind := unix.SOCK_STREAM
	if name == keeper.SocketName {
		kind = unix.SOCK_SEQPACKET
	}
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, at("make the link's socket", err)
	}
	path := "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return -1, at("bind the link's socket", err)
	}
	return fd, at("listen on the link's socket", unix.Listen(fd, backlog))
}

// nullStdio replaces the standard descriptors by the sandbox's own /dev/null, so that no
// descriptor of the host's /dev stays.
func nullStdio() error {
	fd, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	if err != nil {
		return at("open /dev/null", err)
	}
	for i := range 3 {
		if err := unix.Dup3(fd, i, 0); err != nil {
			return at("open /dev/null", err)
		}
	}
	return at("open /dev/null", unix.Close(fd))
}

// place moves the guest's two descriptors to the numbers in package birth and marks every
// other one close-on-exec. It returns the new descriptors of the socket and the executable.
func place(listen, guest int) (int, int, error) {
	const safe = 16
	guest, err := unix.FcntlInt(uintptr(guest), unix.F_DUPFD_CLOEXEC, safe)
	if err != nil {
		return 0, 0, at("place descriptors", err)
	}
	listen, err = unix.FcntlInt(uintptr(listen), unix.F_DUPFD_CLOEXEC, safe)
	if err != nil {
		return 0, 0, at("place descriptors", err)
	}
	if err := unix.Dup3(controlFD, birth.ControlFD, 0); err != nil {
		return 0, 0, at("place descriptors", err)
	}
	if err := unix.Dup3(listen, birth.ListenFD, 0); err != nil {
		return 0, 0, at("place descriptors", err)
	}
	const closeOnExec = 1 << 2 // CLOSE_RANGE_CLOEXEC
	_, _, e := unix.RawSyscall(unix.SYS_CLOSE_RANGE, birth.ControlFD+1, uintptr(^uint32(0)), closeOnExec)
	if e != 0 {
		// Before Linux 5.11. Everything that came in a message or that the runtime opened
		// has the flag already.
		if e != unix.ENOSYS && e != unix.EINVAL {
			return 0, 0, at("place descriptors", e)
		}
	}
	return listen, guest, nil
}

// execveat executes the executable of a descriptor, with an empty environment.
func execveat(fd int, argv0 string) error {
	empty, err := unix.BytePtrFromString("")
	if err != nil {
		return err
	}
	arg, err := unix.BytePtrFromString(argv0)
	if err != nil {
		return err
	}
	argv := [2]*byte{arg, nil}
	envv := [1]*byte{nil}
	_, _, e := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), unix.AT_EMPTY_PATH, 0)
	return e
}
