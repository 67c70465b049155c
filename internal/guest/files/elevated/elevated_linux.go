package elevated

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
)

// Files changes files with root's rights for a client of E2B's whose user lacks them. E2B's
// own guest works as root and makes the user the owner of new files. The methods must be
// called as root, on a thread of credential.Switcher.
//
// Code that runs as the user must not be able to redirect these rights. A path is walked by
// descriptors, one name at a time. A link is followed (root made it), and a new name
// created, only in a guarded directory, which the user cannot write. A file with several
// names is not opened through an unguarded directory.
type Files struct{ User *birth.Identity }

// ErrAgain means that a parent directory was made for the user: the caller should retry as
// the user.
var ErrAgain = errors.New("a parent directory was made; retry as the user")

// mkdir makes a directory that belongs to the user.
func (f Files) mkdir(p location) error {
	err := f.guarded(p.dir)
	if err == nil {
		err = notProc(p.dir)
	}
	if err == nil {
		err = unix.Mkdirat(p.dir, p.name, 0o755)
	}
	if err != nil {
		return err
	}
	return unix.Fchownat(p.dir, p.name, int(f.User.UID), int(f.User.GID), unix.AT_SYMLINK_NOFOLLOW)
}

// Create creates or truncates a file for writing, makes its parents, and makes the user its
// owner.
func (f Files) Create(path string) (*os.File, error) {
	p, err := f.find(path, true, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return f.open(p, path)
}

// open opens or creates the file at a location. It does not follow a link that was created
// there after the walk.
func (f Files) open(p location, path string) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(p.dir, p.name, flags, 0)
	if err == unix.ENOENT {
		if err = f.guarded(p.dir); err == nil {
			fd, err = unix.Openat(p.dir, p.name, flags|unix.O_CREAT|unix.O_EXCL, 0o666)
		}
	}
	if err == unix.ENXIO { // a FIFO without a reader, or a socket
		return nil, api.Errorf(api.KindInvalid, "path '%s' is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	if err := f.take(p, fd, path); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// take truncates an open file and makes the user its owner.
func (f Files) take(p location, fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return api.Errorf(api.KindInvalid, "path '%s' is not a regular file", path)
	}
	if st.Nlink > 1 {
		if err := f.guarded(p.dir); err != nil {
			return err
		}
	}
	if err := unix.Ftruncate(fd, 0); err != nil {
		return err
	}
	return unix.Fchown(fd, int(f.User.UID), int(f.User.GID))
}

// MakeDir makes a directory and its parents.
func (f Files) MakeDir(path string) error {
	p, err := f.find(path, true, true)
	if err != nil {
		return err
	}
	defer p.close()
	st, err := p.stat()
	switch {
	case err == unix.ENOENT:
		return f.mkdir(p)
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return api.Errorf(api.KindExists, "directory '%s' already exists", path)
	}
	return api.Errorf(api.KindInvalid, "path '%s' exists and is not a directory", path)
}

// Move renames a file; its owner does not change. With an error it returns the path that
// caused it.
func (f Files) Move(from, to string) (string, error) {
	source, err := f.find(from, false, false)
	if err != nil {
		return from, err
	}
	defer source.close()
	if _, err := source.stat(); err != nil {
		return from, err
	}
	dest, err := f.find(to, false, true)
	if err != nil {
		return to, err
	}
	defer dest.close()
	return to, unix.Renameat(source.dir, source.name, dest.dir, dest.name)
}

// Remove removes a file, or a directory with its contents. It is not an error if the file
// does not exist.
func (f Files) Remove(path string) error {
	p, err := f.find(path, false, false)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	if p.name == "." {
		return api.Errorf(api.KindInvalid, "path '%s' cannot be removed", path)
	}
	return p.remove()
}

func (p location) remove() error {
	err := unix.Unlinkat(p.dir, p.name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	st, serr := p.stat()
	if serr != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	fd, err := unix.Openat(p.dir, p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), p.name)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	var left error
	for _, name := range names {
		if err := (location{fd, name}).remove(); err != nil {
			left = err
		}
	}
	if err := unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return errors.Join(left, err)
	}
	return nil
}
