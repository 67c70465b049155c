package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// moduleDir holds the drivers in the initial RAM disk, named so that their order
// is that of loading.
const moduleDir = "/modules"

// machineMain is process 1.
func machineMain() {
	v, err := bootUp()
	if err == nil {
		err = work(v)
	}
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

// bootUp loads drivers, changes to the real root and mounts what a system has.
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
	path, err := findPort()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	v := &voice{w: rawFile(fd)}
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
	// The root that a user namespace may be made below is the one on top of the
	// initial RAM disk, not a folder in it.
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
	return v, errors.Join(loopback(), unix.Sethostname([]byte("vm")), os.MkdirAll("/home/user", 0o755), os.Chown("/home/user", 1000, 1000), layGroups())
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

// findPort gives the device of the virtio port with our name.
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

// work runs the steps.
func work(v *voice) error {
	b, err := os.ReadFile("/tests/orders.json")
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	found := boot{Controllers: read(cgroupRoot + "/cgroup.controllers"), Security: read("/sys/kernel/security/lsm"), Kernel: read("/proc/version")}
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		if strings.Contains(line, " - cgroup ") {
			found.V1 += line
		}
	}
	v.say(message{Boot: &found, At: uptime()})
	for _, s := range o.Steps {
		start := time.Now()
		code, err := runStep(v, s, o)
		e := &exit{Code: code, Took: time.Since(start)}
		if err != nil {
			e.Why = err.Error()
		}
		v.say(message{Step: s.Name, Exit: e, At: uptime()})
	}
	v.say(message{Done: true, At: uptime()})
	return nil
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

func uptime() time.Duration {
	f := strings.Fields(read("/proc/uptime"))
	s, _ := strconv.ParseFloat(f[0], 64) // the kernel's own format
	return time.Duration(s * float64(time.Second))
}

// runStep runs one step to its end, and ends what it left.
func runStep(v *voice, s step, o orders) (int, error) {
	dir, err := enter(s)
	if err != nil {
		return -1, err
	}
	fd, err := os.Open(dir)
	if err != nil {
		return -1, err
	}
	defer fd.Close()
	scratch, err := os.MkdirTemp("/tmp", "step")
	if err != nil {
		return -1, err
	}
	defer os.RemoveAll(scratch)
	if err := os.Chown(scratch, s.UID, s.UID); err != nil {
		return -1, err
	}
	args := append([]string{"-test.v", "-test.count", "1", "-test.timeout", o.Timeout.String()}, s.Args...)
	cmd := exec.Command(filepath.Join("/tests", binaryName(s.Package)), args...)
	cmd.Dir = filepath.Join("/tests/src", s.Package)
	home, name := "/root", "root"
	if s.UID != 0 {
		home, name = "/home/user", "user"
	}
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + home, "USER=" + name, "TMPDIR=" + scratch, "LANG=C.UTF-8",
		"HORTUS_BIN=/tests/hortus", "HORTUS_TEST_MACHINE=own", "HORTUS_TEST_PATIENCE=" + strconv.Itoa(o.Patience)}
	w := v.of(s.Name)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(fd.Fd()),
		Credential: &syscall.Credential{Uid: uint32(s.UID), Gid: uint32(s.UID)}}
	err = cmd.Run()
	leave(dir)
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode(), nil
	}
	return 0, err
}

// binaryName is a test binary's name on the disk of the tests.
func binaryName(pkg string) string { return strings.ReplaceAll(pkg, "/", "-") + ".test" }
