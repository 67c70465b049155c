package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/test/forgetest"
)

func TestConformance(t *testing.T) {
	for _, kind := range forge.Kinds {
		t.Run(kind, func(t *testing.T) {
			forgetest.Run(t, kind, func(cfg rest.Config) (forge.Forge, error) { return rest.New(cfg) })
		})
	}
}

// recorded starts a server that answers each call with what reply returns, and returns the forge
// and the calls so far.
func recorded(t *testing.T, kind, repository string, reply func(w http.ResponseWriter, r *http.Request)) (*rest.Forge, *[]string) {
	t.Helper()
	var calls []string
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.Method+" "+r.RequestURI)
		reply(w, r)
	}))
	t.Cleanup(ts.Close)
	l, err := forge.Locate(ts.URL+"/"+repository+".git", map[string]string{strings.TrimPrefix(ts.URL, "http://"): kind})
	if err != nil {
		t.Fatal(err)
	}
	f, err := rest.New(rest.Config{Location: l, Token: "tok-0123456789", Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	return f, &calls
}

// TestEscaped: the names of a branch and of a project are data, whatever they hold.
func TestEscaped(t *testing.T) {
	for kind, want := range map[string]string{
		forge.GitHub: "GET /api/v3/repos/own.er/na.me/branches/hortus%2Fa%23b%25c&d=%C3%A9.v1",
		forge.GitLab: "GET /api/v4/projects/own%2Eer%2Fna%2Eme/repository/branches/hortus%2Fa%23b%25c&d=%C3%A9%2Ev1",
		forge.Gitea:  "GET /api/v1/repos/own.er/na.me/branches/hortus/a%23b%25c&d=%C3%A9.v1",
	} {
		f, calls := recorded(t, kind, "own.er/na.me", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
		_, err := f.Open(t.Context(), forge.Request{Source: "hortus/a#b%c&d=é.v1", Target: "main", Title: "T"})
		if api.KindOf(err) != api.KindNotFound || len(*calls) != 1 || (*calls)[0] != want {
			t.Errorf("%s: %v, asked for %q", kind, err, *calls)
		}
	}
}

// TestEndlessList: a list without an end is read to a bound, its links are not followed, and what
// is protected counts as incomplete.
func TestEndlessList(t *testing.T) {
	for kind, pages := range map[string]int{forge.GitHub: 10, forge.GitLab: 10, forge.Gitea: 20} {
		f, calls := recorded(t, kind, "own/name", func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/branch_protections"):
				http.Error(w, `{"message":"not for you"}`, http.StatusForbidden)
			case strings.HasSuffix(r.URL.Path, "branches"):
				w.Header().Set("Link", `<http://evil.example/next?page=7>; rel="next"`)
				fmt.Fprint(w, `[{"name":"main","protected":true}]`)
			default:
				fmt.Fprint(w, `{"default_branch":"main","html_url":"http://h/","web_url":"http://h/"}`)
			}
		})
		r, err := f.Repository(t.Context())
		lists := slices.DeleteFunc(slices.Clone(*calls), func(c string) bool { return !strings.Contains(c, "page=") })
		if err != nil || r.ProtectedComplete || len(r.Protected) != pages || len(lists) != pages {
			t.Errorf("%s: %+v, %v, %d lists", kind, r, err, len(lists))
		}
	}
}

// TestHeaders: what each forge must be told, besides the token.
func TestHeaders(t *testing.T) {
	for kind, want := range map[string][3]string{
		forge.GitHub: {"Bearer tok-0123456789", "application/vnd.github+json", "2022-11-28"},
		forge.GitLab: {"Bearer tok-0123456789", "application/json", ""},
		forge.Gitea:  {"token tok-0123456789", "application/json", ""},
	} {
		f, _ := recorded(t, kind, "own/name", func(w http.ResponseWriter, r *http.Request) {
			if got := [3]string{r.Header.Get("Authorization"), r.Header.Get("Accept"), r.Header.Get("X-GitHub-Api-Version")}; got != want {
				t.Errorf("%s: %q", kind, got)
			}
			http.NotFound(w, r)
		})
		if _, err := f.Repository(t.Context()); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestRedirects: those within the API are followed, but not without an end.
func TestRedirects(t *testing.T) {
	n := 0
	f, calls := recorded(t, forge.GitHub, "own/name", func(w http.ResponseWriter, r *http.Request) {
		n++
		http.Redirect(w, r, fmt.Sprintf("/api/v3/repositories/%d", n), http.StatusMovedPermanently)
	})
	if _, err := f.Repository(t.Context()); api.KindOf(err) != api.KindUnavailable || len(*calls) != 4*rest.DefaultTries {
		t.Errorf("%v after %q", err, *calls)
	}
	f, _ = recorded(t, forge.GitHub, "own/name", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	if r, err := f.Repository(t.Context()); err == nil {
		t.Errorf("a status that is no answer: %+v", r)
	}
}
