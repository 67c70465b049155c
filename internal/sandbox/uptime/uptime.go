package uptime

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Clock is the wall clock and the uptime of the host.
type Clock struct {
	Now func() time.Time
	// Uptime returns how long the host has been up, and which boot it is; "" if it is not known.
	// It may be nil.
	Uptime func() (time.Duration, string)
}

// Left is how long a sandbox of another daemon has to live, whatever the wall clock was set to
// meanwhile.
func (c Clock) Left(s api.Sandbox) time.Duration {
	left := s.ExpiresAt.Sub(c.Now())
	if c.Uptime != nil {
		if up, boot := c.Uptime(); boot != "" && s.BootID == boot {
			left = time.Duration(s.ExpiresBootMS)*time.Millisecond - up
		}
	}
	return min(left, api.MaxTTL)
}

// Rows store the deadline of each sandbox by the host's uptime in addition to the wall clock:
// another daemon reads both. Its Clock has an Uptime.
type Rows struct {
	sandbox.Rows
	Clock Clock
}

func (r Rows) stamp(s *api.Sandbox) {
	up, boot := r.Clock.Uptime()
	if s.State.Final() || s.ExpiresAt.IsZero() || boot == "" {
		s.ExpiresBootMS, s.BootID = 0, ""
		return
	}
	s.ExpiresBootMS, s.BootID = (up + s.ExpiresAt.Sub(r.Clock.Now())).Milliseconds(), boot
}

// InsertSandbox implements sandbox.Rows.
func (r Rows) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	r.stamp(&s)
	return r.Rows.InsertSandbox(ctx, s)
}

// UpdateSandbox implements sandbox.Rows.
func (r Rows) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	r.stamp(&s)
	return r.Rows.UpdateSandbox(ctx, s)
}
