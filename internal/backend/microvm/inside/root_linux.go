package inside

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest/birth"
)

const (
	rootDir  = "/root"
	diskDir  = "/disk"
	layerDir = "/layers"
	// coverDir has what a sandbox sees as files of /proc: its limits, without what its kernel needs.
	coverDir = "/covers"

	// GuestDir is where the guest's executable is in a sandbox, and GuestName its name.
	GuestDir  = initns.EngineDir
	GuestName = birth.Argv0
)

// mountRoot mounts what the sandbox sees, except for what belongs to the namespaces of the guest.
func mountRoot(plan Plan) error {
	disks, err := findDisks(plan.Layers + 1)
	if err != nil {
		return &step{"find the disks", err}
	}
	if err := unix.Mount(disks[UpperDisk], diskDir, "ext4", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "noinit_itable"); err != nil {
		return &step{"mount the disk", err}
	}
	var lowers []string
	for i := plan.Layers - 1; i >= 0; i-- { // the top one first
		dir := filepath.Join(layerDir, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return &step{"mount a layer", err}
		}
		if err := unix.Mount(disks[LayerDisk+strconv.Itoa(i)], dir, "erofs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return &step{"mount a layer", err}
		}
		lowers = append(lowers, strconv.Itoa(i))
	}
	for _, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(diskDir, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return &step{"prepare the disk", err}
		}
	}
	// Relative paths: an option of a mount has at most one page.
	if err := os.Chdir(layerDir); err != nil {
		return &step{"mount the root", err}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", strings.Join(lowers, ":"), diskDir, diskDir)
	if err := unix.Mount("overlay", rootDir, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &step{"mount the root", err}
	}
	if err := os.Chdir("/"); err != nil {
		return &step{"mount the root", err}
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", GuestDir} {
		if err := place(rootDir + dir); err != nil {
			return &step{"make " + dir, err}
		}
	}
	return mountSystem(plan)
}

// place makes a directory for a mount, in place of whatever a layer has there.
func place(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Mkdir(path, 0o755)
}

// mountSystem mounts /sys, /dev and the guest's executable.
func mountSystem(plan Plan) error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	type mount struct {
		kind, dir string
		flags     uintptr
		options   string
	}
	for _, m := range []mount{
		{"tmpfs", "/sys", quiet, "mode=0755,size=64k"},
		{"tmpfs", GuestDir, unix.MS_NOSUID | unix.MS_NODEV, "mode=0755,size=64k"},
	} {
		if err := unix.Mount(m.kind, rootDir+m.dir, m.kind, m.flags, m.options); err != nil {
			return &step{"mount " + m.dir, err}
		}
	}
	if err := showLimits(plan.Config.Memory); err != nil {
		return &step{"show the limits", err}
	}
	if err := unix.Mount("cgroup2", rootDir+birth.Groups, "cgroup2", quiet, ""); err != nil {
		return &step{"mount " + birth.Groups, err}
	}
	dev, err := initns.Dev()
	if err == nil {
		err = unix.MoveMount(dev, "", unix.AT_FDCWD, rootDir+"/dev", unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return &step{"mount /dev", err}
	}
	if err := unix.Mount("tmpfs", rootDir+"/dev/shm", "tmpfs", quiet, "mode=1777,size="+strconv.FormatInt(plan.ShmBytes, 10)); err != nil {
		return &step{"mount /dev/shm", err}
	}
	if err := os.WriteFile(rootDir+birth.Groups+"/cgroup.subtree_control", []byte("+cpu +memory +pids"), 0); err != nil {
		return &step{"delegate control groups", err}
	}
	// As on every backend, a program that uses too much memory ends, rather than that its requests for memory fail.
	if err := os.WriteFile("/proc/sys/vm/overcommit_memory", []byte("1"), 0); err != nil {
		return &step{"let programs request memory", err}
	}
	guest := rootDir + GuestDir + "/" + GuestName
	if err := os.WriteFile(guest, nil, 0o555); err != nil {
		return &step{"show the guest's executable", err}
	}
	if err := bindReadOnly(Argv0, guest, unix.MS_NOSUID|unix.MS_NODEV); err != nil {
		return &step{"show the guest's executable", err}
	}
	return nil
}

// showLimits makes the few files of /sys and /proc by which programs size themselves. The rest of the kernel's /sys is not shown.
func showLimits(memory int64) error {
	limits := initns.Limits{MemoryBytes: memory, Unified: true}
	proc, sys, dirs := limits.View(func(name string) string {
		b, _ := os.ReadFile("/proc/" + name)
		return string(b)
	})
	for dir, files := range map[string]map[string]string{coverDir: proc, rootDir + "/sys": sys} {
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o444)); err != nil {
				return err
			}
		}
	}
	for _, dir := range append(dirs, "firmware") { // where the guest keeps the control group of commands
		if err := os.MkdirAll(filepath.Join(rootDir, "sys", dir), 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("", rootDir+"/sys", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// diskWait is the maximum time until the disks appear.
const diskWait = 30 * time.Second

// findDisks returns the devices of so many disks by their serial numbers.
func findDisks(n int) (map[string]string, error) {
	for end := time.Now().Add(diskWait); ; time.Sleep(time.Millisecond) {
		files, err := filepath.Glob("/sys/block/vd*/serial")
		if err != nil {
			return nil, err
		}
		disks := map[string]string{}
		for _, f := range files {
			dev := "/dev/" + filepath.Base(filepath.Dir(f))
			if b, err := os.ReadFile(f); err == nil && exists(dev) {
				disks[strings.TrimSpace(string(b))] = dev
			}
		}
		if len(disks) == n {
			return disks, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the machine has %d disks, want %d", len(disks), n)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// addEntropy adds random bytes to the kernel's, and makes it use them at once.
func addEntropy(seed []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info: how many bits, how many bytes, the bytes.
	type pool struct {
		bits, size int32
		data       [32]byte
	}
	p := pool{bits: 256, size: 32}
	copy(p.data[:], seed)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&p))); e != 0 {
		return e
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDRESEEDCRNG, 0); e != 0 {
		return e
	}
	return nil
}
