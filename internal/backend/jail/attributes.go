package jail

import "golang.org/x/sys/unix"

// An overlay in a user namespace notes in user attributes that a directory hides
// the one of the same name below it. Its upper layer here is a tmpfs, which has
// them since Linux 6.6.
const noAttributes = "this kernel's tmpfs keeps no user attributes (Linux 6.6 does): a directory of a layer, once something in it was removed, cannot be removed or made again"

// tmpfsAttributes says whether this kernel's tmpfs keeps user attributes; a file
// in memory is one of a tmpfs.
func tmpfsAttributes() bool {
	fd, err := unix.MemfdCreate("hortus-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, "user.hortus", []byte("1"), 0) == nil
}
