package attack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is what eats resources, from inside a sandbox. A bomb that is not
// stopped stops by itself, so that a missing wall costs a test and not the
// machine; it then says "kept" and how much.

// bombBytes is what a bomb of memory tries to hold.
const bombBytes = 400 << 20

// runBomb runs one by name.
func runBomb(name string) int {
	what, arg, _ := strings.Cut(name, " ")
	err := errors.New("there is no such bomb")
	switch what {
	case "socket":
		err = bindSocket(arg)
	case "clone":
		err = cloneBomb()
	case "anonymous":
		err = mapBomb(unix.MAP_PRIVATE)
	case "shared":
		err = mapBomb(unix.MAP_SHARED)
	case "memfd":
		err = memfdBomb()
	case "file":
		err = fileBomb(arg)
	case "sysv":
		err = sysvBomb(arg == "attached")
	case "pipes":
		err = fillBomb(pipeEnds)
	case "sockets":
		err = fillBomb(socketEnds)
	case "tcp":
		err = tcpBomb()
	case "udp":
		err = udpBomb()
	case "netlink":
		err = netlinkBomb()
	case "tables":
		err = tablesBomb()
	case "disk":
		err = everywhere(arg, fillDisk)
	case "inodes":
		err = everywhere(arg, fillInodes)
	case "descriptors":
		err = descriptors()
	case "zombies":
		err = zombies(arg)
	case "signals":
		rounds, way, _ := strings.Cut(arg, " ")
		n, _ := strconv.Atoi(rounds)
		err = signals(n, way)
	case "timers":
		err = timers()
	case "deep":
		depth, dir, _ := strings.Cut(arg, " ")
		n, _ := strconv.Atoi(depth)
		err = deepTree(n, dir)
	}
	if err != nil {
		fmt.Println("stopped:", err)
	}
	return 0
}

// cloneBomb makes processes that make processes.
func cloneBomb() error {
	for n := 0; n < 5000; n++ {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			fmt.Println("stopped after", n)
			for { // what it has, it holds
				unix.RawSyscall(unix.SYS_PPOLL, 0, 0, 0)
			}
		}
		if pid == 0 {
			for {
				if pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); int(pid) < 0 {
					unix.RawSyscall(unix.SYS_PPOLL, 0, 0, 0)
				}
			}
		}
	}
	fmt.Println("kept 5000 processes")
	return nil
}

func mapBomb(flags int) error {
	const step = 16 << 20
	for n := 0; n < bombBytes; n += step {
		b, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	return kept(bombBytes)
}

// kept says that nothing stopped a bomb, and stays for the watch to see it.
func kept(n int) error {
	fmt.Println("kept", n)
	return nil
}

// pour writes to f until it is refused or holds bombBytes.
func pour(f *os.File) error {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	for n := 0; n < bombBytes; {
		m, err := f.Write(b)
		n += m
		if err != nil {
			return err
		}
	}
	return kept(bombBytes)
}

func memfdBomb() error {
	fd, err := unix.MemfdCreate("bomb", 0)
	if err != nil {
		return err
	}
	return pour(os.NewFile(uintptr(fd), "bomb"))
}

func fileBomb(dir string) error {
	f, err := os.CreateTemp(dir, "bomb")
	if err != nil {
		return err
	}
	return pour(f)
}

func sysvBomb(attached bool) error {
	const step = 16 << 20
	for n := 0; n < bombBytes; n += step {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, step, 0o600|unix.IPC_CREAT)
		if err != nil {
			return err
		}
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		if attached {
			continue
		}
		if err := unix.SysvShmDetach(b); err != nil { // the segment stays, unless the kernel removes it
			return err
		}
	}
	return kept(bombBytes)
}

func pipeEnds() (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK); err != nil {
		return -1, err
	}
	_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 1<<20) // a small one will do as well
	return p[1], nil
}

func socketEnds() (int, error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(p[1], unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<20)
	return p[1], nil
}

// fillBomb fills the kernel's buffers of what open makes.
func fillBomb(open func() (int, error)) error {
	b := make([]byte, 64<<10)
	for n := 0; n < bombBytes; {
		fd, err := open()
		if err != nil {
			return fmt.Errorf("after %d MiB: %w", n>>20, err)
		}
		for {
			m, err := unix.Write(fd, b)
			if m <= 0 || err != nil {
				break
			}
			n += m
		}
	}
	return kept(bombBytes)
}

