package initns

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lowers mounts the lower layers of this sandbox's overlays below the stage.
type lowers struct {
	fd     func(int) int
	placed []string // mount points
}

// place returns the paths of layers. It attaches detached mounts; pin has replaced paths by
// those of descriptors.
func (l *lowers) place(layers []Lower) ([]string, error) {
	paths := make([]string, len(layers))
	for i, layer := range layers {
		if paths[i] = layer.Path; layer.FD < 0 {
			continue
		}
		paths[i] = stage + "/lower/" + strconv.Itoa(len(l.placed))
		if err := unix.Mkdir(paths[i], 0o755); err != nil {
			return nil, err
		}
		if err := attach(l.fd(layer.FD), paths[i]); err != nil {
			return nil, err
		}
		l.placed = append(l.placed, paths[i])
	}
	return paths, nil
}

// detach unmounts the layers. Overlays have their own references to them.
func (l *lowers) detach() error {
	for _, p := range l.placed {
		if err := unix.Unmount(p, unix.MNT_DETACH); err != nil {
			return at("detach a layer", err)
		}
	}
	l.placed = nil
	return nil
}

// readOnly makes a detached, read-only overlay of directories, the top one first.
//
// The overlay's inodes belong to this sandbox: inotify, locks, leases and access times on them
// do not affect the directories, which the host and other sandboxes use. It is made in the
// sandbox's user namespace, so that the kernel checks each access to a file of the host with
// this namespace's rights and the file's current mode.
//
// The top layer is an empty directory of the sandbox's disk. An overlay without an upper layer
// needs two lower ones, and statfs reports the top one, so that the free space of the host's
// disk is not visible.
func readOnly(paths []string) (int, error) {
	const attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	return fsMount("overlay", attr, []param{
		{"source", "hortus"}, {"lowerdir", stage + "/empty:" + strings.Join(paths, ":")}, {"userxattr", ""},
	})
}

// mountTree mounts one read-only tree.
func mountTree(t Mount, below *lowers, root string) error {
	paths, err := below.place(t.Lowers)
	if err != nil {
		return at("attach a layer of "+t.Target, err)
	}
	name := "mount " + t.Target
	m, err := readOnly(paths)
	if err != nil {
		return at(name, err)
	}
	return at(name, attachIn(m, root, t.Target))
}
