package ids

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// CloneMount returns a detached copy of the mount of a directory.
func CloneMount(dir string) (int, error) {
	m, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of %s: %w", dir, err)
	}
	return m, nil
}

// MapMount returns a detached mount of a directory in which ids on disk are ids of the
// user namespace: a file of root on disk is a file of root inside. It fails if the file
// system cannot map ids.
func MapMount(dir string, userns int) (int, error) {
	m, err := CloneMount(dir)
	if err != nil {
		return -1, err
	}
	return Map(m, dir, userns)
}

// Map is MapMount for a detached mount of dir, which it closes if it fails.
func Map(m int, dir string, userns int) (int, error) {
	err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID,
		Userns_fd: uint64(userns),
	})
	if err != nil {
		unix.Close(m)
		return -1, fmt.Errorf("map ids of %s: %w", dir, err)
	}
	return m, nil
}

// Unmappable reports whether an error of MapMount or Map says that the file system cannot map
// ids. A mount without: the owner is shown as nobody, and files of the directory itself cannot
// be changed inside.
func Unmappable(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// TryMapMount is MapMount, or CloneMount if the file system cannot map ids.
func TryMapMount(dir string, userns int) (int, error) {
	m, err := MapMount(dir, userns)
	if Unmappable(err) {
		return CloneMount(dir)
	}
	return m, err
}
