package attack

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe is one thing that must not work inside.
type probe struct {
	name string
	run  func() error
	// control says on what ground the control stands: "root" probes get through
	// for root on the host, in namespaces of their own; "userns" probes also for
	// root in a user namespace of its own; "any" for everyone; "none" where no
	// host should be tried, and then only the inside is checked, with the reason.
	control string
	why     string
}

// scratch is memory for calls that want some.
var scratch [128]byte

func sys(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	return nil
}

// fdErr returns the error of a call that makes a descriptor, and closes it.
func fdErr(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func fdCall(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	unix.Close(int(r))
	return nil
}

// probes lists the escapes that the issue of isolation is about. They are run
// each in a process of its own.
func probes() []probe {
	buf := uintptr(unsafe.Pointer(&scratch[0]))
	return append(slices.Concat(moreProbes(), callProbes()), []probe{
		// Namespaces: a new one is a new surface of the kernel.
		{name: "unshare mount", run: func() error { return unix.Unshare(unix.CLONE_NEWNS) }, control: "userns"},
		{name: "unshare net", run: func() error { return unix.Unshare(unix.CLONE_NEWNET) }, control: "userns"},
		{name: "unshare pid", run: func() error { return unix.Unshare(unix.CLONE_NEWPID) }, control: "userns"},
		{name: "unshare uts", run: func() error { return unix.Unshare(unix.CLONE_NEWUTS) }, control: "userns"},
		{name: "unshare ipc", run: func() error { return unix.Unshare(unix.CLONE_NEWIPC) }, control: "userns"},
		{name: "unshare cgroup", run: func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }, control: "userns"},
		{name: "clone3", run: func() error { return sys(unix.SYS_CLONE3, buf, 64) }, control: "none", why: "an empty request is malformed everywhere; it must be ENOSYS inside, so that C libraries fall back"},
		{name: "setns", run: func() error {
			fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Setns(fd, unix.CLONE_NEWNET)
		}, control: "userns"},

		// Mounts.
		{name: "mount tmpfs", run: func() error { return unix.Mount("x", "/tmp", "tmpfs", 0, "") }, control: "userns"},
		{name: "mount proc", run: func() error { return unix.Mount("proc", "/tmp", "proc", 0, "") }, control: "root"},
		{name: "mount bind", run: func() error { return unix.Mount("/etc", "/tmp", "", unix.MS_BIND, "") }, control: "userns"},
		{name: "mount remount rw", run: func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }, control: "root"},
		{name: "umount", run: func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }, control: "root"},
		{name: "pivot_root", run: func() error { return unix.PivotRoot("/tmp", "/tmp") }, control: "none", why: "it needs a prepared mount"},
		{name: "chroot", run: func() error { return unix.Chroot("/tmp") }, control: "userns"},
		{name: "fsopen", run: func() error { return fdErr(unix.Fsopen("tmpfs", 0)) }, control: "userns"},
		{name: "open_tree clone", run: func() error {
			return fdErr(unix.OpenTree(unix.AT_FDCWD, "/tmp", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE))
		}, control: "userns"},
		{name: "name_to_handle_at and open_by_handle_at", run: openByHandle, control: "root"},

		// Other processes.
		{name: "ptrace traceme", run: traceMe, control: "any"},
		{name: "ptrace attach to PID 1", run: func() error { return unix.PtraceSeize(1) }, control: "none", why: "the host's PID 1 is not to be traced by a test"},
		{name: "process_vm_readv of PID 1", run: func() error {
			local := []unix.Iovec{{Base: &scratch[0], Len: 8}}
			_, err := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		}, control: "none", why: "what is mapped at the host's PID 1 is not known"},
		{name: "pidfd_getfd of PID 1", run: func() error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return fdErr(unix.PidfdGetfd(fd, 0, 0))
		}, control: "none", why: "the host's PID 1 is not to be touched by a test; \"pidfd_getfd of a child\" has the control"},
		{name: "kill PID 1", run: func() error { return unix.Kill(1, unix.SIGCONT) }, control: "root"},
		{name: "prlimit of PID 1", run: func() error {
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{})
		}, control: "root"},
		{name: "become the guest", run: func() error {
			runtime.LockOSThread()
			return sys(unix.SYS_SETRESUID, 65533, 65533, 65533)
		}, control: "root"},

		// Kernel subsystems with a history.
		{name: "keyctl", run: func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err }, control: "any"},
		{name: "add_key", run: func() error {
			_, err := unix.AddKey("user", "hortus-probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}, control: "any"},
		{name: "bpf", run: func() error {
			attr := [16]uint32{1, 4, 4, 1} // an array map of one entry
			return fdCall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		}, control: "root"},
		{name: "userfaultfd", run: func() error { return fdCall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1) }, control: "any"},
		{name: "io_uring_setup", run: func() error {
			var params [120]byte
			return fdCall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])))
		}, control: "any"},
		{name: "perf_event_open", run: func() error {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
			return fdErr(unix.PerfEventOpen(&attr, 0, -1, -1, 0))
		}, control: "root"},
		{name: "kexec_load", run: func() error { return sys(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0) }, control: "none", why: "not to be tried on a host"},
		{name: "init_module", run: func() error { return sys(unix.SYS_INIT_MODULE, buf, 8, buf) }, control: "none", why: "not to be tried on a host"},
		{name: "quotactl", run: func() error { return sys(unix.SYS_QUOTACTL, 0, 0, 0, 0) }, control: "none", why: "it depends on the host's file systems"},
		{name: "acct", run: func() error { return unix.Acct("/tmp/acct") }, control: "none", why: "not to be tried on a host"},
		{name: "swapon", run: func() error { return sys(unix.SYS_SWAPON, buf, 0) }, control: "none", why: "not to be tried on a host"},
		{name: "reboot", run: func() error { return sys(unix.SYS_REBOOT, 0, 0, 0, 0) }, control: "none", why: "not to be tried on a host"},
		{name: "settimeofday", run: func() error {
			var tv unix.Timeval
			if err := unix.Gettimeofday(&tv); err != nil {
				return err
			}
			return unix.Settimeofday(&tv)
		}, control: "none", why: "not to be tried on a host"},
		{name: "sethostname", run: func() error { return unix.Sethostname([]byte("taken")) }, control: "userns"},
		{name: "personality", run: func() error { return sys(unix.SYS_PERSONALITY, 0x0400000) }, control: "any"}, // READ_IMPLIES_EXEC
		{name: "kcmp", run: func() error { return sys(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 0, 0, 0) }, control: "any"},
		{name: "fanotify_init", run: func() error { return fdErr(unix.FanotifyInit(unix.FAN_CLASS_CONTENT, 0)) }, control: "root"},

		// Devices and sockets.
		{name: "mknod memory device", run: func() error {
			defer os.Remove("/tmp/hortus-probe-mem")
			return unix.Mknod("/tmp/hortus-probe-mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
		}, control: "root"},
		{name: "mknod block device", run: func() error {
			defer os.Remove("/tmp/hortus-probe-vda")
			return unix.Mknod("/tmp/hortus-probe-vda", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0)))
		}, control: "root"},
		{name: "packet socket", run: func() error { return fdErr(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)) }, control: "userns"},
		{name: "raw socket", run: func() error { return fdErr(unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)) }, control: "userns"},
		{name: "vsock", run: func() error { return fdErr(unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)) }, control: "any"},
		{name: "crypto socket", run: func() error { return fdErr(unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)) }, control: "any"},
		{name: "netfilter netlink", run: func() error { return fdErr(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)) }, control: "any"},
		{name: "new network interface", run: newInterface, control: "userns"},

		// Files of the kernel's.
		{name: "open /proc/sys/kernel/core_pattern for writing", run: func() error { return openFile("/proc/sys/kernel/core_pattern") }, control: "root"},
		{name: "write /proc/sys/kernel/hostname", run: func() error { return writeFile("/proc/sys/kernel/hostname") }, control: "root"},
		{name: "open /proc/sysrq-trigger for writing", run: func() error { return openForWriting("/proc/sysrq-trigger") }, control: "root"},
		{name: "write /proc/self/uid_map", run: func() error { return writeFile("/proc/self/uid_map") }, control: "none", why: "a map is written once"},
		{name: "open /dev/mem", run: func() error { return openFile("/dev/mem") }, control: "root"},
		{name: "open /dev/kmsg", run: func() error { return openFile("/dev/kmsg") }, control: "root"},
		{name: "open /dev/fuse", run: func() error { return openFile("/dev/fuse") }, control: "root"},
		{name: "open /dev/kvm", run: func() error { return openFile("/dev/kvm") }, control: "root"},
		{name: "open /proc/kcore", run: func() error { return readSome("/proc/kcore") }, control: "root"},
		{name: "open /proc/kmsg", run: openMessages, control: "root"},
		{name: "read /proc/keys", run: func() error { return readSome("/proc/keys") }, control: "any"},
		{name: "list /sys/class", run: func() error { return listed("/sys/class") }, control: "any"},
	}...)
}

