package layer

import (
	"context"
	"errors"

	"hortus.dev/api"
)

// Verified waits until this process has compared the image of a packed layer with its sum, once in its life. Resolve and
// Lease wait for at most [Config.VerifyWait]. KindNotFound if the layer is not there, or is corrupt and was set aside. A
// layer that is a directory has no sum.
func (s *Store) Verified(ctx context.Context, d Digest) error {
	if _, err := s.Resolve(d); err != nil {
		return err
	}
	s.mu.Lock()
	m := s.mounts[d]
	s.mu.Unlock()
	if m == nil {
		_, err := s.read(d) // not packed, or set aside just now
		return err
	}
	select {
	case <-m.checked:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(m.cause, errCorrupt) {
		return api.Errorf(api.KindNotFound, "layer %s is corrupt: %w", d, m.cause)
	}
	return nil
}
