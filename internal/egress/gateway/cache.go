package gateway

import (
	"net/http"

	"hortus.dev/internal/egress/web"
)

// cache returns the cache of the sandbox's account, or nil if there is none.
func (s *Session) cache() func(*http.Request, web.Grant, http.RoundTripper) (*http.Response, error) {
	if s.cfg.Cache == nil {
		return nil
	}
	return func(r *http.Request, g web.Grant, next http.RoundTripper) (*http.Response, error) {
		return s.cfg.Cache.RoundTrip(r, s.zone(g), next)
	}
}

// zone is what an answer may be shared in: the account, and whether the server may have a private
// address, because no address is checked when the cache answers. It is empty, so that nothing is
// shared, under a policy that also decides by the address of a name.
func (s *Session) zone(g web.Grant) string {
	if s.policy.Load().ByAddress() {
		return ""
	}
	zone := "operator"
	if s.peer.Account != "" {
		zone = "account " + s.peer.Account
	}
	if g.Private {
		return "private, " + zone
	}
	return zone
}
