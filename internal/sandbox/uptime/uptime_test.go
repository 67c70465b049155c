package uptime

import (
	"context"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

type rows struct {
	sandbox.Rows
	last api.Sandbox
}

func (r *rows) InsertSandbox(_ context.Context, s api.Sandbox) error { r.last = s; return nil }
func (r *rows) UpdateSandbox(_ context.Context, s api.Sandbox) error { r.last = s; return nil }

// TestLeft: within one boot the wall clock does not count, in another one nothing else does.
func TestLeft(t *testing.T) {
	now, up, boot := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Hour, "one"
	c := Clock{Now: func() time.Time { return now }, Uptime: func() (time.Duration, string) { return up, boot }}
	store := &rows{}
	r := Rows{Rows: store, Clock: c}
	for name, write := range map[string]func(context.Context, api.Sandbox) error{"insert": r.InsertSandbox, "update": r.UpdateSandbox} {
		now, up, boot = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Hour, "one"
		if err := write(t.Context(), api.Sandbox{State: api.SandboxRunning, ExpiresAt: now.Add(10 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
		row := store.last
		up += 3 * time.Minute
		now = now.Add(-24 * time.Hour) // somebody set it
		if left := c.Left(row); left != 7*time.Minute {
			t.Errorf("%s: in the same boot %v are left", name, left)
		}
		boot, up = "two", time.Second
		if left := c.Left(row); left != min(24*time.Hour+10*time.Minute, api.MaxTTL) {
			t.Errorf("%s: in another boot %v are left", name, left)
		}
		if left := (Clock{Now: c.Now}).Left(row); left != min(24*time.Hour+10*time.Minute, api.MaxTTL) {
			t.Errorf("%s: without an uptime %v are left", name, left)
		}
		if err := write(t.Context(), api.Sandbox{State: api.SandboxEnded, ExpiresAt: now, BootID: "one", ExpiresBootMS: 1}); err != nil || store.last.BootID != "" || store.last.ExpiresBootMS != 0 {
			t.Errorf("%s: one that has ended: %+v, %v", name, store.last, err)
		}
	}
}
