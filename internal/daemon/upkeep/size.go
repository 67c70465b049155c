package upkeep

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// size returns the bytes that a file or a tree takes on its disk. What is mounted
// below is another disk's; what vanishes meanwhile takes nothing; a file with
// several names in the tree is counted once.
func size(ctx context.Context, path string) (int64, error) { return sizeIf(ctx, links{}.first, path) }

// links counts the names of files that were seen.
type links map[inode]uint64

type inode struct{ dev, ino uint64 }

func (l links) see(st unix.Stat_t) uint64 {
	at := inode{uint64(st.Dev), st.Ino}
	l[at]++
	return l[at]
}

// first reports whether a file is seen for the first time.
func (l links) first(st unix.Stat_t) bool { return l.see(st) == 1 }

// last reports whether all names of a file were seen.
func (l links) last(st unix.Stat_t) bool { return l.see(st) == uint64(st.Nlink) }

// sizeIf is size, in which a file with several names counts if counts says so.
func sizeIf(ctx context.Context, counts func(unix.Stat_t) bool, path string) (int64, error) {
	var root unix.Stat_t
	if err := unix.Lstat(path, &root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 0, api.Errorf(api.KindInternal, "measure %s: %w", path, err)
	}
	var total int64
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, fs.ErrPermission) && d != nil && d.IsDir() {
			return fs.SkipDir // a tree of another identity; its own size is counted
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if st.Dev != root.Dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() && !counts(st) {
			return nil
		}
		total += st.Blocks * 512
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, api.Errorf(api.KindInternal, "measure %s: %w", path, err)
	}
	return total, nil
}
