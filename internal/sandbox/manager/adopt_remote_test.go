package manager_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
)

// farBackend is a fake of a service. Its guests answer after their time, and those that are not in answers never do.
type farBackend struct {
	*keptBackend
	answers map[api.SandboxID]time.Duration
	removal time.Duration // of one sandbox
	others  []api.SandboxID

	mu      sync.Mutex
	removed []api.SandboxID
}

func (b *farBackend) Capabilities() sandbox.Capabilities {
	c := b.keptBackend.Capabilities()
	c.Remote = true
	return c
}

func (b *farBackend) Adopt(ctx context.Context, id api.SandboxID) (sandbox.Adopted, error) {
	after, ok := b.answers[id]
	if !ok {
		after = 24 * time.Hour
	}
	select {
	case <-time.After(after):
		return b.keptBackend.Adopt(ctx, id)
	case <-ctx.Done():
		return sandbox.Adopted{}, api.Errorf(api.KindConflict, "the guest is not connected")
	}
}

func (b *farBackend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	select {
	case <-time.After(b.removal):
	case <-ctx.Done():
		return api.Proof{}, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = append(b.removed, id)
	return api.Proof{}, nil
}

func (b *farBackend) Orphans(context.Context) ([]api.SandboxID, error) { return b.others, nil }

// TestAdoptRemoteIsBounded: a daemon waits for all sandboxes of services together, no longer than a supervisor waits for its start. It
// says for which, those that answer late continue, and those that do not are lost and say why.
func TestAdoptRemoteIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &farBackend{keptBackend: &keptBackend{fake: newFake(), kept: map[api.SandboxID]bool{}}, answers: map[api.SandboxID]time.Duration{}, removal: 3 * time.Second}
		var log bytes.Buffer
		o := newOutside(t, func(cfg *manager.Config) {
			cfg.Backends, cfg.Logger = []sandbox.Backend{far}, slog.New(slog.NewTextHandler(&log, nil))
		})
		var ids []api.SandboxID
		for range 30 {
			ids = append(ids, o.create(t, api.CreateSandbox{Isolation: "fake", TTLMS: time.Hour.Milliseconds()}).ID)
		}
		far.answers[ids[3]], far.answers[ids[29]] = time.Second, 40*time.Second
		for range 40 {
			far.others = append(far.others, api.NewSandboxID())
		}
		if _, err := o.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		n := o.next(t)
		if took := time.Since(began); took > 60*time.Second {
			t.Errorf("the daemon serves after %s", took)
		}
		for i, id := range ids {
			s, err := n.Sandboxes.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			removed := slices.Contains(far.removed, id)
			if i == 3 || i == 29 {
				if s.State != api.SandboxRunning || removed {
					t.Errorf("one that answers in time is %s (%s), removed %v", s.State, s.Reason, removed)
				}
			} else if s.State != api.SandboxLost || !removed || !strings.Contains(s.Reason, "could not take it over: the guest is not connected") {
				t.Errorf("one that does not answer is %s (%s), removed %v", s.State, s.Reason, removed)
			}
		}
		if got := len(far.removed); got != 28+40 {
			t.Errorf("%d are removed", got)
		}
		for _, want := range []string{"taking over the sandboxes that services run", "waiting for sandboxes", "count=29", fmt.Sprint("sandbox=", ids[0])} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log.String())
			}
		}
	})
}

// TestAdoptRemoteUnremoved: a service that removes nothing does not keep a daemon from its start. What may still run is not lost.
func TestAdoptRemoteUnremoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &farBackend{keptBackend: &keptBackend{fake: newFake(), kept: map[api.SandboxID]bool{}}, removal: 24 * time.Hour, others: []api.SandboxID{api.NewSandboxID()}}
		o := newOutside(t, func(cfg *manager.Config) { cfg.Backends = []sandbox.Backend{far} })
		id := o.create(t, api.CreateSandbox{Isolation: "fake", TTLMS: time.Hour.Milliseconds()}).ID
		if _, err := o.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		cfg := o.cfg
		cfg.Owner = api.NewOwnerID()
		n := manager.New(cfg)
		defer n.Close(context.Background())
		began := time.Now()
		did, err := n.Recoverer.Recover(t.Context(), func(owner api.OwnerID) bool { return owner == o.cfg.Owner })
		if took := time.Since(began); took > 71*time.Second {
			t.Errorf("the daemon serves after %s", took)
		}
		if err == nil || did.Lost != 0 {
			t.Errorf("recovered %+v, %v", did, err)
		}
		if s, err := n.Sandboxes.Get(t.Context(), id); err != nil || s.State.Final() {
			t.Errorf("it is %s (%s), %v", s.State, s.Reason, err)
		}
	})
}
