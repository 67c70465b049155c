package manager_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// wallClock is a clock that people set.
type wallClock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *wallClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// TestClockJumps sets the wall clock by hours, both ways: a sandbox has the time that
// it was given, and its row says when that ends by the clock as it is now.
func TestClockJumps(t *testing.T) {
	var clock wallClock
	w := openSaving(t, t.TempDir(), savingOptions{now: clock.now})
	s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	for _, jump := range []time.Duration{10 * time.Hour, -30 * time.Hour, 20 * time.Hour} {
		clock.jump(jump)
		manager.Look(w.Manager, s.ID)
		row, err := w.db.Sandbox(t.Context(), s.ID)
		if err != nil || row.State != api.SandboxRunning {
			t.Fatalf("after %s: %+v, %v", jump, row, err)
		}
		if left := row.ExpiresAt.Sub(clock.now()); left > time.Hour || left < 50*time.Minute {
			t.Errorf("after %s its row gives it %s", jump, left)
		}
		if left := manager.Left(w.Manager, s.ID); left > time.Hour || left < 50*time.Minute {
			t.Errorf("after %s it has %s", jump, left)
		}
	}
	// What it has left when it is paused is not what the clocks differ by.
	clock.jump(5 * time.Hour)
	if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	clock.jump(-7 * time.Hour)
	row, err := w.Sandboxes.Resume(t.Context(), s.ID)
	if left := manager.Left(w.Manager, s.ID); err != nil || row.State != api.SandboxRunning || left > time.Hour || left < 50*time.Minute {
		t.Fatalf("%+v, %s left, %v", row, left, err)
	}
	clock.jump(100 * time.Hour)
	if _, err := w.Sandboxes.SetTTL(t.Context(), s.ID, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	clock.jump(-200 * time.Hour)
	eventually(t, "its time passes whatever the clock says", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), s.ID)
		return err == nil && row.State == api.SandboxEnded && row.Reason == "expired"
	})
}

// jumper is a backend during whose starts the wall clock is set.
type jumper struct {
	sandbox.Backend
	jump func()
}

func (b jumper) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	b.jump()
	return b.Backend.Start(ctx, spec)
}

// TestClockJumpsInStart: one that starts has its time too, whether or not it waited for
// room before.
func TestClockJumpsInStart(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		w := newWorld(t)
		var clock wallClock
		g := gateOf(t, 1)
		m := manager.New(manager.Config{
			Owner: w.owner, Backends: []sandbox.Backend{jumper{w.backend, func() { clock.jump(jump) }}}, Templates: templates{}, Rows: w.db, Log: w.log,
			Admission: admit(g), Now: clock.now,
		})
		w.Manager = m
		t.Cleanup(func() {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		has := func(id api.SandboxID) {
			t.Helper()
			if left := manager.Left(m, id); left < api.DefaultTTL-2*time.Minute || left > api.DefaultTTL {
				t.Errorf("the clock jumps by %s in its start: it has %s of %s", jump, left, api.DefaultTTL)
			}
		}
		first := w.create(t, api.CreateSandbox{})
		has(first.ID)
		row, done := w.waiting(t, t.Context())
		if _, _, err := w.Sandboxes.Kill(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		has(row.ID)
	}
}

func TestExtend(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	row, err := w.Sandboxes.Extend(t.Context(), s.ID, time.Minute)
	if err != nil || manager.Left(w.Manager, s.ID) < 50*time.Minute || row.ExpiresAt.Before(s.ExpiresAt.Add(-time.Second)) {
		t.Errorf("extended to less: %s, %v", row.ExpiresAt, err)
	}
	if _, err = w.Sandboxes.Extend(t.Context(), s.ID, 5*time.Hour); err != nil || manager.Left(w.Manager, s.ID) < 4*time.Hour {
		t.Errorf("extended: %v", err)
	}
	for _, ttl := range []time.Duration{0, -1, api.MaxTTL + time.Millisecond} {
		if _, err := w.Sandboxes.Extend(t.Context(), s.ID, ttl); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", ttl, err)
		}
		if _, _, err := w.Sandboxes.Connect(t.Context(), s.ID, ttl); ttl != 0 && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", ttl, err)
		}
	}
	if _, err := w.Sandboxes.Extend(t.Context(), "i0000000000000000000", time.Hour); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}

