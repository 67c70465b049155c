package front

import (
	"encoding/json"
	"net/http"

	"hortus.dev/api"
)

// Operations serves the paths for those who operate a daemon, and passes other requests to
// next:
//
//	GET /healthz  whether the daemon runs
//	GET /readyz   whether the daemon serves at full speed or, if not, what is missing
//	GET /metrics  its metrics, for admins only
//
// The first two need no API key: they show nothing that is not public.
func Operations(metrics http.Handler, missing func() []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		switch r.URL.Path {
		case "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		case "/readyz":
			writeReady(w, missing())
		case "/metrics":
			if api.PrincipalOf(r.Context()).Role == api.RoleAdmin {
				metrics.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r) // others get 404
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// writeReady answers a load balancer.
func writeReady(w http.ResponseWriter, missing []string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(missing) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(struct {
		Ready   bool     `json:"ready"`
		Missing []string `json:"missing,omitempty"`
	}{len(missing) == 0, missing})
}
