package snapshot

import (
	"context"
	"io"
)

// SetStep calls f at each step of a save.
func (s *Store) SetStep(f func(string)) { s.step = f }

// ParseManifest reads a manifest.
func ParseManifest(r io.Reader) error {
	_, err := parseManifest(r)
	return err
}

// Evict removes what was fetched until so many bytes can be fetched.
func (s *Store) Evict(ctx context.Context, need int64) { s.evict(ctx, need) }

// Sweep removes the files of snapshots that other hosts have removed.
func (s *Store) Sweep() { s.sweep() }

// Collect removes from the archive what no snapshot needs.
func (s *Store) Collect() { s.collect() }
