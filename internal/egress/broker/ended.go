package broker

import (
	"strings"
	"time"

	"hortus.dev/api"
)

// maxEnded is the maximum number of ended grants of a session.
const maxEnded = 4 * api.MaxSecretGrants

// endedGrant is a grant that no request can use any more.
type endedGrant struct{ name, why string }

// over returns why a grant cannot be used at a time, or "".
func (g *grant) over(now time.Time) string {
	if g.endsAt.IsZero() || now.Before(g.endsAt) {
		return ""
	}
	return "the grant of the secret ended at " + g.endsAt.UTC().Format(time.RFC3339)
}

// owned returns the name of the secret that a placeholder is of, in any case, and why it cannot be
// used if its grant has ended. ok is false for one that is none of the sandbox.
func (st *state) owned(placeholder string) (name, why string, ok bool) {
	placeholder = strings.ToLower(placeholder)
	if g := st.grants[placeholder]; g != nil {
		return g.name, "", true
	}
	e, ok := st.ended[placeholder]
	return e.name, e.why, ok
}

// over ends a WebSocket whose grant has ended. It returns the refusal, or nil.
func (s *socket) over() error {
	if s.f.grant == nil {
		return nil
	}
	why := s.f.grant.over(s.f.s.broker.cfg.Now())
	if why == "" {
		return nil
	}
	s.ending.Do(func() {
		s.end = s.f.refuse(s.f.grant.placeholder, why)
		s.Close()
	})
	return s.end
}