// TestPauseAtDeadline: a sandbox that is to be paused at its deadline is, continues, and
// is paused again.
func TestPauseAtDeadline(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for _, on := range []api.Expiry{api.ExpiryPause, api.ExpiryPauseFiles} {
		t.Run(string(on), func(t *testing.T) {
			dir := t.TempDir()
			w := openSaving(t, dir, savingOptions{})
			s := w.create(t, api.CreateSandbox{TTLMS: 200, OnExpiry: on, AutoResume: true, PrivateTraffic: true, Account: "a"})
			if s.OnExpiry != on || !s.AutoResume || !s.PrivateTraffic || s.Account != "a" {
				t.Errorf("%+v", s)
			}
			paused := func(w *savingWorld) {
				t.Helper()
				eventually(t, "it is paused", func() bool {
					row, err := w.db.Sandbox(t.Context(), s.ID)
					return err == nil && row.State == api.SandboxPaused && w.Alive() == 0
				})
			}
			paused(w)
			// Nothing was left of its time: it has what a new one has.
			row, err := w.Sandboxes.Resume(t.Context(), s.ID)
			if left := manager.Left(w.Manager, s.ID); err != nil || row.OnExpiry != on || left < 4*time.Minute || left > api.DefaultTTL {
				t.Errorf("%+v, %s left, %v", row, left, err)
			}
			if _, err := w.Sandboxes.SetTTL(t.Context(), s.ID, 20*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			paused(w)
			w.stop(t)
			v := openSaving(t, dir, savingOptions{b: w.b})
			v.recover(t)
			row, resumed, err := v.Sandboxes.Connect(t.Context(), s.ID, time.Hour)
			if left := manager.Left(v.Manager, s.ID); err != nil || !resumed || row.State != api.SandboxRunning || left < 50*time.Minute {
				t.Errorf("in the next daemon: %+v, %v, %v, %s left", row, resumed, err, left)
			}
		})
	}
}

// TestPauseAtDeadlineFails: a sandbox that cannot be paused is not kept for ever. It is
// tried again, and then it is killed and says why.
func TestPauseAtDeadlineFails(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	w := openSaving(t, t.TempDir(), savingOptions{})
	var mu sync.Mutex
	tries, lasting := 0, false
	w.b.broken = func() error {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries > 1 && !lasting {
			return nil
		}
		kind := api.KindExhausted
		if lasting {
			kind = api.KindUnsupported
		}
		return api.Errorf(kind, "no room")
	}
	s := w.create(t, api.CreateSandbox{TTLMS: 50, OnExpiry: api.ExpiryPause})
	eventually(t, "it is paused by the second try", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), s.ID)
		return err == nil && row.State == api.SandboxPaused
	})
	mu.Lock()
	lasting = true
	mu.Unlock()
	s = w.create(t, api.CreateSandbox{TTLMS: 50, OnExpiry: api.ExpiryPause})
	eventually(t, "it is killed", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), s.ID)
		return err == nil && row.State == api.SandboxEnded && strings.Contains(row.Reason, "could not be paused to disk: no room")
	})
}

// TestExpiryRefused: what cannot happen at the deadline is refused when it is asked
// for.
func TestExpiryRefused(t *testing.T) {
	w := newWorld(t) // whose backend saves nothing
	v := openSaving(t, t.TempDir(), savingOptions{})
	for _, c := range []struct {
		m    *manager.Manager
		on   api.Expiry
		kind api.Kind
	}{
		{w.Manager, api.ExpiryPause, api.KindUnsupported}, {w.Manager, api.ExpiryPauseFiles, api.KindUnsupported},
		{w.Manager, "sleep", api.KindInvalid}, {v.Manager, "sleep", api.KindInvalid}, {v.Manager, api.ExpiryPause, ""}, {w.Manager, api.ExpiryKill, ""},
	} {
		_, err := c.m.Planner.Outline(t.Context(), api.CreateSandbox{Isolation: "process", OnExpiry: c.on})
		if api.KindOf(err) != c.kind {
			t.Errorf("%q: %v, want %q", c.on, err, c.kind)
		}
	}
	_, err := v.Creator.CreateIn(t.Context(), api.CreateSandbox{Isolation: "process", OnExpiry: api.ExpiryPause}, sandbox.Workspace{Layers: nil})
	if err == nil {
		t.Error("a workspace without layers")
	}
}

