package confinement

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/credential"
)

// Cell isolates the guest from commands on a kernel of the guest's own, which has no
// Landlock and no stage before the guest. A nil Cell has no effect.
type Cell struct {
	// Group is the control group that commands are forked into. Its pids.max is the only
	// process limit that gVisor enforces: it accepts RLIMIT_NPROC but ignores it.
	Group *os.File
	// Root is the root directory of commands: the same tree as the guest's, at another
	// mount. A process in a chroot cannot create a user namespace, in which it would get
	// capabilities.
	Root string
}

// commandsGroup is the name of the control group.
const commandsGroup = "commands"

// NewCell creates the control group, and then hides the cgroup hierarchy by mounting the
// root of commands over it: even root inside cannot leave the group or raise its limit. Commands
// see a read-only mount of their group, from which language runtimes read the limits. The
// guest keeps the descriptors that it needs. NewCell needs cgroup v2, mounted writable at
// [birth.Groups], and CAP_SYS_ADMIN. Without OwnKernel it returns nil.
func NewCell(cfg *birth.Config) (*Cell, error) {
	if !cfg.OwnKernel {
		return nil, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(birth.Groups, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, errors.Join(err, fmt.Errorf("no cgroup2 file system at %s to limit processes with", birth.Groups))
	}
	caps, err := credential.CurrentCaps()
	if err != nil {
		return nil, err
	}
	for _, c := range birth.OwnKernelCaps {
		if caps.Effective&(1<<c) == 0 {
			return nil, fmt.Errorf("the guest lacks capability %d of the %d that it needs on a kernel of its own", c, len(birth.OwnKernelCaps))
		}
	}
	dir := filepath.Join(birth.Groups, commandsGroup)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := writeLimits(dir, cfg); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Mount(dir, keptGroup, "", unix.MS_BIND, ""); err != nil {
		err = &os.PathError{Op: "bind mount the group on", Path: keptGroup, Err: err}
		return nil, errors.Join(err, f.Close())
	}
	if err := unix.Unmount(birth.Groups, unix.MNT_DETACH); err != nil {
		err = &os.PathError{Op: "unmount", Path: birth.Groups, Err: err}
		return nil, errors.Join(err, f.Close())
	}
	// Hide the guest's /proc entry: root inside, which ignores file modes, must not read or
	// write it, nor must the guest through a link to it.
	self := "/proc/" + strconv.Itoa(os.Getpid())
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("hidden", self, "tmpfs", flags, "mode=0555"); err != nil {
		err = &os.PathError{Op: "cover", Path: self, Err: err}
		return nil, errors.Join(err, f.Close())
	}
	// Mount /dev read-only: it has no size limit, and commands need no new files in it.
	if err := unix.Mount("", "/dev", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
		err = &os.PathError{Op: "protect", Path: "/dev", Err: err}
		return nil, errors.Join(err, f.Close())
	}
	if cfg.View {
		if err := mountView(cfg.Workspace); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := unix.Mount("/", birth.Groups, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		err = &os.PathError{Op: "bind mount the root on", Path: birth.Groups, Err: err}
		return nil, errors.Join(err, f.Close())
	}
	if err := mountGroup(birth.Groups); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Cell{Group: f, Root: birth.Groups}, nil
}

// keptGroup is an empty directory of every sandbox with a kernel of its own, where the group is mounted while its
// hierarchy is unmounted.
const keptGroup = "/sys/firmware"

// writeLimits writes the limits of a sandbox to a group. gVisor enforces that of processes; the
// others tell programs what the host and package memory enforce.
func writeLimits(dir string, cfg *birth.Config) error {
	var limits = map[string]string{}
	if cfg.Processes > 0 {
		limits["pids.max"] = strconv.FormatInt(cfg.Processes, 10)
	}
	if cfg.Memory > 0 {
		limits["memory.max"] = strconv.FormatInt(cfg.Memory, 10)
	}
	if cfg.CPUs > 0 {
		const period = 100_000 // microseconds
		limits["cpu.max"] = fmt.Sprintf("%d %d", max(int64(cfg.CPUs*period), 1), period)
	}
	for name, value := range limits {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			return err
		}
	}
	// A program that does not read its mounts looks for the group at its path, which is then
	// mounted a second time.
	return os.Mkdir(filepath.Join(dir, commandsGroup), 0o755)
}

// mountGroup moves the group from keptGroup into a root directory, read-only.
func mountGroup(root string) error {
	at := filepath.Join(root, birth.Groups)
	const flags = unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct{ source, target string }{{keptGroup, at}, {at, filepath.Join(at, commandsGroup)}} {
		err := unix.Mount(m.source, m.target, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", m.target, "", unix.MS_REMOUNT|flags, "")
		}
		if err != nil {
			return &os.PathError{Op: "mount the group on", Path: m.target, Err: err}
		}
	}
	for _, kept := range []string{filepath.Join(root, keptGroup), keptGroup} {
		if err := unix.Unmount(kept, unix.MNT_DETACH); err != nil {
			return &os.PathError{Op: "unmount", Path: kept, Err: err}
		}
	}
	return nil
}

// mountView mounts a directory at birth.ViewDir, read-only.
func mountView(dir string) error {
	if err := os.MkdirAll(birth.ViewDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(dir, birth.ViewDir, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind mount " + dir + " on", Path: birth.ViewDir, Err: err}
	}
	const flags = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", birth.ViewDir, "", flags, ""); err != nil {
		return &os.PathError{Op: "protect", Path: birth.ViewDir, Err: err}
	}
	return nil
}

// ForbidUID permanently prevents the calling thread, and what it forks, from switching to a
// uid. In gVisor a process with init's uid can kill init, and root inside may change its uid.
func (c *Cell) ForbidUID(uid uint32) error {
	if c == nil {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	filter := uidFilter(uid)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := seccompFilter(&prog); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

// uidFilter returns a filter that denies the system calls that set a uid if one of their
// arguments is uid, and those that set the owner of a file's signals.
func uidFilter(uid uint32) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		// Offsets in seccomp_data: the number of the call, and the arguments of eight bytes
		// each. A uid is the lower half of an argument.
		number, args = 0, 16
	)
	calls := []struct {
		number uint32
		args   int
	}{{unix.SYS_SETUID, 1}, {unix.SYS_SETREUID, 2}, {unix.SYS_SETRESUID, 3}}
	f := []unix.SockFilter{{Code: load, K: number}}
	for _, c := range calls {
		// For another call, skip this call's part. If an argument is the uid, skip to the
		// part's refusal.
		f = append(f, unix.SockFilter{Code: equal, K: c.number, Jf: uint8(2*c.args + 2)})
		for i := range c.args {
			f = append(f, unix.SockFilter{Code: load, K: uint32(args + 8*i)},
				unix.SockFilter{Code: equal, K: uid, Jt: uint8(2*(c.args-i-1) + 1)})
		}
		f = append(f, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	// The owner of a file's signals: root may signal every process, and any signal of root
	// ends gVisor's init.
	const fiosetown, siocspgrp = 0x8901, 0x8902
	for _, c := range []struct {
		number   uint32
		commands []uint32 // of the second argument
	}{{unix.SYS_FCNTL, []uint32{unix.F_SETOWN, unix.F_SETOWN_EX}}, {unix.SYS_IOCTL, []uint32{fiosetown, siocspgrp}}} {
		n := len(c.commands)
		f = append(f, unix.SockFilter{Code: equal, K: c.number, Jf: uint8(n + 3)}, unix.SockFilter{Code: load, K: args + 8})
		for i, command := range c.commands {
			f = append(f, unix.SockFilter{Code: equal, K: command, Jt: uint8(n - i)})
		}
		f = append(f, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	return append(f, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}
