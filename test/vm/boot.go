package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// moduleDir is the directory of the drivers in the initial RAM disk. The order of their
// names is the order of loading.
const moduleDir = "/modules"

// machineMain is the main function of process 1. It does not return.
func machineMain() {
	v, err := bootUp()
	if err == nil {
		err = work(v)
	}
	switchOff(v, err)
}

// switchOff reports err, unless it is nil, and switches the machine off.
func switchOff(v *voice, err error) {
	if err != nil {
		fmt.Println("vm:", err)
		if v != nil {
			v.say(message{Fail: err.Error()})
		}
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {} // process 1 must not end
}

type mounting struct {
	from, to, kind string
	flags          uintptr
	data           string
}

func mountAll(list []mounting) error {
	for _, m := range list {
		if err := os.MkdirAll(m.to, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.to, err)
		}
	}
	return nil
}

// bootUp loads drivers, changes to the real root and mounts the file systems.
func bootUp() (*voice, error) {
	if err := mountAll([]mounting{{"proc", "/proc", "proc", 0, ""}, {"sysfs", "/sys", "sysfs", 0, ""}, {"dev", "/dev", "devtmpfs", 0, ""}}); err != nil {
		return nil, err
	}
	modules, err := filepath.Glob(moduleDir + "/*.ko")
	if err != nil {
		return nil, err
	}
	slices.Sort(modules)
	for _, m := range modules {
		fd, err := unix.Open(m, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		err = unix.FinitModule(fd, "", 0)
		unix.Close(fd)
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENODEV) {
			return nil, fmt.Errorf("load %s: %w", m, err)
		}
	}
	v, err := speak()
	if err != nil {
		return nil, err
	}
	if err := await("a disk", func() bool { return exists("/dev/vda") && exists("/dev/vdb") }); err != nil {
		return v, err
	}
	if err := mountAll([]mounting{{"/dev/vda", "/root", "ext4", 0, ""}}); err != nil {
		return v, err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(dir, "/root"+dir, "", unix.MS_MOVE, ""); err != nil {
			return v, fmt.Errorf("move %s: %w", dir, err)
		}
	}
	// Mount the root over that of the initial RAM disk: in a chroot to a folder of the
	// disk, user namespaces could not be created.
	if err := errors.Join(unix.Chdir("/root"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return v, fmt.Errorf("change the root: %w", err)
	}
	err = mountAll([]mounting{
		{"/dev/vdb", "/tests", "ext4", 0, ""},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
		{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"cgroup2", cgroupRoot, "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate,memory_recursiveprot"},
		{"securityfs", "/sys/kernel/security", "securityfs", 0, ""},
	})
	if err != nil {
		return v, err
	}
	// Links that udev would make.
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return v, err
		}
	}
	// systemd's values; the kernel's hard limit is 4096.
	files := unix.Rlimit{Cur: 1024, Max: 524288}
	return v, errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &files), loopback(), unix.Sethostname([]byte("vm")), os.MkdirAll("/home/user", 0o755), os.Chown("/home/user", 1000, 1000))
}

// speak opens the port to the host.
func speak() (*voice, error) {
	path, err := findPort()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &voice{w: rawFile(fd)}, nil
}

// rawFile writes to a descriptor without the runtime's poller.
type rawFile int

func (f rawFile) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		if m, err = unix.Write(int(f), b[n:]); err == unix.EINTR {
			err = nil
		}
		n += max(m, 0)
	}
	return n, err
}

// findPort returns the device of the virtio port with our name.
func findPort() (path string, err error) {
	err = await("the port "+port, func() bool {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && strings.TrimSpace(string(b)) == port {
				path = filepath.Join("/dev", filepath.Base(filepath.Dir(n)))
				return exists(path)
			}
		}
		return false
	})
	return path, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func await(what string, ok func() bool) error {
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s does not appear", what)
		}
	}
	return nil
}

// loopback brings lo up.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
