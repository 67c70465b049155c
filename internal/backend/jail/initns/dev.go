package initns

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Dev makes a detached, read-only mount of a /dev with nodes of its own, for the
// host's root, who may make some. It can be shared by any number of sandboxes.
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
		// The mode of mknod is cut by the umask of the process.
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
