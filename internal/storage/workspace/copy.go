package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/sparse"
	"hortus.dev/internal/storage/beneath"
)

// copier copies an upper layer that a guest wrote: files, directories, links, whiteouts and
// the marks of the overlay, with owners, modes and times as they are on the disk. The content
// of a file is shared with the original where the file system can, else copied without its
// holes. The cost is that of what the upper layer has, whatever lies below it.
type copier struct {
	ctx  context.Context
	sum  Usage
	root bool // owners can be kept
	// portable leaves out what an archive cannot have: pipes, sockets, access control lists, and the bits of setuid and setgid.
	portable bool

	// links has a name for each file with several, until the end of the copy.
	links   int
	seen    map[uint64]string
	noShare bool // the file system cannot share content

	opening *sync.Mutex
	holds   bool
}

// copyUpper copies the content and the attributes of a directory to an empty one. links is
// an empty directory on the same file system, which the caller removes.
func (s *Store) copyUpper(ctx context.Context, from, to, links int, portable bool) (Usage, error) {
	c := &copier{ctx: ctx, root: isRoot(), portable: portable, links: links, seen: map[uint64]string{}, opening: &s.opening}
	defer c.release()
	var st unix.Stat_t
	err := unix.Fstat(from, &st)
	if err == nil {
		err = c.dir(from, to, &st, 0)
	}
	return c.sum, err
}

func (c *copier) release() {
	if c.holds {
		c.opening.Unlock()
	}
}

func isRoot() bool { return os.Geteuid() == 0 }

// dir copies a directory. st is of before it was opened, which may have changed its mode.
func (c *copier) dir(from, to int, st *unix.Stat_t, depth int) error {
	if depth > liveDepth {
		return ErrDeep
	}
	err := beneath.Names(from, func(name string) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(from, to, name, depth); err != nil {
			return fmt.Errorf("%.100q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.attributes(from, to, st)
}

func (c *copier) entry(from, to int, name string, depth int) error {
	st, err := beneath.Stat(from, name)
	if err != nil {
		return err
	}
	c.sum.Files++
	c.sum.Bytes += st.Blocks * 512
	kind := st.Mode & unix.S_IFMT
	if c.portable {
		switch {
		case strings.HasPrefix(name, ".wh."):
			return api.Errorf(api.KindUnsupported, "no archive can have a file whose name begins with .wh.").WithHint("rename or remove the file in a sandbox")
		case kind == unix.S_IFIFO || kind == unix.S_IFSOCK:
			return unix.Mknodat(to, name, unix.S_IFCHR, 0) // it still hides what is below
		}
	}
	if st.Nlink > 1 && kind != unix.S_IFDIR {
		if first, ok := c.seen[st.Ino]; ok {
			return unix.Linkat(c.links, first, to, name, 0)
		}
		defer func() {
			first := strconv.Itoa(len(c.seen))
			if err == nil && unix.Linkat(to, name, c.links, first, 0) == nil {
				c.seen[st.Ino] = first
			}
		}()
	}
	switch kind {
	case unix.S_IFDIR:
		return c.subdir(from, to, name, &st, depth)
	case unix.S_IFREG:
		err = c.regular(from, to, name, &st)
	case unix.S_IFLNK:
		err = c.symlink(from, to, name, &st)
	case unix.S_IFCHR, unix.S_IFIFO, unix.S_IFSOCK:
		if kind == unix.S_IFCHR && !isWhiteout(&st) {
			return errors.New("it is a device")
		}
		if err = unix.Mknodat(to, name, st.Mode&(unix.S_IFMT|0o777), 0); err == nil {
			err = c.owner(to, name, &st)
		}
	default:
		err = errors.New("it is a device")
	}
	return err
}

func (c *copier) subdir(from, to int, name string, st *unix.Stat_t, depth int) (err error) {
	in, shut, err := c.open(from, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	out, err := beneath.OpenDir(to, name)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	return c.dir(in, out, st, depth+1)
}

func (c *copier) regular(from, to int, name string, st *unix.Stat_t) (err error) {
	in, shut, err := c.open(from, name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	out, err := beneath.Open(to, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	// An ordinary user may set attributes of files that it may write to only.
	if err := unix.Fchmod(out, 0o600); err != nil {
		return err
	}
	if err := c.content(in, out, st.Size); err != nil {
		return err
	}
	return c.attributes(in, out, st)
}

func (c *copier) symlink(from, to int, name string, st *unix.Stat_t) error {
	target, err := beneath.Readlink(from, name, maxTarget)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(target, to, name); err != nil {
		return err
	}
	return c.owner(to, name, st)
}

// open opens a file or directory, also one whose mode keeps us out.
func (c *copier) open(dir int, name string, flags int) (fd int, shut func() error, err error) {
	fd, err = beneath.Open(dir, name, flags)
	if err != unix.EACCES {
		return fd, func() error { return unix.Close(fd) }, err
	}
	if !c.holds {
		c.opening.Lock()
		c.holds = true
	}
	fd, restore, err := openShutAs(dir, name, flags)
	return fd, func() error { return errors.Join(unix.Close(fd), restore()) }, err
}

// content copies size bytes from one file to another, which is empty.
func (c *copier) content(from, to int, size int64) error {
	if size == 0 {
		return nil
	}
	if !c.noShare {
		if unix.IoctlFileClone(to, from) == nil {
			return nil
		}
		c.noShare = true
	}
	return sparse.CopyContent(c.ctx, to, from, size)
}

// attributes copies what a file or directory has besides its content.
func (c *copier) attributes(from, to int, st *unix.Stat_t) error {
	if c.root {
		if err := unix.Fchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	err := eachAttribute(from, func(name string, value []byte) error {
		if c.portable && (strings.HasPrefix(name, "system.") || strings.HasPrefix(name, prefix+"overlay.")) {
			return nil
		}
		return unix.Fsetxattr(to, name, value, 0)
	})
	if err != nil {
		return err
	}
	mode := st.Mode & 0o7777
	if c.portable && st.Mode&unix.S_IFMT == unix.S_IFREG {
		mode &^= unix.S_ISUID | unix.S_ISGID
	}
	if err := unix.Fchmod(to, mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", to), []unix.Timespec{st.Mtim, st.Mtim}, 0)
}

// owner copies the owner and the time of what cannot be opened.
func (c *copier) owner(to int, name string, st *unix.Stat_t) error {
	if c.root {
		if err := unix.Fchownat(to, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(to, name, []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
