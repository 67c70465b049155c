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

// busyBackend is a fake of a service that refuses the first looks at a sandbox, and notes when each came.
type busyBackend struct {
	*farBackend
	remote  bool
	began   time.Time
	refuses map[api.SandboxID][]error // the last one is repeated
	asked   map[api.SandboxID][]time.Duration
}

func (b *busyBackend) Capabilities() sandbox.Capabilities {
	c := b.farBackend.Capabilities()
	c.Remote = b.remote
	return c
}

func (b *busyBackend) Adopt(ctx context.Context, id api.SandboxID) (sandbox.Adopted, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.asked[id])
	b.asked[id] = append(b.asked[id], time.Since(b.began))
	if all := b.refuses[id]; ctx.Err() != nil {
		return sandbox.Adopted{}, ctx.Err()
	} else if err := all[min(n, len(all)-1)]; err != nil {
		return sandbox.Adopted{}, err
	}
	return b.keptBackend.Adopt(ctx, id)
}

// TestAdoptBusy: a service that is busy or away for a moment ends no sandbox. One that says that the sandbox has ended is asked once.
func TestAdoptBusy(t *testing.T) {
	t.Parallel()
	refusal := func(kind api.Kind, text string, after time.Duration) error {
		e := api.Errorf(kind, "%s", text)
		e.RetryAfterMS = after.Milliseconds()
		return e
	}
	busy := refusal(api.KindExhausted, "429 Too Many Requests", 0)
	away := refusal(api.KindUnavailable, "503 Service Unavailable", 0)
	ms := time.Millisecond
	growing := []time.Duration{0, 250 * ms, 750 * ms, 1750 * ms, 3750 * ms, 7750 * ms, 12750 * ms, 17750 * ms, 22750 * ms, 27750 * ms, 32750 * ms, 37750 * ms, 42750 * ms}
	for _, c := range []struct {
		name    string
		near    bool // a backend of this host
		refuses []error
		asked   []time.Duration
		reason  string // why it is lost; "" if it continues
	}{
		{"busy", false, []error{busy, busy, away, nil}, growing[:4], ""},
		{"asks to wait", false, []error{refusal(api.KindExhausted, "slowly", 20*time.Second), nil}, []time.Duration{0, 20 * time.Second}, ""},
		{"asks to wait for too long", false, []error{refusal(api.KindExhausted, "slowly", time.Hour), nil}, []time.Duration{0, 40 * time.Second}, ""},
		{"away to the end", false, []error{away}, growing, "could not take it over: 13 tries in 45s failed, the last one: 503 Service Unavailable"},
		{"not there", false, []error{busy, refusal(api.KindNotFound, "no such sandbox", 0)}, growing[:2], "the sandbox ended before the next daemon started"},
		{"another guest", false, []error{refusal(api.KindConflict, "another guest answers", 0)}, growing[:1], "could not take it over: another guest answers"},
		{"engine busy", true, []error{away, away, nil}, growing[:3], ""},
		{"engine away", true, []error{away}, growing[:3], "could not take it over: 3 tries in 1s failed, the last one: 503 Service Unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far := &farBackend{keptBackend: &keptBackend{fake: newFake(), kept: map[api.SandboxID]bool{}}}
				b := &busyBackend{farBackend: far, remote: !c.near, refuses: map[api.SandboxID][]error{}, asked: map[api.SandboxID][]time.Duration{}}
				o := newOutside(t, func(cfg *manager.Config) { cfg.Backends = []sandbox.Backend{b} })
				id := o.create(t, api.CreateSandbox{Isolation: "fake", TTLMS: time.Hour.Milliseconds()}).ID
				b.refuses[id] = c.refuses
				if _, err := o.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.began = time.Now()
				s, err := o.next(t).Sandboxes.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(b.asked[id], c.asked) {
					t.Errorf("asked at %v, want %v", b.asked[id], c.asked)
				}
				if lost := c.reason != ""; lost != (s.State == api.SandboxLost) || lost != slices.Contains(b.removed, id) || !strings.Contains(s.Reason, c.reason) {
					t.Errorf("it is %s (%s), removed: %v", s.State, s.Reason, b.removed)
				}
			})
		})
	}
}
