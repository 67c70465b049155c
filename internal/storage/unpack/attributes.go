package unpack

import (
	"archive/tar"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the extended attributes of one file.
const (
	maxXattrs     = 64
	maxXattrBytes = 16 << 10
)

// maxID is the largest user or group ID of a sandbox. A larger one becomes nobody.
const (
	maxID  = 65534
	nobody = 65534
)

// paxXattr begins the records of extended attributes.
const paxXattr = "SCHILY.xattr."

// attributes are what an entry gets beside its content.
type attributes struct {
	mode     uint32
	uid, gid int
	mtime    time.Time
	xattrs   map[string]string
	opaque   bool
}

// attributes returns what of a header is kept.
func (a *applier) attributes(h *tar.Header) attributes {
	out := attributes{mode: uint32(h.Mode & 0o7777), uid: id(h.Uid), gid: id(h.Gid), mtime: h.ModTime}
	if h.Typeflag != tar.TypeDir {
		if out.mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			out.mode &^= unix.S_ISUID | unix.S_ISGID
			a.res.Dropped++
		}
	} else {
		out.mode &^= unix.S_ISUID // it has no meaning
	}
	if !a.Owners {
		if out.mode |= 0o400; h.Typeflag == tar.TypeDir {
			out.mode |= 0o700
		}
	}
	total := 0
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, paxXattr)
		if !ok {
			continue
		}
		total += len(name) + len(value)
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") || len(name) > 255 ||
			strings.ContainsRune(name, 0) || total > maxXattrBytes || len(out.xattrs) == maxXattrs {
			a.res.Dropped++
			continue
		}
		if out.xattrs == nil {
			out.xattrs = map[string]string{}
		}
		out.xattrs[name] = value
	}
	return out
}

func id(n int) int {
	if n < 0 || n > maxID {
		return nobody
	}
	return n
}

// set gives an open file or directory its attributes. The mode is last: a change of the owner
// clears bits of it.
func (a *applier) set(fd int, d attributes) error {
	if a.Owners {
		if err := unix.Fchown(fd, d.uid, d.gid); err != nil {
			return err
		}
	}
	for name, value := range d.xattrs {
		err := unix.Fsetxattr(fd, name, []byte(value), 0)
		if err == unix.EOPNOTSUPP || err == unix.ENOSPC || err == unix.E2BIG || err == unix.ERANGE {
			a.res.Dropped++ // the file system cannot store it
			continue
		}
		if err != nil {
			return err
		}
	}
	if d.opaque {
		if err := unix.Fsetxattr(fd, opaque, []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, d.mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), d.times(), 0)
}
