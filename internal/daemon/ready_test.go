package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/layer"
	wait "hortus.dev/test/patience"
)

// serviceManager is what a service manager is to the daemon: a socket.
type serviceManager struct {
	name string
	said chan string
}

func (m serviceManager) getenv(key string) string {
	if key == "NOTIFY_SOCKET" {
		return m.name
	}
	return ""
}

func listenAsManager(t *testing.T) serviceManager {
	t.Helper()
	m := serviceManager{filepath.Join(t.TempDir(), "notify"), make(chan string, 64)}
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := ln.Read(b)
			if err != nil {
				return
			}
			m.said <- string(b[:n])
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return m
}

// hears waits for what the manager is told next.
func (m serviceManager) hears(t *testing.T, wants ...string) {
	t.Helper()
	select {
	case got := <-m.said:
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("the service manager is told %q, without %q", got, want)
			}
		}
	case <-time.After(wait.Of(60 * time.Second)):
		t.Fatalf("the service manager is told nothing; want %q", wants)
	}
}

func (m serviceManager) hearsNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-m.said:
		t.Errorf("the service manager is told %q", got)
	default:
	}
}

// slow is a backend whose template and guests come when the test says so: a guest for
// each error that is sent, which is nil for one that boots.
type slow struct {
	sandbox.Preparer
	probed, guests chan error
}

func (slow) Name() string { return "slow" }

func (b slow) Probe(ctx context.Context) api.BackendReport {
	select {
	case err := <-b.probed:
		if err != nil {
			return api.BackendReport{Backend: "slow", Abilities: []api.Ability{{Capability: api.CapStart, Reason: err.Error()}}}
		}
	case <-ctx.Done():
	}
	r := api.BackendReport{Backend: "slow"}
	for _, c := range []api.Capability{
		api.CapStart, api.CapIsolated, api.CapLimitCPU, api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs, api.CapLimitDisk, api.CapLimitDiskRate, api.CapLimitOutput,
	} {
		r.Abilities = append(r.Abilities, api.Ability{Capability: c, OK: true})
	}
	return r
}

func (b slow) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Prepared, error) {
	select {
	case err := <-b.guests:
		if err != nil {
			return nil, err
		}
		return b.Preparer.Prepare(ctx, spec)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type noLayers struct{}

func (noLayers) Layers(context.Context, string) ([]layer.Digest, error) { return nil, nil }

// starting is a system whose pool is only begun, as far as readiness goes.
func starting(t *testing.T, pool int, within time.Duration) (*System, slow, serviceManager) {
	t.Helper()
	m := listenAsManager(t)
	b := slow{probed: make(chan error, 1), guests: make(chan error, 8)}
	s := &System{
		cfg: Config{Getenv: m.getenv, ReadyWithin: within}, log: slog.New(slog.DiscardHandler),
		prepared: make(chan struct{}), warm: make(chan struct{}),
		sandboxes: manager.New(manager.Config{Backends: []sandbox.Backend{b}, Templates: noLayers{}, Pool: pool}),
	}
	s.onClose(s.sandboxes.Close)
	s.openTelemetry()
	s.keepWarm()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.tellReady(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, b, m
}

// lacksNow asks /readyz, which answers 200 where nothing is missing.
func lacksNow(t *testing.T, s *System) []string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ops(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	var said struct {
		Ready   bool
		Missing []string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if ok := w.Code == http.StatusOK; said.Ready != ok || ok != (len(said.Missing) == 0) || !ok && w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	return said.Missing
}

// TestReadyWhenWarm: neither /readyz nor the service manager hears that the daemon is
// ready before the template is there and the pool is full.
func TestReadyWhenWarm(t *testing.T) {
	s, b, m := starting(t, 2, time.Hour)
	m.hears(t, "EXTEND_TIMEOUT_USEC=", "STATUS=serving, not ready yet: template host")
	if got := lacksNow(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "template host:") {
		t.Errorf("missing %q", got)
	}
	b.probed <- nil
	<-s.prepared
	if got := lacksNow(t, s); len(got) != 1 || got[0] != "pool: 0 of 2 guests are warm" {
		t.Errorf("missing %q", got)
	}
	m.hearsNothing(t)
}

// TestReadyLate: a pool that cannot be filled does not keep the service manager
// waiting for ever. It is told, and may know why.
func TestReadyLate(t *testing.T) {
	s, b, m := starting(t, 1, 10*time.Millisecond)
	m.hears(t, "STATUS=serving, not ready yet")
	b.probed <- nil
	b.guests <- api.Errorf(api.KindExhausted, "no\nroom")
	// The bound may pass before or after the guest failed: the second has the cause.
	m.hears(t, "READY=1\nSTATUS=serving, not ready: ")
	eventually(t, "the cause is known", func() bool { return strings.Contains(s.lacks(), "pool: 0 of 1 guests are warm: no\nroom") })
	if got := lacksNow(t, s); len(got) != 1 || strings.Contains(got[0], "room") {
		t.Errorf("a stranger is told %q", got)
	}
	m.hearsNothing(t)
}

// TestReadyNever: what will never be there is said at once.
func TestReadyNever(t *testing.T) {
	s, b, m := starting(t, 1, time.Hour)
	m.hears(t, "STATUS=serving, not ready yet")
	b.probed <- api.Errorf(api.KindUnisolated, "no user\nnamespaces")
	m.hears(t, "READY=1\nSTATUS=serving, not ready: a backend: ", "no user namespaces")
	if got := lacksNow(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "a backend:") || strings.Contains(got[0], "namespaces") {
		t.Errorf("missing %q", got)
	}
}

// TestReadyWithoutPool: a daemon that boots nothing ahead is ready when its template is
// there, and not before.
func TestReadyWithoutPool(t *testing.T) {
	s, b, m := starting(t, 0, time.Hour)
	m.hears(t, "STATUS=serving, not ready yet: template host")
	if got := lacksNow(t, s); len(got) != 1 {
		t.Errorf("missing %q", got)
	}
	b.probed <- nil
	m.hears(t, "READY=1\nSTATUS=ready")
	if got := lacksNow(t, s); len(got) != 0 {
		t.Errorf("missing %q", got)
	}
}

// TestTellsManager: the whole daemon tells its service manager when it is ready, which
// /readyz says then too, and when it stops. One that is late says so first.
func TestTellsManager(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]time.Duration{"in time": 0, "late": 1} {
		t.Run(name, func(t *testing.T) {
			m := listenAsManager(t)
			s, err := Open(t.Context(), Config{DataDir: shortDir(t), Idle: -1, Pool: 1, Getenv: m.getenv, ReadyWithin: within})
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
			m.hears(t, "EXTEND_TIMEOUT_USEC=", "\nSTATUS=serving, not ready yet")
			if <-s.prepared; s.unfit != nil {
				m.hears(t, "READY=1\nSTATUS=serving, not ready: a backend")
			} else {
				if within > 0 {
					m.hears(t, "READY=1\nSTATUS=serving, not ready: ")
					m.hears(t, "STATUS=ready")
				} else {
					m.hears(t, "READY=1\nSTATUS=ready")
				}
				if got := lacksNow(t, s); len(got) > 0 {
					t.Errorf("told to be ready, and missing %q", got)
				}
			}
			end()
			if err := <-served; err != nil {
				t.Error(err)
			}
			m.hears(t, "STOPPING=1")
		})
	}
}