// TestPauseFiles: what was written stays, what ran is over and says so.
func TestPauseFiles(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	if _, _, err := w.run(t, s.ID, "echo kept > f", nil); err != nil {
		t.Fatal(err)
	}
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	row, err := w.Pauser.PauseFiles(t.Context(), s.ID)
	if err != nil || row.State != api.SandboxPaused {
		t.Fatalf("%+v, %v", row, err)
	}
	if x, err := w.db.Exec(t.Context(), st.Exec().ID); err != nil || x.State != api.ExecUnknown || x.Exit.Cause != api.CauseKilled {
		t.Errorf("its command: %+v, %v", x, err)
	}
	if snap, err := w.Saver.GetSnapshot(t.Context(), row.Snapshot); err != nil || snap.Kind != api.SnapshotFiles || !snap.Paused {
		t.Errorf("%+v, %v", snap, err)
	}
	if _, err := w.Sandboxes.Resume(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if out, _, err := w.run(t, s.ID, "cat f", nil); err != nil || out != "kept\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestRing: the last of what was noted is kept, in order.
func TestRing(t *testing.T) {
	var r manager.Ring
	from := time.Unix(1000, 0)
	for n := range 2*manager.MaxSamples + 100 {
		r.Add(api.Stats{At: from.Add(time.Duration(n) * time.Second)})
		got := r.List()
		if len(got) != min(n+1, manager.MaxSamples) {
			t.Fatalf("%d of %d", len(got), n+1)
		}
		for i, s := range got {
			if want := from.Add(time.Duration(n+1-len(got)+i) * time.Second); !s.At.Equal(want) {
				t.Fatalf("after %d the one at %d is of %s, not %s", n+1, i, s.At, want)
			}
		}
	}
}

// TestSamples: what a sandbox uses is noted while it lives.
func TestSamples(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	manager.Look(w.Manager, s.ID)
	got, err := w.Sandboxes.Samples(t.Context(), s.ID)
	if err != nil || len(got) == 0 || got[0].At.Before(s.CreatedAt) || got[0].Processes < 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Sandboxes.Samples(t.Context(), s.ID); err != nil || len(got) != 0 {
		t.Errorf("of one that has ended: %d, %v", len(got), err)
	}
	if _, err := w.Sandboxes.Samples(t.Context(), "i0000000000000000000"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}

// deadlineLink is a guest that notes the lifetimes that it receives, and knows nothing else.
type deadlineLink struct {
	noLink
	told chan time.Duration
}

func (l deadlineLink) Open(context.Context) (net.Conn, error) {
	host, guest := net.Pipe()
	go func() {
		defer guest.Close()
		req, err := http.ReadRequest(bufio.NewReader(guest))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		if ms, err := strconv.ParseInt(string(body), 10, 64); err == nil && req.Method == http.MethodPut && req.URL.Path == envd.PathLifetime {
			l.told <- time.Duration(ms) * time.Millisecond
		}
		io.WriteString(guest, "HTTP/1.1 204 No Content\r\n\r\n")
	}()
	return host, nil
}

// TestGuestKnowsItsDeadline: a guest can end by itself, somewhat later than its daemon would end it, and never if it is to be
// paused at its deadline.
func TestGuestKnowsItsDeadline(t *testing.T) {
	o := newOrders(t)
	l := deadlineLink{told: make(chan time.Duration, 16)}
	o.backend.link = l
	defer o.Close(t.Context())
	next := func() time.Duration {
		t.Helper()
		select {
		case d := <-l.told:
			return d
		case <-time.After(patience.Of(time.Minute)):
			t.Fatal("the guest is not told")
			return 0
		}
	}
	s, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", TTLMS: time.Hour.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	if d := next(); d < 50*time.Minute || d > time.Hour+time.Minute {
		t.Errorf("the guest ends after %s", d)
	}
	if _, err := o.Sandboxes.SetTTL(t.Context(), s.ID, 5*time.Hour); err != nil {
		t.Fatal(err)
	}
	if d := next(); d <= 5*time.Hour || d > 5*time.Hour+time.Minute {
		t.Errorf("with a later deadline the guest ends after %s", d)
	}
	if _, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", TTLMS: time.Hour.Milliseconds(), OnExpiry: api.ExpiryPause}); err != nil {
		t.Fatal(err)
	}
	if d := next(); d != 0 {
		t.Errorf("a guest that is paused at its deadline ends after %s", d)
	}
}
