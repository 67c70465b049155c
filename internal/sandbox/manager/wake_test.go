package manager_test

import (
	"context"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestWakeWithinCeiling: a request that wakes a sandbox gives it no more time than the key of
// its creation may ask for.
func TestWakeWithinCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		ceiling time.Duration
		want    time.Duration
	}{
		"no ceiling":         {0, api.DefaultTTL}, // the control
		"a ceiling below it": {time.Minute, time.Minute},
		"a ceiling above it": {time.Hour, api.DefaultTTL},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrders(t)
			defer o.Close(context.Background())
			s, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", TTLMS: 1000 * 30, MaxTTLMS: c.ceiling.Milliseconds()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			if err := o.Sandboxes.Wake(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			after := time.Now()
			s, err = o.Sandboxes.Get(t.Context(), s.ID)
			if err != nil || s.State != api.SandboxRunning {
				t.Fatalf("%+v, %v", s, err)
			}
			// The row's time is rounded to microseconds.
			if low, high := before.Add(c.want-time.Millisecond), after.Add(c.want+time.Millisecond); s.ExpiresAt.Before(low) || s.ExpiresAt.After(high) {
				t.Errorf("it lives until %s, want %s to %s", s.ExpiresAt, low, high)
			}
		})
	}
}
