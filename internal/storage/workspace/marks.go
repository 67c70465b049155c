package workspace

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix begins the attributes by which an overlay of an unprivileged mounter notes
// things. What a guest sets under such a name through the overlay lands below
// prefix+"overlay.", or is refused by kernels before 6.7; see the attack tests.
const prefix = "user.overlay."

// maxMarks bounds the names of attributes of one file that are read, in bytes.
const maxMarks = 64 << 10

// written are the attributes that our overlays write: with userxattr there are no
// redirects and no metadata-only copies.
var written = map[string]bool{"opaque": true, "origin": true, "impure": true, "nlink": true, "upper": true, "uuid": true, "protattr": true}

// marks reads what an overlay noted on an open file or directory: whether it hides
// what lies below it. An attribute that our overlays do not write is an error, since
// with it the host would see another tree than the sandbox did.
func marks(fd int, isDir bool) (opaque bool, err error) {
	size, err := unix.Flistxattr(fd, nil)
	if err == unix.EOPNOTSUPP || err == nil && size == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read its attributes: %w", err)
	}
	if size > maxMarks {
		return false, fmt.Errorf("the names of its attributes have more than %d bytes", maxMarks)
	}
	buf := make([]byte, maxMarks)
	if size, err = unix.Flistxattr(fd, buf); err != nil {
		return false, fmt.Errorf("read its attributes: %w", err)
	}
	for name := range strings.SplitSeq(string(buf[:size]), "\x00") {
		mark, ok := strings.CutPrefix(name, prefix)
		if !ok || strings.HasPrefix(mark, "overlay.") {
			continue
		}
		if !written[mark] || mark == "opaque" && !isDir {
			return false, fmt.Errorf("it has the unexpected attribute %.60q", name)
		}
		if mark != "opaque" {
			continue
		}
		var value [16]byte
		n, err := unix.Fgetxattr(fd, name, value[:])
		if err != nil || string(value[:n]) != "y" {
			return false, fmt.Errorf("its attribute %s is malformed", name)
		}
		opaque = true
	}
	return opaque, nil
}
