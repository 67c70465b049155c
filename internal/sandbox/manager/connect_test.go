package manager_test

import (
	"context"
	"hortus.dev/internal/sandbox/manager"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
)

func TestConnect(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	for _, c := range []struct{ ttl, least, most time.Duration }{
		{time.Minute, 50 * time.Minute, time.Hour}, {0, 50 * time.Minute, time.Hour}, {3 * time.Hour, 2 * time.Hour, 3 * time.Hour},
	} {
		row, resumed, err := w.Sandboxes.Connect(t.Context(), s.ID, c.ttl)
		if left := manager.Left(w.Manager, s.ID); err != nil || resumed || row.State != api.SandboxRunning || left < c.least || left > c.most {
			t.Errorf("for %s: %+v, %v, %v, %s left", c.ttl, row, resumed, err, left)
		}
	}
	// Paused, it lives as long as it was given now.
	if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	row, resumed, err := w.Sandboxes.Connect(t.Context(), s.ID, 10*time.Minute)
	if left := manager.Left(w.Manager, s.ID); err != nil || !resumed || row.State != api.SandboxRunning || left > 10*time.Minute {
		t.Errorf("%+v, %v, %v, %s left", row, resumed, err, left)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Sandboxes.Connect(t.Context(), s.ID, 0); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("to one that has ended: %v", err)
	}
	if _, _, err := w.Sandboxes.Connect(t.Context(), "i0000000000000000000", 0); api.KindOf(err) != api.KindNotFound {
		t.Errorf("to one that never was: %v", err)
	}
}

// TestConnectAtOnce: many connect to a sandbox while it is being paused. All of them
// wait for that, and one of them resumes it.
func TestConnectAtOnce(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	const n = 8
	type result struct {
		resumed bool
		err     error
	}
	results := make(chan result, n)
	var begun sync.Once
	w.b.during = func() {
		begun.Do(func() {
			for range n {
				go func() {
					row, resumed, err := w.Sandboxes.Connect(context.Background(), s.ID, time.Hour)
					if err == nil && row.State != api.SandboxRunning {
						err = api.Errorf(api.KindInternal, "it is %s", row.State)
					}
					results <- result{resumed, err}
				}()
			}
		})
	}
	if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	resumed := 0
	for range n {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		if r.resumed {
			resumed++
		}
	}
	if resumed != 1 {
		t.Errorf("resumed %d times", resumed)
	}
	if out, _, err := w.run(t, s.ID, "echo here", nil); err != nil || out != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestKillWhileResumed: a kill waits for who resumes the sandbox, and ends it.
func TestKillWhileResumed(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	killed := make(chan error, 1)
	begun := make(chan struct{})
	w.b.refuse = func(int) error {
		go func() {
			close(begun)
			_, _, err := w.Sandboxes.Kill(context.Background(), s.ID)
			killed <- err
		}()
		<-begun
		return nil
	}
	if _, _, err := w.Sandboxes.Connect(t.Context(), s.ID, 0); err != nil {
		t.Errorf("connect: %v", err)
	}
	if err := <-killed; err != nil {
		t.Errorf("kill: %v", err)
	}
	if row, err := w.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxEnded || w.Alive() != 0 {
		t.Errorf("%+v, %v", row, err)
	}
}

// looking lets something happen just before or just after a sandbox's row is read.
type looking struct {
	allRows
	before, after func()
}

func (r *looking) Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	row, err := r.allRows.Sandbox(ctx, id)
	if f := r.after; f != nil {
		r.after = nil
		f()
	}
	return row, err
}

// TestResumedWhileLookedFor: who looks for a sandbox that is resumed from disk at that
// very moment finds it, and is not told that another daemon has it.
func TestResumedWhileLookedFor(t *testing.T) {
	kill := func(w *savingWorld, s api.Sandbox) error {
		_, _, err := w.Sandboxes.Kill(t.Context(), s.ID)
		if row, gerr := w.Sandboxes.Get(t.Context(), s.ID); err == nil && (gerr != nil || row.State != api.SandboxEnded || w.Alive() != 0) {
			return api.Errorf(api.KindInternal, "%s, %d alive, %v", row.State, w.Alive(), gerr)
		}
		return err
	}
	for _, c := range []struct {
		name  string
		after bool // of the first look at its row
		act   func(w *savingWorld, s api.Sandbox) error
	}{
		{"kill, resumed before", false, kill},
		{"kill, resumed after", true, kill},
		{"exec", false, func(w *savingWorld, s api.Sandbox) error {
			_, _, err := w.run(t, s.ID, "true", nil)
			return err
		}},
		{"ttl", false, func(w *savingWorld, s api.Sandbox) error {
			row, err := w.Sandboxes.SetTTL(t.Context(), s.ID, time.Hour)
			if err == nil && row.ID != s.ID {
				return api.Errorf(api.KindInternal, "a row of %q", row.ID)
			}
			return err
		}},
		{"stats", false, func(w *savingWorld, s api.Sandbox) error {
			st, err := w.Sandboxes.Stats(t.Context(), s.ID)
			if err == nil && st.At.IsZero() {
				return api.Errorf(api.KindInternal, "nothing is known of it")
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			look := &looking{}
			w := openSaving(t, t.TempDir(), savingOptions{rows: func(r allRows) allRows {
				look.allRows = r
				return look
			}})
			s := w.create(t, api.CreateSandbox{})
			if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			resume := func() {
				if _, _, err := w.Sandboxes.Connect(t.Context(), s.ID, 0); err != nil {
					t.Errorf("connect: %v", err)
				}
			}
			if c.after {
				look.after = resume
			} else {
				look.before = resume
			}
			if err := c.act(w, s); err != nil {
				t.Error(err)
			}
		})
	}
}
