package elevated

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// maxLinks bounds the links on the way of one path.
const maxLinks = 40

// location is a name in a directory.
type location struct {
	dir  int
	name string
}

func (p location) close() { unix.Close(p.dir) }

func (p location) stat() (st unix.Stat_t, err error) {
	err = unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

const dirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// enter goes on in the directory of that name.
func (p *location) enter(name string) error {
	fd, err := unix.Openat(p.dir, name, dirFlags, 0)
	if err != nil {
		return err
	}
	unix.Close(p.dir)
	p.dir = fd
	return nil
}

// find walks an absolute path to the directory of its last name. With follow, a link of
// that name is followed too. With parents, the first directory that is missing is made,
// for which the error is ErrAgain.
func (f Files) find(path string, follow, parents bool) (_ location, err error) {
	top, err := unix.Open("/", dirFlags, 0)
	if err != nil {
		return location{}, err
	}
	p := location{dir: top, name: "."}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	links := 0
	for rest := path; rest != ""; {
		name, after, _ := strings.Cut(rest, "/")
		rest = strings.TrimLeft(after, "/")
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			if err := p.enter(name); err != nil {
				return p, err
			}
			p.name = "."
			continue
		}
		p.name = name
		if rest == "" && !follow {
			break
		}
		st, err := p.stat()
		switch {
		case err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK:
			target, err := f.link(p)
			if err != nil {
				return p, err
			}
			if links++; links > maxLinks {
				return p, unix.ELOOP
			}
			if strings.HasPrefix(target, "/") {
				if err := p.enter("/"); err != nil {
					return p, err
				}
			}
			rest = target + "/" + rest
			p.name = "."
			continue
		case errors.Is(err, unix.ENOENT) && rest == "":
		case errors.Is(err, unix.ENOENT) && parents:
			if err := f.mkdir(p); err != nil {
				return p, err
			}
			return p, ErrAgain
		case err != nil:
			return p, err
		}
		if rest != "" {
			if err := p.enter(name); err != nil {
				return p, err
			}
			p.name = "."
		}
	}
	return p, notProc(p.dir)
}

// link reads a link that only root can have put where it is.
func (f Files) link(p location) (string, error) {
	if err := f.guarded(p.dir); err != nil {
		return "", api.Errorf(api.KindDenied, "permission denied: '%s' is a link in a directory of %s's, and leads no further than %s's own rights", p.name, f.User.Name, f.User.Name)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.dir, p.name, buf)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buf[:max(n, 0)]), err
}

// guarded fails unless the user cannot write a directory. The bits of the group are those
// of access lists too.
func (f Files) guarded(dir int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	if st.Uid == f.User.UID || st.Mode&0o022 != 0 {
		return unix.EACCES
	}
	return nil
}

// notProc fails in a directory of processes, not files. What root may do there is for
// those who name root.
func notProc(dir int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return err
	}
	if st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SYSFS_MAGIC {
		return unix.EACCES
	}
	return nil
}
