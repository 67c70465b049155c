package daemon

import (
	"context"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/internal/platform/telemetry"
	"hortus.dev/internal/store/event"
)

// openTelemetry makes what counts and traces.
func (s *System) openTelemetry() {
	s.telemetry = telemetry.New(telemetry.Config{Version: Version().Version, Getenv: s.cfg.Getenv, Logger: s.log})
	s.onClose(s.telemetry.Close)
}

// watchHeld has the metrics show what is held when they are read.
func (s *System) watchHeld() {
	s.telemetry.Watch(telemetry.Gauges{
		Sandboxes: func(ctx context.Context) ([]api.Sandbox, error) { return s.sandboxes.List(ctx, false) },
		Pool:      s.sandboxes.Warm,
		Admission: func() (promised, budget int64, waiting int) {
			g := s.gate.State()
			return g.Memory, g.MemoryBudget, g.Waiting
		},
	})
}

// facts is the log of events, counted.
type facts struct {
	*event.Log
	count *telemetry.Telemetry
}

// Append implements sandbox.Log and task.Log.
func (f facts) Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	e, err := f.Log.Append(ctx, s, t, data)
	if err == nil {
		f.count.Event(t)
	}
	return e, err
}

// ops serves what watches a daemon, and leaves the rest to next:
//
//	GET /healthz  it lives
//	GET /readyz   it serves at full speed, or what is missing
//	GET /metrics  what it counted, for admins alone
//
// The first two say nothing that a stranger may not know.
func (s *System) ops(next http.Handler) http.Handler {
	metrics := s.telemetry.Metrics()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		switch r.URL.Path {
		case "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		case "/readyz":
			s.readyz(w)
		case "/metrics":
			if api.PrincipalOf(r.Context()).Role == api.RoleAdmin {
				metrics.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r) // to others there is no such path
		default:
			next.ServeHTTP(w, r)
		}
	})
}
