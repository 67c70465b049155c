package snapshot

import (
	"io"

	"golang.org/x/sys/unix"
)

// SetStep calls f at each step of a save.
func (s *Store) SetStep(f func(string)) { s.step = f }

// ParseManifest reads a manifest.
func ParseManifest(r io.Reader) error {
	_, err := parseManifest(r)
	return err
}

// Short reports whether a disk has no space.
func Short(st *unix.Statfs_t, floor, need int64) error { return short(st, floor, need) }
