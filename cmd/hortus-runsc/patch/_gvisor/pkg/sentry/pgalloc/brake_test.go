package pgalloc

import (
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/sentry/usage"
)

// TestBrake: the delay grows with the excess up to a maximum, and ends with it.
func TestBrake(t *testing.T) {
	before := usage.MaximumTotalMemoryBytes
	usage.MaximumTotalMemoryBytes = 100 << 20
	defer func() { usage.MaximumTotalMemoryBytes = before }()
	var b brake
	for _, c := range []struct {
		used uint64
		want time.Duration
	}{
		{0, 0}, {100 << 20, 0}, {100<<20 + 1, brakeDelay}, {103 << 20, 4 * brakeDelay}, {1 << 40, brakeMax}, {99 << 20, 0},
	} {
		if got := b.look(c.used); got != c.want {
			t.Errorf("with %d bytes in use the delay is %v, want %v", c.used, got, c.want)
		}
		if got := b.excess.Load() != 0; got != (c.want != 0) {
			t.Errorf("with %d bytes in use there is an excess: %v", c.used, got)
		}
	}
}
