package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

// TestStandstill: nothing runs during a standstill, and nobody's pause or resume falls into it.
func TestStandstill(t *testing.T) {
	o := newOrders(t)
	defer o.Close(context.Background())
	var mu sync.Mutex
	var did []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		did = append(did, what)
	}
	o.backend.slow = note
	sandbox, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	row := func() api.SandboxState {
		s, err := o.Sandboxes.Get(t.Context(), sandbox.ID)
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	}
	inside, over := 0, make(chan struct{}, 3)
	still := func(ctx context.Context) error {
		return o.Saver.Standstill(ctx, sandbox.ID, func(context.Context) error {
			mu.Lock()
			inside++
			first := inside == 1
			mu.Unlock()
			if first {
				for _, order := range []func(context.Context, api.SandboxID) (api.Sandbox, error){o.Sandboxes.Resume, o.Sandboxes.Pause, o.Sandboxes.Resume} {
					given, cancel := context.WithCancel(t.Context())
					cancel()
					if _, err := order(given, sandbox.ID); !errors.Is(err, context.Canceled) {
						t.Errorf("an order during a standstill does not wait: %v", err)
					}
				}
			}
			note("copy")
			return nil
		})
	}
	did = nil
	for range 3 {
		go func() {
			if err := still(t.Context()); err != nil {
				t.Error(err)
			}
			over <- struct{}{}
		}()
	}
	for range 3 {
		<-over
	}
	if want := slices.Repeat([]string{"pause", "copy", "resume"}, 3); !slices.Equal(did, want) || row() != api.SandboxRunning {
		t.Errorf("%q, %s", did, row())
	}

	// It continues after an error, and after the end of the caller.
	mistake := errors.New("no copy")
	ctx, cancel := context.WithCancel(t.Context())
	did = nil
	err = o.Saver.Standstill(ctx, sandbox.ID, func(context.Context) error { cancel(); return mistake })
	if !errors.Is(err, mistake) || !slices.Equal(did, []string{"pause", "resume"}) || row() != api.SandboxRunning {
		t.Errorf("%v, %q, %s", err, did, row())
	}

	// One that a person paused stays paused.
	if _, err := o.Sandboxes.Pause(t.Context(), sandbox.ID); err != nil {
		t.Fatal(err)
	}
	if err := still(t.Context()); api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "resume") || row() != api.SandboxPaused {
		t.Errorf("%v, %s", err, row())
	}
	if _, err := o.Sandboxes.Resume(t.Context(), sandbox.ID); err != nil {
		t.Fatal(err)
	}

	// What cannot be paused runs on, and is not copied.
	o.backend.fails = func(string) error { return api.Errorf(api.KindUnsupported, "no") }
	before := inside
	if err := still(t.Context()); api.KindOf(err) != api.KindUnsupported || inside != before || row() != api.SandboxRunning {
		t.Errorf("%v, %d copies, %s", err, inside-before, row())
	}

	// One that does not continue is paused, which can be tried again.
	o.backend.fails = func(what string) error {
		if what == "resume" {
			return errors.New("it is stuck")
		}
		return nil
	}
	if err := still(t.Context()); err == nil || !strings.Contains(err.Error(), "it is stuck") || api.HintOf(err) == "" || row() != api.SandboxPaused {
		t.Errorf("%v, %s", err, row())
	}
	o.backend.fails = nil
	if _, err := o.Sandboxes.Resume(t.Context(), sandbox.ID); err != nil || row() != api.SandboxRunning {
		t.Errorf("%v, %s", err, row())
	}

	// A kill waits for nothing, and says that the copy is not of one instant.
	err = o.Saver.Standstill(t.Context(), sandbox.ID, func(ctx context.Context) error { _, _, err := o.Sandboxes.Kill(ctx, sandbox.ID); return err })
	if api.KindOf(err) != api.KindUnavailable || o.Alive() != 0 {
		t.Errorf("%v, %d alive", err, o.Alive())
	}
	if err := still(t.Context()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("one that has ended: %v", err)
	}
	if life.Next(life.Paused, life.SaveDone).Answer != life.Refuse {
		t.Error("the end of a standstill wakes a paused sandbox")
	}
}
