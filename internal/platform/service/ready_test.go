package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/server/front"
	"hortus.dev/internal/storage/layer"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/servicetest"
)

// slow is a backend whose template and guests come when the test says so: a guest for
// each error that is sent, which is nil for one that boots.
type slow struct {
	sandbox.Backend
	probed, guests chan error
}

func (slow) Name() string { return "slow" }

func (slow) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{Prepare: true} }

func (slow) Validate(context.Context, sandbox.Spec) error { return nil }

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
		api.CapStart, api.CapIsolated, api.CapPrograms, api.CapLimitCPU, api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs, api.CapLimitDisk, api.CapLimitDiskRate, api.CapLimitOutput,
	} {
		r.Abilities = append(r.Abilities, api.Ability{Capability: c, OK: true})
	}
	return r
}

func (b slow) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	select {
	case err := <-b.guests:
		if err != nil {
			return nil, err
		}
		return b.Backend.Prepare(ctx, spec)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type noLayers struct{}

func (noLayers) Layers(context.Context, string) ([]layer.Digest, error) { return nil, nil }
func (noLayers) Shows(layer.Digest) (bool, error)                       { return false, nil }

// starting is a service whose pool is only begun, as far as readiness goes.
func starting(t *testing.T, pool int, within time.Duration) (*Service, slow, servicetest.Manager) {
	t.Helper()
	m := servicetest.Listen(t)
	b := slow{probed: make(chan error, 1), guests: make(chan error, 8)}
	sandboxes := manager.New(manager.Config{Backends: []sandbox.Backend{b}, Templates: noLayers{}, Pool: pool})
	s := New(Config{Sandboxes: sandboxes, Warmer: sandboxes.Creator, Tasks: none{}, Getenv: m.Getenv, ReadyWithin: within, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.notifyReady(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := errors.Join(s.Close(context.Background()), sandboxes.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return s, b, m
}

// lacksNow asks /readyz, which answers 200 where nothing is missing.
func lacksNow(t *testing.T, s *Service) []string {
	t.Helper()
	w := httptest.NewRecorder()
	front.Operations(http.NotFoundHandler(), s.Missing, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
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
	m.Hears(t, "EXTEND_TIMEOUT_USEC=", "STATUS=serving, not ready yet: template host")
	if got := lacksNow(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "template host:") {
		t.Errorf("missing %q", got)
	}
	b.probed <- nil
	<-s.prepared
	if got := lacksNow(t, s); len(got) != 1 || got[0] != "pool: 0 of 2 guests are warm" {
		t.Errorf("missing %q", got)
	}
	m.HearsNothing(t)
}

// TestReadyLate: a pool that cannot be filled does not keep the service manager
// waiting for ever. It is told, and may know why.
func TestReadyLate(t *testing.T) {
	s, b, m := starting(t, 1, 10*time.Millisecond)
	m.Hears(t, "STATUS=serving, not ready yet")
	b.probed <- nil
	b.guests <- api.Errorf(api.KindExhausted, "no\nroom")
	// The bound may pass before or after the guest failed: the second has the cause.
	m.Hears(t, "READY=1\nSTATUS=serving, not ready: ")
	for deadline := time.Now().Add(wait.Of(time.Minute)); !strings.Contains(s.reason(), "pool: 0 of 1 guests are warm: no\nroom"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the cause is not known: %q", s.reason())
		}
	}
	if got := lacksNow(t, s); len(got) != 1 || strings.Contains(got[0], "room") {
		t.Errorf("a stranger is told %q", got)
	}
	m.HearsNothing(t)
}

// TestReadyNever: what will never be there is said at once.
func TestReadyNever(t *testing.T) {
	s, b, m := starting(t, 1, time.Hour)
	m.Hears(t, "STATUS=serving, not ready yet")
	b.probed <- api.Errorf(api.KindUnisolated, "no user\nnamespaces")
	m.Hears(t, "READY=1\nSTATUS=serving, not ready: a backend: ", "no user namespaces")
	if got := lacksNow(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "a backend:") || strings.Contains(got[0], "namespaces") {
		t.Errorf("missing %q", got)
	}
}

// TestReadyWithoutPool: a daemon that boots nothing ahead is ready when its template is
// there, and not before.
func TestReadyWithoutPool(t *testing.T) {
	s, b, m := starting(t, 0, time.Hour)
	m.Hears(t, "STATUS=serving, not ready yet: template host")
	if got := lacksNow(t, s); len(got) != 1 {
		t.Errorf("missing %q", got)
	}
	b.probed <- nil
	m.Hears(t, "READY=1\nSTATUS=ready")
	if got := lacksNow(t, s); len(got) != 0 {
		t.Errorf("missing %q", got)
	}
}
