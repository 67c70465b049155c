package workspace

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

// errNoLinks is the error of files that cannot get another name there.
var errNoLinks = errors.New("the files cannot be linked")

// linker makes one directory of stacked ones that guests wrote, an upper layer and the layers that
// have what it had before. Directories are made again, and everything else gets another name: no
// content is read or written. It refuses what a copy refuses. Whiteouts that hide nothing are left
// out: the kernel lists them in a directory that is not merged with another.
type linker struct {
	copier
	seen   map[uint64]bool
	copies bool // copy what cannot be linked
}

// link fills an empty directory with what the others, the top one first, show above those of base.
func link(ctx context.Context, opening *sync.Mutex, from, base []int, to int, copies bool) (Usage, error) {
	k := &linker{copier{ctx: ctx, root: isRoot(), links: -1, opening: opening}, map[uint64]bool{}, copies}
	defer k.release()
	var st unix.Stat_t
	err := unix.Fstat(from[0], &st)
	if err == nil {
		err = k.dir(from, base, to, &st, 0)
	}
	return k.sum, err
}

func (k *linker) dir(from, base []int, to int, st *unix.Stat_t, depth int) error {
	if depth > liveDepth {
		return ErrDeep
	}
	err := each(from, maxEntries, func(name string) error {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		if err := k.entry(from, base, to, name, depth); err != nil {
			return fmt.Errorf("%.100q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return k.attributes(from[0], to, st)
}

// entry makes what the top directory that has a name has there.
func (k *linker) entry(from, base []int, to int, name string, depth int) error {
	for i, dir := range from {
		st, err := beneath.Stat(dir, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return k.subdir(from[i:], base, to, name, &st, depth)
		case unix.S_IFREG:
			err = k.check(dir, name)
		case unix.S_IFLNK, unix.S_IFIFO, unix.S_IFSOCK:
		case unix.S_IFCHR:
			if !isWhiteout(&st) {
				return errors.New("it is a device")
			}
			below, err := hidden(base, name)
			if err != nil {
				return err
			}
			below.close()
			if !below.file && len(below.dirs) == 0 {
				return nil
			}
		default:
			err = errors.New("it is a device")
		}
		if err != nil {
			return err
		}
		k.count(&st)
		err = unix.Linkat(dir, name, to, name, 0)
		if (err == unix.EXDEV || err == unix.EMLINK || err == unix.EPERM) && k.copies {
			return k.copier.entry(dir, to, name, depth)
		}
		if err == unix.EXDEV || err == unix.EMLINK || err == unix.EPERM {
			return fmt.Errorf("%w: %w", errNoLinks, err)
		}
		return err
	}
	return nil
}

// hidden is what the layers below have. An ordinary user's daemon may not be able to look.
func hidden(base []int, name string) (found, error) {
	f, err := look(base, name)
	if err == unix.EACCES {
		err = fmt.Errorf("%w: %w", errNoLinks, err)
	}
	return f, err
}

// count counts a file with several names once.
func (k *linker) count(st *unix.Stat_t) {
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if k.seen[st.Ino] {
			return
		}
		k.seen[st.Ino] = true
	}
	k.sum.Files++
	k.sum.Bytes += st.Blocks * 512
}

// check refuses a file with marks of an overlay that ours do not write.
func (k *linker) check(dir int, name string) (err error) {
	fd, shut, err := k.open(dir, name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	_, err = marks(fd, false)
	return err
}

// subdir merges the directories of a name down to one that hides what is below.
func (k *linker) subdir(from, base []int, to int, name string, st *unix.Stat_t, depth int) (err error) {
	k.count(st)
	var dirs []int
	opaque := false
	for _, dir := range from {
		st, err := beneath.Stat(dir, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			opaque = true // a directory took the place of it
			break
		}
		fd, shut, err := k.open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, shut()) }()
		dirs = append(dirs, fd)
		if opaque, err = marks(fd, true); err != nil {
			return err
		}
		if opaque {
			break
		}
	}
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	out, err := beneath.OpenDir(to, name)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	if opaque {
		base = nil
		if err := unix.Fsetxattr(out, prefix+"opaque", []byte("y"), 0); err != nil {
			return err
		}
	}
	below, err := hidden(base, name)
	if err != nil {
		return err
	}
	defer below.close()
	return k.dir(dirs, below.dirs, out, st, depth+1)
}

// isWhiteout reports whether an entry stands for "nothing here": the character device
// 0/0, which is what an overlay makes and nobody else can do harm with.
func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// names calls f with the entries of a directory, in its own order, until f fails
// or most of them were seen; then the error is errMany.
func names(dir int, most int, f func(name string) error) error {
	seen := 0
	return beneath.Names(dir, func(name string) error {
		if seen++; seen > most {
			return errMany
		}
		return f(name)
	})
}

var (
	errMany = errors.New("too many entries")
	errDeep = errors.New("directories are nested too deep")
)
