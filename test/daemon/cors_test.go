package daemon

import (
	"net/http"
	"strings"
	"testing"

	"hortus.dev/internal/daemon"
	"hortus.dev/internal/server/front"
	"hortus.dev/test/world"
)

// TestNoOriginReadsAnything asks every route for pages of other origins: without serve.origins none may read an answer of any
// door, also with a key; with it, only pages of the listed origin may, and never with cookies.
func TestNoOriginReadsAnything(t *testing.T) {
	t.Parallel()
	const app = "https://app.example.org"
	for name, origins := range map[string][]string{"off": nil, "on": {app}} {
		t.Run(name, func(t *testing.T) {
			w := newTownOf(t, daemon.Config{Front: front.Config{Origins: origins}})
			row := tokens(w.World)
			guest := "49983-" + string(w.alices.sandbox) + ".x"
			type door struct{ method, path, host, token string }
			doors := []door{
				{"GET", "/v2/sandboxes", "", ""}, {"POST", "/sandboxes", "", ""}, {"POST", "/mcp", "", ""}, {"GET", "/healthz", "", ""}, {"GET", "/metrics", "", ""}, {"GET", "/none", "", ""},
				{"GET", "/health", guest, row.Envd(string(w.alices.sandbox))}, {"POST", "/process.Process/List", guest, row.Envd(string(w.alices.sandbox))},
				{"GET", "/files?path=a&signature=v1_x", "", ""}, {"POST", "/execute", "49999-" + string(w.alices.sandbox) + ".x", ""},
			}
			for rt := range routes() {
				path, _ := w.pathOf(rt.Pattern, string(w.alices.sandbox))
				method := rt.Method
				if method == "" {
					method = "GET"
				}
				if rt.Name != "stop" { // it would end what the others ask
					doors = append(doors, door{method, path, "", ""})
				}
			}
			read := func(d door, method, origin string) http.Header {
				t.Helper()
				req := world.Must(http.NewRequestWithContext(t.Context(), method, w.URL+d.path, strings.NewReader("{}")))(t)
				if d.host != "" {
					req.Host = d.host
				}
				for k, v := range map[string]string{"Origin": origin, "Sec-Fetch-Site": "cross-site", "X-Api-Key": w.alice.Secret, "X-Access-Token": d.token} {
					if v != "" {
						req.Header.Set(k, v)
					}
				}
				if method == http.MethodOptions {
					req.Header.Del("X-Api-Key")
					req.Header.Del("X-Access-Token")
					req.Header.Set("Access-Control-Request-Method", d.method)
					req.Header.Set("Access-Control-Request-Headers", "x-api-key,x-access-token")
				}
				resp := world.Must(http.DefaultTransport.RoundTrip(req))(t)
				resp.Body.Close()
				return resp.Header
			}
			for _, d := range doors {
				for _, origin := range []string{"https://evil.example", "null", "http://localhost", app + ".evil.example", app} {
					for _, method := range []string{http.MethodOptions, d.method} {
						if name == "on" && origin == app && method != http.MethodOptions {
							continue // it is carried out
						}
						want := ""
						if name == "on" && origin == app {
							want = app
						}
						h := read(d, method, origin)
						if got := h.Get("Access-Control-Allow-Origin"); got != want || h.Get("Access-Control-Allow-Credentials") != "" {
							t.Errorf("%s %s%s for %s: Access-Control-Allow-Origin %q, want %q", method, d.host, d.path, origin, got, want)
						}
					}
				}
			}
			// A port is its program's, which answers preflights itself.
			port := door{"GET", "/", "3000-" + string(w.alices.sandbox) + ".x", ""}
			if h := read(port, http.MethodOptions, app); h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("the port of a program: %v", h)
			}
			if name == "on" {
				for _, d := range doors[:10] {
					if got := read(d, d.method, app).Get("Access-Control-Allow-Origin"); got != app {
						t.Errorf("%s %s%s for a listed page: Access-Control-Allow-Origin %q", d.method, d.host, d.path, got)
					}
				}
			}
		})
	}
}
