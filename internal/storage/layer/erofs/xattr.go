package erofs

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// classes are the prefixes of attribute names that the format has numbers for.
func classOf(name string) (class byte, rest string, ok bool) {
	switch name {
	case "system.posix_acl_access":
		return 2, "", true
	case "system.posix_acl_default":
		return 3, "", true
	}
	if rest, ok = strings.CutPrefix(name, "user."); ok {
		return 1, rest, true
	}
	if rest, ok = strings.CutPrefix(name, "trusted."); ok {
		return 4, rest, true
	}
	if rest, ok = strings.CutPrefix(name, "security."); ok {
		return 6, rest, true
	}
	return 0, "", false
}

// xattrHeader is the size of what stands before the attributes of an inode, in bytes.
const xattrHeader = 12

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// readXattrs reads the attributes of a file as the format has them. A file of /proc/self/fd
// is followed to its directory, a link in that directory is not. Attributes of other classes
// belong to a file system, not to a tree, and are left out.
func readXattrs(path string) ([]byte, error) {
	list := func(buf []byte) (int, error) {
		if strings.Count(path, "/") == 4 { // the directory itself
			return unix.Listxattr(path, buf)
		}
		return unix.Llistxattr(path, buf)
	}
	size, err := list(nil)
	if err == unix.EOPNOTSUPP || err == nil && size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read its attributes: %w", err)
	}
	buf := make([]byte, size)
	if size, err = list(buf); err != nil {
		return nil, fmt.Errorf("read its attributes: %w", err)
	}
	names := strings.Split(strings.TrimRight(string(buf[:size]), "\x00"), "\x00")
	slices.Sort(names)
	var out []byte
	for _, name := range names {
		class, rest, ok := classOf(name)
		if !ok {
			continue
		}
		value, err := readXattr(path, name)
		if err == unix.ENODATA {
			continue // it is not stored, only shown
		}
		if err != nil {
			return nil, fmt.Errorf("read its attribute %.60q: %w", name, err)
		}
		if out == nil {
			out = make([]byte, xattrHeader)
		}
		out = appendXattr(out, class, rest, value)
	}
	if (len(out)-xattrHeader)/4+1 > 0xffff {
		return nil, fmt.Errorf("its attributes have %d bytes", len(out))
	}
	return out, nil
}

// appendXattr adds an attribute, whose name is that without the prefix of its class.
func appendXattr(out []byte, class byte, name string, value []byte) []byte {
	out = append(out, byte(len(name)), class)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(value)))
	out = append(append(out, name...), value...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	return out
}

func readXattr(path, name string) ([]byte, error) {
	get := unix.Lgetxattr
	if strings.Count(path, "/") == 4 {
		get = unix.Getxattr
	}
	size, err := get(path, name, nil)
	if err != nil || size == 0 {
		return nil, err
	}
	buf := make([]byte, size)
	size, err = get(path, name, buf)
	if err != nil {
		return nil, err
	}
	return buf[:size], nil
}

// xattrCount is the size of the attributes as the inode states it.
func (n *node) xattrCount() uint16 {
	if len(n.xattrs) == 0 {
		return 0
	}
	return uint16((len(n.xattrs)-xattrHeader)/4 + 1)
}
