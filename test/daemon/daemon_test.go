package daemon

import (
	"testing"

	"hortus.dev/test/world"
)

// TestMain lets the test binary be everything that hortus is.
func TestMain(m *testing.M) { world.Main(m) }

// TestNextAfterStop begins a command while the daemon before it is leaving: it
// must get one that stays.
func TestNextAfterStop(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	for range 10 {
		c := world.Connect(t, dir)
		world.OK(t, c.Stop(t.Context(), true))
		next := world.Connect(t, dir)
		for range 3 {
			world.Must(next.Tasks.List(t.Context(), 1))(t)
		}
	}
}
