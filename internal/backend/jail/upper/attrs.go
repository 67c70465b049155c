package upper

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// overlayMark is the prefix of the attributes that our overlays use. The kernel stores
	// what a guest sets under such a name below overlayMark+"overlay.".
	overlayMark = "user.overlay."
	accessList  = "system.posix_acl_access"
	// maxAttrs is the maximum length of the names of one entry's attributes, in bytes, as
	// in the kernel.
	maxAttrs = 64 << 10
)

// noted are the attributes that our overlays write and that are not kept: they refer to files of
// the layers, or are created again.
var noted = map[string]bool{"origin": true, "impure": true, "nlink": true, "upper": true, "uuid": true, "protattr": true}

// attrs reads the attributes of an open file: whether a directory is opaque, and the mode without
// the access list. It refuses attributes that our overlays do not write, since they would make a
// restored sandbox see another tree.
func attrs(fd int, st *unix.Stat_t) (opaque bool, mode uint32, err error) {
	mode = st.Mode & 0o7777
	size, err := unix.Flistxattr(fd, nil)
	if err == unix.EOPNOTSUPP || err == nil && size == 0 {
		return false, mode, nil
	}
	if err != nil {
		return false, 0, err
	}
	buf := make([]byte, min(size, maxAttrs))
	if size, err = unix.Flistxattr(fd, buf); err != nil {
		return false, 0, err
	}
	for name := range strings.SplitSeq(string(buf[:size]), "\x00") {
		if name == accessList {
			if mode, err = withoutList(fd, mode); err != nil {
				return false, 0, err
			}
			continue
		}
		mark, ok := strings.CutPrefix(name, overlayMark)
		switch {
		case !ok || strings.HasPrefix(mark, "overlay.") || noted[mark]:
		case name == opaqueMark && st.Mode&unix.S_IFMT == unix.S_IFDIR:
			var value [8]byte
			if n, err := unix.Fgetxattr(fd, name, value[:]); err != nil || string(value[:n]) != "y" {
				return false, 0, &RefusedError{Why: "its extended attribute " + name + " has an unexpected value"}
			}
			opaque = true
		default:
			return false, 0, &RefusedError{Why: fmt.Sprintf("it has an unexpected extended attribute %.60q", name)}
		}
	}
	return opaque, mode, nil
}

// withoutList returns a mode whose group bits are what the access list gave the owning group: with
// a list, the group bits of the mode are the maximum of everybody in the list.
func withoutList(fd int, mode uint32) (uint32, error) {
	const owningGroup, head, each = 4, 4, 8
	buf := make([]byte, maxAttrs)
	n, err := unix.Fgetxattr(fd, accessList, buf)
	if err != nil {
		return 0, err
	}
	group := uint32(0)
	for at := head; at+each <= n; at += each {
		if binary.LittleEndian.Uint16(buf[at:]) == owningGroup {
			group = uint32(binary.LittleEndian.Uint16(buf[at+2:])) & 7
		}
	}
	return mode&^0o070 | mode&0o070&(group<<3), nil
}