// cloneFlags makes a child with new namespaces, which ends at once.
func cloneFlags(flags uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

func openByHandle() error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
	if err != nil {
		return err
	}
	root, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return fdErr(unix.OpenByHandleAt(root, h, unix.O_RDONLY))
}

func newInterface() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// RTM_NEWLINK of kind dummy; the answer is an NLMSG_ERROR with an errno.
	msg := []byte{52, 0, 0, 0, 16, 0, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0, // header: create, exclusive, acknowledge
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // ifinfomsg
		20, 0, 18, 0, 10, 0, 1, 0, 'd', 'u', 'm', 'm', 'y', 0, 0, 0, 0, 0, 0, 0}
	msg[0] = byte(len(msg))
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var in [512]byte
	n, _, err := unix.Recvfrom(fd, in[:], 0)
	if err != nil {
		return err
	}
	if n < 20 {
		return errors.New("no answer")
	}
	if e := *(*int32)(unsafe.Pointer(&in[16])); e != 0 {
		return unix.Errno(-e)
	}
	return nil
}

func writeFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		b = []byte("x")
	}
	return os.WriteFile(path, b, 0)
}

// openMessages opens the kernel's messages; one that is covered is closed to it.
func openMessages() error {
	f, err := os.Open("/proc/kmsg")
	if err != nil {
		return err
	}
	defer f.Close()
	return covered(f)
}

