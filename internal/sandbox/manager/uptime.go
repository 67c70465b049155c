package manager

import (
	"context"
	"hortus.dev/internal/sandbox"
	"time"

	"hortus.dev/api"
)

// stampedRows store the deadline of each sandbox by the host's uptime in addition to the wall
// clock: another daemon reads both, and the wall clock may have been set by then.
type stampedRows struct {
	sandbox.Rows
	now    func() time.Time
	uptime func() (time.Duration, string)
}

func (r stampedRows) stamp(s *api.Sandbox) {
	up, boot := r.uptime()
	if s.State.Final() || s.ExpiresAt.IsZero() || boot == "" {
		s.ExpiresBootMS, s.BootID = 0, ""
		return
	}
	s.ExpiresBootMS, s.BootID = (up + s.ExpiresAt.Sub(r.now())).Milliseconds(), boot
}

// InsertSandbox implements Rows.
func (r stampedRows) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	r.stamp(&s)
	return r.Rows.InsertSandbox(ctx, s)
}

// UpdateSandbox implements Rows.
func (r stampedRows) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	r.stamp(&s)
	return r.Rows.UpdateSandbox(ctx, s)
}

// left is how long a sandbox of another daemon has to live, whatever the wall clock
// was set to meanwhile.
func (c *core) left(s api.Sandbox) time.Duration {
	left := s.ExpiresAt.Sub(c.now())
	if c.cfg.Uptime != nil {
		if up, boot := c.cfg.Uptime(); boot != "" && s.BootID == boot {
			left = time.Duration(s.ExpiresBootMS)*time.Millisecond - up
		}
	}
	return min(left, api.MaxTTL)
}
