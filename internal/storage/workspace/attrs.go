package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxValue bounds the value of an attribute that is copied, in bytes; it is the kernel's bound.
const maxValue = 64 << 10

// eachAttribute calls f with the attributes of an open file that a copy must have: the
// guest's own, its access control lists, and the overlay's mark of a directory that hides
// what lies below. Other notes of the overlay are about one mount and are left out; one
// that our overlays do not write is an error.
func eachAttribute(fd int, f func(name string, value []byte) error) error {
	list, err := attributeNames(fd)
	if err != nil {
		return err
	}
	buf := make([]byte, maxValue)
	for _, name := range list {
		mark, overlay := strings.CutPrefix(name, prefix)
		switch {
		case overlay && strings.HasPrefix(mark, "overlay."), overlay && mark == "opaque":
		case overlay && written[mark]:
			continue
		case overlay:
			return fmt.Errorf("it has the unexpected attribute %.60q", name)
		case !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_"):
			continue
		}
		n, err := unix.Fgetxattr(fd, name, buf)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err == nil {
			err = f(name, buf[:n])
		}
		if err != nil {
			return fmt.Errorf("attribute %.60q: %w", name, err)
		}
	}
	return nil
}

// attributeNames returns the names of an open file's attributes, sorted.
func attributeNames(fd int) ([]string, error) {
	size, err := unix.Flistxattr(fd, nil)
	if err == unix.EOPNOTSUPP || err == nil && size == 0 {
		return nil, nil
	}
	if err == nil && size > maxMarks {
		return nil, fmt.Errorf("the names of its attributes have more than %d bytes", maxMarks)
	}
	buf := make([]byte, maxMarks)
	if err == nil {
		size, err = unix.Flistxattr(fd, buf)
	}
	if err != nil {
		return nil, fmt.Errorf("read its attributes: %w", err)
	}
	names := strings.FieldsFunc(string(buf[:size]), func(r rune) bool { return r == 0 })
	slices.Sort(names)
	return names, nil
}

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
