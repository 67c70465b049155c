package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/server/openid"
	"hortus.dev/test/openidserver"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// team is what the script of a team is told.
type team struct {
	URL string `json:"url"`
	// Provider is where people sign in, and Person takes the claims of the next one.
	Provider string `json:"provider"`
	Person   string `json:"person"`
	Evil     string `json:"evil"`
	Modules  string `json:"modules"`
	Chromium string `json:"chromium"`
	// Shots is a directory for pictures; empty for none.
	Shots string `json:"shots"`
}

// TestTeam has people of a team sign in with a provider of OpenID Connect, and goes through the pages of operators and users.
func TestTeam(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	w := world.Open(t, world.Config{Config: daemon.Config{Level: &slog.LevelVar{}}})
	const secret = "secret of the client"
	p := openidserver.New(t, openidserver.Config{ClientID: "hortus", Secret: secret, Redirect: w.URL + openid.CallbackPath})
	if _, err := w.Client.Secrets.Set(t.Context(), "oidc", secrets.Set{Value: secret}); err != nil {
		t.Fatal(err)
	}
	w.Config.Front.Listen, w.Config.Front.PublicURL = strings.TrimPrefix(w.URL, "http://"), w.URL
	w.Config.OpenID = daemon.OpenID{Issuer: p.URL, ClientID: "hortus", Secret: "oidc", Scopes: []string{"email"}, Domains: []string{"example.org"}, Claim: "groups", Rules: []string{"operators=default:admin", "developers=team"}}
	w.Restart()
	person := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var claims map[string]any
		if err := json.NewDecoder(r.Body).Decode(&claims); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		p.Claims(claims)
	}))
	defer person.Close()
	runScript(t, "team.mjs", team{URL: w.URL, Provider: p.URL, Person: person.URL, Evil: evil, Modules: modules, Chromium: chromium, Shots: os.Getenv("HORTUS_TEST_SHOTS")})
}
