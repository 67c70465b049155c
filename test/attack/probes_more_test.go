package attack

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// privateMounts tells a control's probe that it has a mount namespace of its
// own, which it has to cut off from the host's first.
const privateMounts = "ATTACK_PRIVATE_MOUNTS"

// cloneNewTime is the one namespace that clone has no flag for.
const cloneNewTime = 0x80

// moreProbes are those that come in families or need a program of their own.
func moreProbes() []probe {
	var out []probe
	for _, ns := range []struct {
		name string
		flag uintptr
	}{
		{"user", unix.CLONE_NEWUSER}, {"mount", unix.CLONE_NEWNS}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID},
		{"uts", unix.CLONE_NEWUTS}, {"ipc", unix.CLONE_NEWIPC}, {"cgroup", unix.CLONE_NEWCGROUP},
		{"user and mount", unix.CLONE_NEWUSER | unix.CLONE_NEWNS},
		{"user and net", unix.CLONE_NEWUSER | unix.CLONE_NEWNET},
	} {
		p := probe{name: "clone " + ns.name, run: func() error { return cloneFlags(ns.flag) }, control: "userns"}
		if ns.flag&unix.CLONE_NEWUSER != 0 {
			p.control = "any"
		}
		out = append(out, p)
	}
	out = append(out,
		probe{name: "unshare time", run: func() error { return unix.Unshare(cloneNewTime) }, control: "userns"},
		probe{name: "setns by pidfd", run: func() error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Setns(fd, unix.CLONE_NEWUTS)
		}, control: "userns"},
		probe{name: "mount cgroup2", run: func() error { return unix.Mount("x", "/tmp", "cgroup2", 0, "") }, control: "root"},
		probe{name: "mount overlay", run: func() error {
			return unix.Mount("x", "/tmp", "overlay", 0, "lowerdir=/usr:/etc")
		}, control: "userns"},
		probe{name: "move_mount", run: func() error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, "/etc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.MoveMount(fd, "", unix.AT_FDCWD, "/tmp", unix.MOVE_MOUNT_F_EMPTY_PATH)
		}, control: "userns"},
		probe{name: "mount_setattr", run: func() error {
			return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID})
		}, control: "root"},
		probe{name: "mknodat memory device", run: func() error {
			defer os.Remove("/tmp/hortus-probe-memat")
			return unix.Mknodat(unix.AT_FDCWD, "/tmp/hortus-probe-memat", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
		}, control: "root"},
		probe{name: "ptrace of a child", run: func() error {
			return withChild(func(pid int) error { return unix.PtraceSeize(pid) })
		}, control: "any"},
		probe{name: "process_vm_readv of a child", run: func() error {
			return withChild(func(pid int) error {
				// The same program: what is mapped here is mapped there.
				addr := uintptr(unsafe.Pointer(&privateMountsByte))
				local := []unix.Iovec{{Base: &scratch[0], Len: 1}}
				_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: addr, Len: 1}}, 0)
				if err == unix.EFAULT { // a place of its own, but the call was allowed
					err = nil
				}
				return err
			})
		}, control: "any"},
		probe{name: "pidfd_getfd of a child", run: func() error {
			return withChild(func(pid int) error {
				fd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return fdErr(unix.PidfdGetfd(fd, 0, 0))
			})
		}, control: "any"},
		probe{name: "TIOCSTI", run: stuffTerminal, control: "root"},
		probe{name: "TIOCSETD", run: func() error {
			return onTerminal(func(tty int) error { return unix.IoctlSetPointerInt(tty, unix.TIOCSETD, 0) })
		}, control: "any"},
		probe{name: "prctl PR_SET_MM", run: func() error {
			return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_START_BRK, 0, 0, 0)
		}, control: "none", why: "the host would need an address that is right for this very process"},
		probe{name: "setgroups to the guest's", run: func() error {
			runtime.LockOSThread()
			return sys(unix.SYS_SETRESGID, 65533, 65533, 65533)
		}, control: "root"},
		probe{name: "regain capabilities", run: func() error {
			hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var data [2]unix.CapUserData
			data[0] = unix.CapUserData{Permitted: 1 << unix.CAP_SYS_ADMIN, Effective: 1 << unix.CAP_SYS_ADMIN}
			return unix.Capset(&hdr, &data[0])
		}, control: "userns"},
	)
	if runtime.GOARCH == "amd64" {
		out = append(out,
			probe{name: "iopl", run: func() error { return sys(172, 3) }, control: "root"},
			probe{name: "x32 getpid", run: func() error { return sys(0x40000000 | unix.SYS_GETPID) }, control: "any"},
			probe{name: "i386 getpid", run: func() error { return int80(20) }, control: "any"},
			probe{name: "i386 mount", run: func() error {
				if e := int80(21); e != unix.EFAULT { // mount: the kernel was asked, and found null pointers
					return e
				}
				return nil
			}, control: "any"},
		)
	}
	return out
}

