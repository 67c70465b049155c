package workspace

import (
	"errors"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

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
