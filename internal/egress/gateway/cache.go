package gateway

import (
	"net/http"

	"hortus.dev/internal/egress/web"
)

// cache returns the cache of the sandbox's account, or nil if there is none.
//
// An answer is shared by requests of one account for servers that both may, or both may not, have
// a private address, because no address is checked when the cache answers. Under a policy that
// also decides by the address of a name, nothing is shared.
func (s *Session) cache() func(*http.Request, web.Grant, http.RoundTripper) (*http.Response, error) {
	if s.cfg.Cache == nil {
		return nil
	}
	public := "operator"
	if s.peer.Account != "" {
		public = "account " + s.peer.Account
	}
	private := "private, " + public
	return func(r *http.Request, g web.Grant, next http.RoundTripper) (*http.Response, error) {
		zone := public
		switch {
		case s.policy.Load().ByAddress():
			zone = ""
		case g.Private:
			zone = private
		}
		return s.cfg.Cache.RoundTrip(r, zone, next)
	}
}
