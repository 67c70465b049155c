package snapshot

import (
	"io"
)

// SetStep calls f at each step of a save.
func (s *Store) SetStep(f func(string)) { s.step = f }

// ParseManifest reads a manifest.
func ParseManifest(r io.Reader) error {
	_, err := parseManifest(r)
	return err
}