// everywhere runs fill in each directory that can be written to and is in no
// other such of the same file system. It leaves out the directory without, if it is set.
func everywhere(without string, fill func(dir string) error) error {
	filled := map[string]uint64{} // by the file system
	return filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if p == "/proc" || p == without {
			return fs.SkipDir
		}
		var st unix.Stat_t
		if unix.Access(p, unix.W_OK) != nil || unix.Stat(p, &st) != nil {
			return nil
		}
		for dir, dev := range filled {
			if dev == st.Dev && (dir == "/" || strings.HasPrefix(p, dir+"/")) {
				return nil
			}
		}
		filled[p] = st.Dev
		fmt.Println("place", p, fill(p))
		return nil
	})
}

// fillDisk writes one file until it is refused.
func fillDisk(dir string) error {
	f, err := os.CreateTemp(dir, "bomb")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := pour(f); err != nil {
		return err
	}
	return errors.New("kept everything")
}

// fillInodes makes files until one is refused.
func fillInodes(dir string) error {
	sub, err := os.MkdirTemp(dir, "bomb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sub)
	for n := range 200_000 {
		fd, err := unix.Open(filepath.Join(sub, strconv.Itoa(n)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return errors.New("kept everything")
}

// descriptors opens as many files as it may.
func descriptors() error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: lim.Max, Max: lim.Max})
	for n := range 40_000 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Println("opened", n)
			return err
		}
	}
	fmt.Println("opened 40000")
	return nil
}

// zombies makes children that nobody waits for: its own, or orphans.
func zombies(kind string) error {
	refused := 0
	for range 400 {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			refused++
			if kind == "own" {
				return errno
			}
			continue
		}
		if pid == 0 {
			if kind == "orphans" { // its child is the init's when this one is gone
				unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			}
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if kind == "orphans" {
			_, _ = unix.Wait4(int(pid), nil, 0, nil)
		}
	}
	fmt.Println("made 400, refused", refused)
	return nil
}

// signals sends PID 1 every signal in one way, so many times; or one signal, if a
// number follows the way.
func signals(rounds int, way string) error {
	pidfd, err := unix.Open("/proc/1", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		pidfd = -1
	}
	var info [128]byte
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
	way, one, _ := strings.Cut(way, " ")
	send := map[string]func(sig int){
		"kill":   func(sig int) { unix.RawSyscall(unix.SYS_KILL, 1, uintptr(sig), 0) },
		"tkill":  func(sig int) { unix.RawSyscall(unix.SYS_TKILL, 1, uintptr(sig), 0) },
		"tgkill": func(sig int) { unix.RawSyscall(unix.SYS_TGKILL, 1, 1, uintptr(sig)) },
		"threads": func(sig int) {
			for tid := 2; tid < 30; tid++ {
				if tid != os.Getpid() && (unix.Tgkill(1, tid, 0) == nil || unix.Tgkill(os.Getpid(), tid, 0) == unix.ESRCH) {
					unix.RawSyscall(unix.SYS_TGKILL, 1, uintptr(tid), uintptr(sig))
					unix.RawSyscall(unix.SYS_TKILL, uintptr(tid), uintptr(sig), 0)
				}
			}
		},
		"queue": func(sig int) {
			unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(sig), uintptr(unsafe.Pointer(&info[0])))
			unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, 1, 1, uintptr(sig), uintptr(unsafe.Pointer(&info[0])), 0, 0)
		},
		"pidfd": func(sig int) { unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), uintptr(sig), 0, 0, 0, 0) },
		"owner": owned,
	}[way]
	if send == nil {
		return errors.New("there is no such way")
	}
	for range rounds {
		for sig := 1; sig <= 64; sig++ {
			if one != "" && one != fmt.Sprint(sig) {
				continue
			}
			send(sig)
		}
	}
	fmt.Println("sent")
	return nil
}

// owned makes PID 1 the owner of a pipe's signals, which the kernel then sends.
func owned(sig int) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK); err != nil {
		return
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, 1)
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETSIG, sig)
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
	_, _ = unix.Write(p[1], []byte("x"))
}

// timers makes timers until there are no more to be had.
func timers() error {
	for n := range 1_000_000 {
		var id int32
		ev := [16]uint32{3: 1} // SIGEV_NONE
		_, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, 0, uintptr(unsafe.Pointer(&ev[0])), uintptr(unsafe.Pointer(&id)))
		if errno != 0 {
			fmt.Println("made", n)
			return errno
		}
		every := [4]int64{0, 1000, 0, 1000}
		unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&every[0])), 0, 0, 0)
	}
	return kept(1_000_000)
}

// deepTree makes a directory in a directory, depth times.
func deepTree(depth int, dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for n := range depth {
		if err := unix.Mkdir("d", 0o755); err != nil {
			return fmt.Errorf("at depth %d: %w", n, err)
		}
		if err := unix.Chdir("d"); err != nil {
			return err
		}
	}
	fmt.Println("made", depth)
	return nil
}
