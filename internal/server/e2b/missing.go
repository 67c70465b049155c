package e2b

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/server/body"
)

// missingSecrets is missing only if the daemon has no secrets.
const missingSecrets = "secrets"

// missing are the parts of the wire that Hortus does not have, by their paths.
var missing = []struct {
	what  string
	paths []string
}{
	{"builds, tags and changes of templates", []string{
		"/templates/", "DELETE /templates/tags", "POST /templates", "/v2/templates/", "POST /v2/templates", "/v3/templates", "/v3/templates/"}},
	{"volumes", []string{"/volumes", "/volumes/", "/volumecontent/"}},
	{missingSecrets, []string{"/secrets", "/secrets/"}},
	{"teams", []string{"/teams", "/teams/"}},
	{"API keys and access tokens", []string{"/api-keys", "/api-keys/", "/access-tokens", "/access-tokens/"}},
	{"nodes", []string{"/nodes", "/nodes/", "/admin/"}},
}

// missingRoutes answers what a client asks of those, so that it knows what is missing
// and not only that something is.
func missingRoutes(mux *http.ServeMux, secrets bool) {
	for _, m := range missing {
		if m.what == missingSecrets && secrets {
			continue
		}
		e := wireError{
			Code: http.StatusBadRequest, Word: string(api.KindUnsupported),
			Message: "Hortus does not support " + m.what + " of the E2B API",
		}
		h := func(w http.ResponseWriter, r *http.Request) {
			e := e
			e.Message += fmt.Sprintf(": %s %.100q", r.Method, r.URL.Path)
			body.Answer(w, e.Code, e)
		}
		for _, path := range m.paths {
			mux.HandleFunc(path, h)
			// The mux would answer what lacks the last slash with a redirect.
			if short, ok := strings.CutSuffix(path, "/"); ok && !slices.Contains(m.paths, short) {
				mux.HandleFunc(short, h)
			}
		}
	}
}
