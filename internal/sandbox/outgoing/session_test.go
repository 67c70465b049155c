package outgoing_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/test/patience"
)

// slow is a server whose policies take until their context ends, once hang is set.
type slow struct {
	mu      sync.Mutex
	hang    bool
	started chan struct{}
	busy    int
	closed  int
	faults  int
}

func (s *slow) Resolve(_ context.Context, p api.EgressPolicy) (api.EgressPolicy, map[string]string, error) {
	return p, nil, nil
}

func (s *slow) Secrets(context.Context, string, []api.SecretGrant) ([]api.EgressRule, map[string]string, error) {
	return nil, nil, nil
}

func (s *slow) Serve(api.Sandbox, tether.Link, func() []string) sandbox.EgressSession { return s }

func (s *slow) Apply(ctx context.Context, p api.EgressPolicy) error {
	s.mu.Lock()
	s.busy++
	hang := s.hang && p.Opens()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.busy--
		s.mu.Unlock()
	}()
	if hang {
		s.started <- struct{}{}
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *slow) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	if s.busy > 0 {
		s.faults++
	}
}

// TestCloseWhileApplying: the end of a sandbox does not wait for a policy that its guest does not
// take, and closes the session once.
func TestCloseWhileApplying(t *testing.T) {
	srv := &slow{hang: true, started: make(chan struct{}, 1)}
	row := api.Sandbox{ID: api.NewSandboxID(), Egress: api.EgressNone, EgressPolicy: &api.EgressPolicy{Ask: true}}
	s := outgoing.New(outgoing.Config{
		Server: srv, Row: func() api.Sandbox { return row }, Link: func() tether.Link { return nil }, Commands: func() []string { return nil },
	})
	over := make(chan error, 1)
	go func() {
		_, err := s.Change(t.Context(), func() error { return nil })
		over <- err
	}()
	<-srv.started
	closed := make(chan struct{})
	go func() {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(s.Close)
		}
		wg.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience.Of(10 * time.Second)):
		t.Fatal("Close waits for the policy")
	}
	if err := <-over; err == nil {
		t.Error("the policy was applied")
	}
	if srv.closed != 1 || srv.faults != 0 {
		t.Errorf("closed %d times, %d while a policy was applied", srv.closed, srv.faults)
	}
	// Nothing begins afterwards.
	s.Begin()
	s.Adopt()
	if err := s.Open(t.Context()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("open: %v", err)
	}
	if stored, err := s.Change(t.Context(), func() error { t.Error("it was stored"); return nil }); stored || api.KindOf(err) != api.KindUnavailable {
		t.Errorf("change: %v, %v", stored, err)
	}
	if srv.closed != 1 {
		t.Errorf("closed %d times", srv.closed)
	}
}

func TestLimited(t *testing.T) {
	top := &api.EgressPolicy{MaxConnections: 100, MaxBytes: 1000}
	high := &api.EgressPolicy{MaxConnections: 1000}
	for _, c := range []struct {
		p    api.EgressPolicy
		top  *api.EgressPolicy
		want [2]int64
	}{
		{api.EgressPolicy{}, nil, [2]int64{0, 0}},
		{api.EgressPolicy{}, top, [2]int64{100, 1000}},
		{api.EgressPolicy{MaxConnections: 5, MaxBytes: 6}, top, [2]int64{5, 6}},
		{api.EgressPolicy{MaxConnections: 500, MaxBytes: 6000}, top, [2]int64{100, 1000}},
		{api.EgressPolicy{}, high, [2]int64{0, 0}}, // the default is lower
		{api.EgressPolicy{MaxConnections: 2000}, high, [2]int64{1000, 0}},
		{api.EgressPolicy{MaxBytes: 1}, &api.EgressPolicy{}, [2]int64{0, 1}},
	} {
		got := outgoing.Limited(c.p, c.top)
		if have := [2]int64{int64(got.MaxConnections), got.MaxBytes}; have != c.want {
			t.Errorf("%+v below %+v: %v, want %v", c.p, c.top, have, c.want)
		}
	}
}
