package initns

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dev makes a detached, read-only mount of a /dev with its own nodes, which only root of the
// host can make. It is for one sandbox: inotify and locks on a node affect everybody who uses
// the same node.
func Dev() (int, error) {
	m, err := fsMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, []param{
		{"source", "hortus"}, {"size", "65536"}, {"nr_inodes", "64"}, {"mode", "0755"},
	})
	if err != nil {
		return -1, err
	}
	if err := fillDev(m); err != nil {
		unix.Close(m)
		return -1, err
	}
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		unix.Close(m)
		return -1, err
	}
	return m, nil
}

func fillDev(dir int) error {
	for _, d := range Devices {
		if err := unix.Mknodat(dir, d.Name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.Major, d.Minor))); err != nil {
			return fmt.Errorf("make %s: %w", d.Name, err)
		}
		// The umask applies to the mode of mknod.
		if err := unix.Fchmodat(dir, d.Name, 0o666, 0); err != nil {
			return fmt.Errorf("make %s: %w", d.Name, err)
		}
	}
	for _, l := range DevLinks {
		if err := unix.Symlinkat(l[1], dir, l[0]); err != nil {
			return fmt.Errorf("make %s: %w", l[0], err)
		}
	}
	for _, d := range DevDirs {
		if err := unix.Mkdirat(dir, d, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	return nil
}

// Devices are the nodes of a sandbox's /dev.
var Devices = []struct {
	Name  string
	Minor uint32
	Major uint32
}{
	{"null", 3, 1}, {"zero", 5, 1}, {"full", 7, 1}, {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5},
}

// DevLinks are the symbolic links of a sandbox's /dev.
var DevLinks = [][2]string{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
}

// DevDirs are the mount points of a sandbox's /dev.
var DevDirs = []string{"pts", "shm"}

// mountDev mounts the few devices that programs need.
func mountDev(s *Spec, fd func(int) int, root string) error {
	dev := root + "/dev"
	if s.Dev >= 0 {
		if err := attachIn(fd(s.Dev), root, "/dev"); err != nil {
			return at("mount /dev", err)
		}
	} else if err := hostDev(root); err != nil {
		return err
	}
	pts, err := fsMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, []param{
		{"source", "devpts"}, {"newinstance", ""}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", strconv.Itoa(Terminals)},
	})
	if err != nil {
		return at("mount /dev/pts", err)
	}
	if err := attach(pts, dev+"/pts"); err != nil {
		return at("mount /dev/pts", err)
	}
	// Shared memory is on the disk and counts towards its limit.
	shm := stage + "/shm"
	if err := unix.Mkdir(shm, 0o755); err != nil {
		return at("mount /dev/shm", err)
	}
	if err := unix.Chmod(shm, 0o1777); err != nil {
		return at("mount /dev/shm", err)
	}
	m, err := cloneMount(shm, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return at("mount /dev/shm", err)
	}
	return at("mount /dev/shm", attach(m, dev+"/shm"))
}

// hostDev makes a /dev of bind mounts of the host's nodes: a user namespace cannot make its
// own.
func hostDev(root string) error {
	dev := root + "/dev"
	m, err := fsMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, []param{
		{"source", "hortus"}, {"size", "65536"}, {"nr_inodes", "64"}, {"mode", "0755"},
	})
	if err != nil {
		return at("mount /dev", err)
	}
	if err := moveIn(m, root, "/dev"); err != nil {
		return at("mount /dev", err)
	}
	for _, d := range Devices {
		fd, err := unix.Open(dev+"/"+d.Name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
		if err != nil {
			return at("make /dev/"+d.Name, err)
		}
		unix.Close(fd)
		n, err := cloneMount("/dev/"+d.Name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err == nil {
			err = attach(n, dev+"/"+d.Name)
		}
		if err != nil {
			return at("make /dev/"+d.Name, err)
		}
	}
	for _, l := range DevLinks {
		if err := unix.Symlink(l[1], dev+"/"+l[0]); err != nil {
			return at("make /dev/"+l[0], err)
		}
	}
	for _, d := range DevDirs {
		if err := unix.Mkdir(dev+"/"+d, 0o755); err != nil {
			return at("make /dev/"+d, err)
		}
	}
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return at("protect /dev", err)
	}
	return at("mount /dev", unix.Close(m))
}
