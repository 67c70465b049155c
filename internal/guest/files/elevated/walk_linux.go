package elevated

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// maxLinks is the maximum number of links in one path.
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

// enter moves to the directory with that name.
func (p *location) enter(name string) error {
	fd, err := unix.Openat(p.dir, name, dirFlags, 0)
	if err != nil {
		return err
	}
	unix.Close(p.dir)
	p.dir = fd
	return nil
}

// find walks an absolute path to the directory of its last name. If follow is true and the
// last name is a link, it follows it. If parents is true, it makes the first missing
// directory and returns ErrAgain.
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

// link reads a link in a guarded directory, where only root can have made it.
func (f Files) link(p location) (string, error) {
	if err := f.guarded(p.dir); err != nil {
		return "", api.Errorf(api.KindDenied, "permission denied: link '%s' is in a directory that %s can write, so only %s's own rights apply", p.name, f.User.Name, f.User.Name)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.dir, p.name, buf)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buf[:max(n, 0)]), err
}

// guarded returns an error if the user can write the directory. The group bits also cover
// access control lists.
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

// notProc returns an error in /proc and /sys, where root's rights extend to processes and
// devices. To write there, a client can act as root.
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
