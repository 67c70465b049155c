package daemon

import (
	"context"
	"testing"
	"time"

	wait "hortus.dev/test/patience"
	"hortus.dev/test/servicetest"
)

// TestTellsManager: the whole daemon tells its service manager when it is ready, which
// /readyz says then too, and when it stops. One that is late says so first.
func TestTellsManager(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]time.Duration{"in time": 0, "late": 1} {
		t.Run(name, func(t *testing.T) {
			m := servicetest.Listen(t)
			s, err := Open(t.Context(), Config{DataDir: shortDir(t), Idle: -1, Pool: 1, Getenv: m.Getenv, ReadyWithin: within})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait.Of(time.Minute))
			defer cancel()
			defer func() {
				if err := s.Close(ctx); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			begun, served := make(chan struct{}), make(chan error, 1)
			serving, end := context.WithCancel(t.Context())
			defer end()
			go func() { served <- s.Serve(serving, func() { close(begun) }) }()
			<-begun
			m.Hears(t, "EXTEND_TIMEOUT_USEC=", "\nSTATUS=serving, not ready yet")
			if s.service.Prepared(ctx) != nil {
				m.Hears(t, "READY=1\nSTATUS=serving, not ready: a backend")
			} else {
				if within > 0 {
					m.Hears(t, "READY=1\nSTATUS=serving, not ready: ")
					m.Hears(t, "STATUS=ready")
				} else {
					m.Hears(t, "READY=1\nSTATUS=ready")
				}
				if got := s.service.Missing(); len(got) > 0 {
					t.Errorf("told to be ready, and missing %q", got)
				}
			}
			end()
			if err := <-served; err != nil {
				t.Error(err)
			}
			m.Hears(t, "STOPPING=1")
		})
	}
}
