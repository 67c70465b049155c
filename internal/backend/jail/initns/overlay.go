package initns

import (
	"strings"

	"golang.org/x/sys/unix"
)

// maxParam is the maximum size of a parameter of fsconfig, in bytes, its end included.
const maxParam = 256

// mountRoot mounts the root's overlay of layers, the top one first. readOnly says that the
// sandbox's own kernel keeps what is written to it.
func mountRoot(layers []string, target string, readOnly bool) error {
	lower := strings.Join(layers, ":")
	if len(lower) >= maxParam {
		return mountLongRoot(lower, target, readOnly)
	}
	m, err := fsMount("overlay", unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID, []param{
		{"source", "hortus"}, {"lowerdir", lower}, {"upperdir", stage + "/upper"}, {"workdir", stage + "/work"}, {"userxattr", ""},
	})
	if err != nil {
		return err
	}
	if readOnly {
		if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return attach(m, target)
}

// mountLongRoot is mountRoot for more layers than a parameter of fsconfig holds, as container
// images have: the options of mount may fill a page. None of the paths has a comma or a colon.
func mountLongRoot(lower, target string, readOnly bool) error {
	const attr = unix.MS_NODEV | unix.MS_NOSUID
	options := "lowerdir=" + lower + ",upperdir=" + stage + "/upper,workdir=" + stage + "/work,userxattr"
	if err := unix.Mount("hortus", target, "overlay", attr, options); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	return unix.Mount("", target, "", attr|unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}
