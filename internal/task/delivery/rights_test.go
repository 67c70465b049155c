package delivery

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/secret"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/secrettest"
)

// connectedWorld is a forge, and a Deliverer whose accounts have connected its repository with tokens of their own.
type connectedWorld struct {
	*Deliverer
	forge   *forgeserver.Server
	url     string
	secrets *secret.Secrets
	// tokens are the secrets of accounts for exactly url.
	tokens map[string]string
}

func connect(t *testing.T, kind string) *connectedWorld {
	t.Helper()
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "o", "r.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", gittest.NewCheckout(t, nil), bare)
	w := &connectedWorld{tokens: map[string]string{}}
	var err error
	w.forge, err = forgeserver.New(forgeserver.Config{
		Kind: kind, Users: map[string]forgeserver.User{"token-writes": {Login: "ada", Write: true}, "token-reads": {Login: "bob"}},
		Repositories: []*forgeserver.Repository{{Path: "o/r", Dir: bare, Protected: []string{"bots/guarded-*"}}, {Path: "o/other", Dir: bare}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w.forge)
	t.Cleanup(server.Close)
	w.url = server.URL + "/o/r.git"
	w.secrets, _ = secrettest.Open(t, t.TempDir(), secret.Config{})
	w.Deliverer, err = New(Config{
		Getenv: func(string) string { return "" }, Transport: http.DefaultTransport, KeyOf: w.secrets.KeyOf,
		Connected: func(_ context.Context, account, remote string) (api.Repository, error) {
			if remote != w.url {
				return api.Repository{}, nil
			}
			return api.Repository{Account: account, Forge: kind, Secret: w.tokens[account]}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *connectedWorld) set(t *testing.T, account, name, value string) {
	t.Helper()
	if _, err := w.secrets.Set(t.Context(), account, name, secrets.Set{Value: value}); err != nil {
		t.Fatal(err)
	}
}

// TestRights: each right that a token lacks is named, and a test creates nothing at the forge.
func TestRights(t *testing.T) {
	for _, kind := range config.ForgeKinds() {
		w := connect(t, kind)
		for token, want := range map[string][]string{
			"token-writes": {api.RightRead, api.RightPush, api.RightMergeRequest}, "token-reads": {api.RightRead}, "token-nobody": nil, "": nil,
		} {
			name := ""
			if token != "" {
				name = "t"
				w.set(t, "ada", name, token)
			}
			can, err := w.Rights(t.Context(), "ada", api.CheckRepository{URL: w.url, Secret: name})
			if err != nil || can.Forge != kind || len(can.Rights) != 3 {
				t.Fatalf("%s, %s: %+v, %v", kind, token, can, err)
			}
			var has []string
			for _, r := range can.Rights {
				if r.OK {
					has = append(has, r.Right)
				} else if r.Reason == "" || r.Fix == "" {
					t.Errorf("%s, %s: %s is missing without a reason or a fix: %+v", kind, token, r.Right, r)
				}
				if token != "" && strings.Contains(r.Reason+r.Fix, token) {
					t.Errorf("%s: the token is in %q", kind, r.Reason)
				}
			}
			if !slices.Equal(has, want) {
				t.Errorf("%s, %s: has %v, want %v", kind, token, has, want)
			}
		}
		if n := len(w.forge.Pulls()); n != 0 {
			t.Errorf("%s: the tests opened %d merge requests", kind, n)
		}
	}
	w := connect(t, forgeserver.Gitea)
	for _, remote := range []string{"ssh://git@127.0.0.1/o/r", "/srv/o/r"} {
		if can, err := w.Rights(t.Context(), "ada", api.CheckRepository{URL: remote, Secret: ""}); err != nil || len(can.Rights) != 0 {
			t.Errorf("%s: %+v, %v", remote, can, err)
		}
	}
	w.set(t, "ada", "t", "token-writes")
	if _, err := w.Rights(t.Context(), "ada", api.CheckRepository{URL: "http://192.0.2.1/o/r", Secret: "t"}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("without TLS: %v", err)
	}
}

// TestTokenOfARepository: a token is used for the account and the address that it was given for. The control is the first row.
func TestTokenOfARepository(t *testing.T) {
	w := connect(t, forgeserver.Gitea)
	w.set(t, "ada", "t", "token-writes")
	w.tokens["ada"] = "t"
	for _, c := range []struct{ account, remote, token string }{
		{"ada", w.url, "token-writes"},
		{"bob", w.url, ""},
		{"", w.url, ""},
		{"ada", strings.Replace(w.url, "/o/r", "/o/other", 1), ""},
		{"ada", strings.Replace(w.url, "127.0.0.1", "localhost", 1), ""},
	} {
		ctx := api.WithPrincipal(t.Context(), api.Principal{Role: api.RoleAdmin, Account: c.account})
		src, err := w.Source(ctx, c.remote)
		got := ""
		if src.Auth != nil {
			got = src.Auth.Token
		}
		if err != nil || got != c.token {
			t.Errorf("%q at %s: %q, %v", c.account, c.remote, got, err)
		}
	}
	// A secret of another account with the same name is another one.
	w.tokens["bob"] = "t"
	if _, err := w.SourceOf(t.Context(), "bob", w.url); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("%v", err)
	}
}

// TestRightsFollowNoRedirect: a server that redirects to another host learns nothing of the token there. The control is a redirect on
// the same host.
func TestRightsFollowNoRedirect(t *testing.T) {
	asked := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
	t.Cleanup(elsewhere.Close)
	to := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved/info/refs" {
			w.Header().Set("Content-Type", "application/x-"+r.URL.Query().Get("service")+"-advertisement")
			return
		}
		http.Redirect(w, r, to+"/moved/info/refs?"+r.URL.RawQuery, http.StatusMovedPermanently)
	}))
	t.Cleanup(server.Close)
	w := connect(t, forgeserver.Gitea)
	w.set(t, "ada", "t", "token-writes")
	for target, want := range map[string]bool{server.URL: true, elsewhere.URL: false} {
		to = target
		can, err := w.Rights(t.Context(), "ada", api.CheckRepository{URL: server.URL + "/o/r.git", Secret: "t"})
		if err != nil || len(can.Rights) != 2 || can.Rights[0].OK != want || can.Rights[1].OK != want {
			t.Errorf("redirected to %s: %+v, %v", target, can, err)
		}
	}
	close(asked)
	for header := range asked {
		t.Errorf("the other host was asked with %q", header)
	}
}
