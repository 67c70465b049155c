package daemon

import (
	"testing"
	"time"

	"hortus.dev/internal/daemon"
	"hortus.dev/test/servicetest"
	"hortus.dev/test/world"
)

// TestTellsManager: the whole daemon tells its service manager when it is ready, which
// /readyz says then too, and when it stops. One that is late says so first.
func TestTellsManager(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]time.Duration{"in time": 0, "late": 1} {
		t.Run(name, func(t *testing.T) {
			m := servicetest.Listen(t)
			w := world.Open(t, world.Config{Config: daemon.Config{Pool: 1, Getenv: m.Getenv, ReadyWithin: within}})
			m.Hears(t, "EXTEND_TIMEOUT_USEC=", "\nSTATUS=serving, not ready yet")
			if d, err := w.Client.Doctor(t.Context()); err != nil || d.Auto == "" {
				m.Hears(t, "READY=1\nSTATUS=serving, not ready: a backend")
			} else {
				if within > 0 {
					m.Hears(t, "READY=1\nSTATUS=serving, not ready: ")
					m.Hears(t, "STATUS=ready")
				} else {
					m.Hears(t, "READY=1\nSTATUS=ready")
				}
				if err := w.Client.Ready(t.Context()); err != nil {
					t.Errorf("told to be ready, and it is not: %v", err)
				}
			}
			w.Signal()
			w.Ended()
			m.Hears(t, "STOPPING=1")
		})
	}
}
