package delivery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/secrettest"
)

// TestTokenInSecret delivers to forges whose token is a secret of the operator, which is read at
// each use.
func TestTokenInSecret(t *testing.T) {
	const first, second = "canary-token-1", "canary-token-2"
	all, _ := secrettest.Open(t, t.TempDir(), secret.Config{})
	set := func(value string) {
		t.Helper()
		if _, err := all.Set(t.Context(), "", "forge-token", secrets.Set{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range config.ForgeKinds() {
		forges, err := forgeserver.New(forgeserver.Config{
			Kind: kind, Users: map[string]forgeserver.User{first: {Login: "ada", Write: true}, second: {Login: "ada", Write: true}},
			Repositories: []*forgeserver.Repository{{Path: "o/r", Branch: func(string) (string, bool) { return strings.Repeat("a", 40), true }}},
		})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(forges)
		t.Cleanup(srv.Close)
		host := strings.TrimPrefix(srv.URL, "http://")
		d, err := New(Config{
			Getenv: func(string) string { return "" }, Key: all.KeyFor, Transport: http.DefaultTransport,
			Forges: []config.Forge{{Host: host, Kind: kind, URL: srv.URL, TokenSecret: "forge-token"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		remote := srv.URL + "/o/r.git"
		proposal := repo.Proposal{Remote: remote, Branch: "hortus/t1", MergeRequest: true}
		refused := func(what string, err error, kind api.Kind, part, hint string) {
			t.Helper()
			if api.KindOf(err) != kind || !strings.Contains(err.Error(), part) || !strings.Contains(api.HintOf(err), hint) || strings.Contains(err.Error()+api.HintOf(err), "canary") {
				t.Errorf("%s: %v (%s)", what, err, api.HintOf(err))
			}
		}
		_, err = d.Source(t.Context(), remote)
		refused("no secret: source", err, api.KindUnauthenticated, "from secret forge-token", "hortus secret set forge-token --daemon")
		_, err = d.Check(t.Context(), proposal)
		refused("no secret: check", err, api.KindUnauthenticated, "from secret forge-token", "hortus secret set forge-token --daemon")

		for _, token := range []string{first, second} {
			set(token)
			src, err := d.Source(t.Context(), remote)
			if err != nil || src.Auth == nil || src.Auth.Token != token {
				t.Errorf("%s: %v", kind, err)
			}
			if v, err := d.Check(t.Context(), proposal); err != nil || v.Target != "main" {
				t.Errorf("%s: %+v, %v", kind, v, err)
			}
			calls := forges.Calls()
			if !slices.ContainsFunc(calls, func(c forgeserver.Call) bool { return c.Token == token }) {
				t.Errorf("%s: no call has the token that was set last", kind)
			}
		}
		// The token is sent to no other host.
		if src, err := d.Source(t.Context(), "https://example.org/o/r.git"); err != nil || src.Auth != nil {
			t.Errorf("%s: another host: %v", kind, err)
		}
		// Each reading is a use, for git or for the forge's API.
		rows, _, err := all.Uses(t.Context(), "", secrets.UseFilter{}, api.PageRequest{Limit: 4})
		if err != nil || len(rows) != 4 {
			t.Fatalf("%+v, %v", rows, err)
		}
		for i, u := range rows {
			if u.Purpose != []string{"forge", "git"}[i%2] || u.Secret != "forge-token" || u.Sandbox != "" || fmt.Sprintf("%s:%d%s", u.Host, u.Port, u.Path) != host+"/o/r.git" {
				t.Errorf("%s: %+v", kind, u)
			}
		}
		set("canary-token-unknown")
		_, err = d.Check(t.Context(), proposal)
		refused("rejected", err, api.KindUnauthenticated, "", "")
		if _, err := all.Remove(t.Context(), "", "forge-token"); err != nil {
			t.Fatal(err)
		}
	}
	d := deliverWith(t, nil, []config.Forge{{Host: "git.example.org", Kind: "gitea", TokenSecret: "forge-token"}}, config.Policy{})
	if _, err := d.Source(t.Context(), "https://git.example.org/o/r"); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("without secrets: %v", err)
	}
}
