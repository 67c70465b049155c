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
