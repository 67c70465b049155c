package trust

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxFile is the maximum size of a bundle or keystore that is changed, in bytes.
	maxFile = 4 << 20
	// maxNames is the maximum number of names in a directory that is read.
	maxNames = 10_000
)

var (
	errTooLarge   = errors.New("larger than 4 MiB")
	errNotRegular = errors.New("not a regular file")
	errTooMany    = errors.New("the directory has more than 10000 entries")
)

// absent reports whether there is no such file: neither a file, nor one behind no link.
func absent(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP
}

// tree changes files below a root, which is "/" except in tests. Its methods follow no
// symbolic link, not even in the directories of a path. Paths are absolute and clean.
type tree struct{ root string }

const dirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// dir opens the directory of a path, and returns the last name. If create is true, it makes
// missing directories.
func (t tree) dir(file string, create bool) (fd int, name string, err error) {
	dir, name := path.Split(file)
	if fd, err = unix.Open(t.root, dirFlags, 0); err != nil {
		return -1, "", err
	}
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		next, err := unix.Openat(fd, part, dirFlags, 0)
		if err == unix.ENOENT && create {
			if err = unix.Mkdirat(fd, part, 0o755); err == nil || err == unix.EEXIST {
				next, err = unix.Openat(fd, part, dirFlags, 0)
			}
		}
		unix.Close(fd)
		if err != nil {
			return -1, "", err
		}
		fd = next
	}
	return fd, name, nil
}

// stat describes a path itself.
func (t tree) stat(file string) (st unix.Stat_t, err error) {
	dir, name, err := t.dir(file, false)
	if err != nil {
		return st, err
	}
	defer unix.Close(dir)
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// read reads a regular file of at most maxFile bytes.
func (t tree) read(file string) (data []byte, st unix.Stat_t, err error) {
	dir, name, err := t.dir(file, false)
	if err != nil {
		return nil, st, err
	}
	defer unix.Close(dir)
	// O_NONBLOCK does not wait for the writer of a FIFO.
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, errNotRegular
	}
	if st.Size > maxFile {
		return nil, st, errTooLarge
	}
	var b bytes.Buffer
	b.Grow(int(st.Size) + bytes.MinRead) // no larger buffers: the guest is small
	_, err = b.ReadFrom(io.LimitReader(f, maxFile+1))
	if err == nil && b.Len() > maxFile {
		err = errTooLarge // it has grown
	}
	return b.Bytes(), st, err
}

// attributes are the owner and the mode of a file.
type attributes struct {
	uid, gid int
	mode     uint32
}

// own are the attributes of new files. With the rights of root it is root's.
var own = attributes{-1, -1, 0o644}

// like returns the attributes of an existing file. Everybody may read a trust store.
func like(st *unix.Stat_t) attributes {
	return attributes{int(st.Uid), int(st.Gid), st.Mode&0o755 | 0o444}
}

// replace replaces a path, also if it is a link, but not a directory. It makes missing
// directories. Programs see the old file or the new one.
func (t tree) replace(file string, data []byte, a attributes) error {
	return t.swap(file, func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), file)
		defer f.Close()
		if _, err := f.Write(data); err != nil {
			return err
		}
		if a.uid >= 0 {
			// A sandbox with a single id cannot have files of another one.
			if err := unix.Fchown(fd, a.uid, a.gid); err != nil && err != unix.EPERM {
				return err
			}
		}
		return unix.Fchmod(fd, a.mode) // the umask does not apply
	})
}

// link makes a symbolic link, and replaces what is there.
func (t tree) link(file, target string) error {
	return t.swap(file, func(dir int, name string) error { return unix.Symlinkat(target, dir, name) })
}

// swap makes a file under another name and renames it.
func (t tree) swap(file string, create func(dir int, name string) error) error {
	dir, name, err := t.dir(file, true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var random [8]byte
	rand.Read(random[:])
	aside := ".hortus-" + hex.EncodeToString(random[:])
	if err = create(dir, aside); err == nil {
		err = unix.Renameat(dir, aside, dir, name)
	}
	if err != nil {
		unix.Unlinkat(dir, aside, 0)
	}
	return err
}

// remove removes a file or a link. It is no error if there is none.
func (t tree) remove(file string) error {
	dir, name, err := t.dir(file, false)
	if err == nil {
		err = unix.Unlinkat(dir, name, 0)
		unix.Close(dir)
	}
	if absent(err) {
		return nil
	}
	return err
}

// removeDir removes a directory if it is empty.
func (t tree) removeDir(file string) {
	if dir, name, err := t.dir(file, false); err == nil {
		unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		unix.Close(dir)
	}
}

// rename renames a file in its directory.
func (t tree) rename(file, name string) error {
	dir, old, err := t.dir(file, false)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Renameat(dir, old, dir, name)
}

// readLink returns the target of a link; "" if there is none.
func (t tree) readLink(file string) string {
	dir, name, err := t.dir(file, false)
	if err != nil {
		return ""
	}
	defer unix.Close(dir)
	return linkIn(dir, name)
}

func linkIn(dir int, name string) string {
	var b [256]byte
	n, err := unix.Readlinkat(dir, name, b[:])
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// list returns the names in a directory, and the targets of those that are hashed links.
func (t tree) list(dir string) (map[string]string, error) {
	parent, name, err := t.dir(dir, false)
	if err != nil {
		return nil, err
	}
	defer unix.Close(parent)
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(maxNames + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(names) > maxNames {
		return nil, errTooMany
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[name] = ""
		if hashed(name) {
			out[name] = linkIn(fd, name)
		}
	}
	return out, nil
}