var privateMountsByte byte

// withChild runs f on a child of this process, which waits until it is killed.
func withChild(f func(pid int) error) error {
	c := exec.Command("/proc/self/exe", roleProbe, "wait")
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := c.Start(); err != nil {
		return err
	}
	defer c.Wait()
	defer c.Process.Kill()
	return f(c.Process.Pid)
}

// onTerminal runs f on a new terminal.
func onTerminal(f func(tty int) error) error {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("no terminal to try it on: %w", err)
	}
	defer unix.Close(m)
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	tty, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(tty)
	return f(tty)
}

// stuffTerminal puts a letter into a terminal's mouth.
func stuffTerminal() error {
	return onTerminal(func(tty int) error {
		// The end of a session's terminal would end this process.
		signal.Ignore(unix.SIGHUP)
		// It must be this session's own; both fail where it is so already.
		unix.Setsid()
		unix.IoctlSetInt(tty, unix.TIOCSCTTY, 0)
		scratch[0] = 'x'
		return sys(unix.SYS_IOCTL, uintptr(tty), unix.TIOCSTI, uintptr(unsafe.Pointer(&scratch[0])))
	})
}

// int80 makes a system call of the i386 table: machine code in a page of its own,
// since a test file cannot bring assembly.
func int80(nr byte) error {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	const resultAt = 2048
	result := uint64(uintptr(unsafe.Pointer(&page[resultAt])))
	code := []byte{
		0x53,                 // push rbx
		0xb8, nr, 0x00, 0, 0, // mov eax, nr
		0x31, 0xdb, // xor ebx, ebx
		0x31, 0xc9, // xor ecx, ecx
		0x31, 0xd2, // xor edx, edx
		0x31, 0xf6, // xor esi, esi
		0x31, 0xff, // xor edi, edi
		0xcd, 0x80, // int 0x80
		0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, result
		0x89, 0x01, // mov [rcx], eax
		0x5b, // pop rbx
		0xc3, // ret
	}
	for i := range 8 {
		code[20+i] = byte(result >> (8 * i))
	}
	copy(page, code)
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC); err != nil {
		return err
	}
	entry := &struct{ code uintptr }{uintptr(unsafe.Pointer(&page[0]))}
	call := *(*func())(unsafe.Pointer(&entry))
	runtime.LockOSThread()
	call()
	got := *(*int32)(unsafe.Pointer(&page[resultAt]))
	if got < 0 {
		return unix.Errno(-got)
	}
	return nil
}

// probeDial connects to a unix socket of the host's.
func probeDial(addr string) error {
	c, err := net.Dial("unix", addr)
	if err != nil {
		var errno unix.Errno
		if errors.As(err, &errno) {
			return errno
		}
		return err
	}
	return c.Close()
}

// A probe runs on the first thread of its process, see traceMe.
func init() {
	if len(os.Args) > 2 && os.Args[1] == roleProbe {
		runtime.LockOSThread()
	}
}

// traceMe asks to be traced by the parent, which does not know of it. That is how
// anyone who asks can be waited for all the same: as the first thread, since the end of
// another one is seen by nobody but a tracer who looks for it, and the process stays for
// as long; and with no signal on its way, which would stop it.
func traceMe() error {
	all := unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	return sys(unix.SYS_PTRACE, unix.PTRACE_TRACEME)
}
