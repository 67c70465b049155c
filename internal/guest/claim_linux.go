package guest

import (
	"net/http"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// claim lets the requests go on that waited for it. A guest that was started
// ahead gets its environment here; no request but the host's own warm-ups, which
// have ended by then, has seen another.
func (s *Server) claim(c *birth.Claim) {
	if c != nil {
		s.cfg.Env = c.Env
		for _, id := range s.ids {
			id.setEnv(c.Env)
		}
	}
	close(s.claimed)
}

// awaitClaim holds a request back until the guest knows whom it is for. It is
// false when the guest ends before. Guests that are not started ahead hold
// nothing back: they know already.
func (s *Server) awaitClaim(done <-chan struct{}, c *conn, req *http.Request) bool {
	if !s.cfg.Waits || req.Header.Get(envd.HeaderWarmUp) != "" {
		return true
	}
	select {
	case <-s.claimed:
		return true
	case <-done:
		return false
	case <-c.ended:
		return false
	}
}