// openForWriting is of a file of /proc; see openMessages for one that is covered.
func openForWriting(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return covered(f)
}

// covered is an error when something else lies where a file of the kernel's was.
func covered(f *os.File) error {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	if err == nil && st.Type != unix.PROC_SUPER_MAGIC {
		err = errors.New("covered by something else")
	}
	return err
}

func openFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// readSome fails for a file that is empty too: a masked one shows nothing.
func readSome(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [16]byte
	_, err = f.Read(b[:])
	return err
}

// memfdExec runs this program from memory, which is no escape and must work.
func memfdExec() error {
	fd, err := unix.MemfdCreate("probe", 0)
	if err != nil {
		return err
	}
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "probe")
	if _, err := f.Write(b); err != nil {
		return err
	}
	return unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"probe", roleProbe, "say"}, nil)
}

func listed(path string) error {
	e, err := os.ReadDir(path)
	if err == nil && len(e) == 0 {
		return errors.New("empty")
	}
	return err
}

// runProbe is the program that a probe is: it runs one by name and says how that
// went in one line. Some take arguments.
func runProbe(name string, args []string) int {
	switch name {
	case "watch":
		return runWatch(args)
	case "lock", "hold locks":
		return runLock(args, name != "lock")
	}
	if name == "surface" {
		return runSurface()
	}
	if n, ok := strings.CutPrefix(name, "netlink "); ok {
		count, err := strconv.Atoi(n)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		return runNetlink(count)
	}
	if n, ok := strings.CutPrefix(name, "poll "); ok {
		return runPoll(n)
	}
	if how, ok := strings.CutPrefix(name, "core by "); ok {
		return coreTry(how)
	}
	if of, ok := strings.CutPrefix(name, "signal threads of "); ok {
		pid, err := strconv.Atoi(of)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		return signalThreads(pid)
	}
	switch addr, dial := strings.CutPrefix(name, "dial "); {
	case name == "wait":
		os.Stdin.Read(make([]byte, 1)) // until the parent lets go
		return 0
	case name == "memfd and exec":
		if err := memfdExec(); err != nil {
			fmt.Println("refused:", err)
		}
		return 0
	case name == "say":
		fmt.Println("got through")
		return 0
	case dial:
		if err := probeDial(addr); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("got through")
		}
		return 0
	}
	for _, p := range probes() {
		if p.name == name {
			if os.Getenv(privateMounts) != "" {
				if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
					fmt.Println("control: make the mounts private:", err)
					return 1
				}
			}
			if err := p.run(); err != nil {
				var errno unix.Errno
				errors.As(err, &errno)
				fmt.Println("refused:", unix.ErrnoName(errno), strings.ReplaceAll(err.Error(), "\n", " "))
			} else {
				fmt.Println("got through")
			}
			return 0
		}
	}
	fmt.Println("unknown probe")
	return 1
}
