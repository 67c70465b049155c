package forge

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestAccounts(t *testing.T) {
	env := map[string]string{
		"GITHUB_TOKEN": "gh-public", "GITLAB_TOKEN": "gl-public",
		"HORTUS_GITLAB_TOKEN": "gl-own", "HORTUS_GITLAB_HOST": "git.example.org", "HORTUS_GITLAB_URL": "https://git.example.org:8443",
		"HORTUS_GITEA_TOKEN": "gt-public", "GITEA_TOKEN": "gt-other",
	}
	accounts := Accounts(func(k string) string { return env[k] })
	hosts := Hosts(accounts)
	for remote, want := range map[string]string{
		"https://github.com/a/b":         "gh-public",
		"https://gitlab.com/a/b":         "gl-public",
		"git@git.example.org:a/b.git":    "gl-own",
		"https://git.example.org/a/b":    "gl-own",
		"https://gitea.com/a/b":          "gt-public",
		"https://codeberg.org/a/b":       "", // another host than gitea.com
		"https://github.com.evil/a/b":    "",
		"https://git.example.org.x/a/b":  "",
		"https://evil.git.example.org/x": "",
	} {
		l, err := Locate(remote, hosts)
		if err != nil {
			continue
		}
		a, err := Find(accounts, l)
		if want == "" {
			if api.KindOf(err) != api.KindUnauthenticated || api.HintOf(err) == "" {
				t.Errorf("%s gets %+v, %v", remote, a, err)
			}
			continue
		}
		secret, serr := a.Secret(t.Context(), nil)
		if err != nil || serr != nil || secret != want {
			t.Errorf("%s gets %q, %v, %v", remote, secret, err, serr)
		}
	}
	// A host that says to be another kind gets nothing.
	if _, err := Find(accounts, Location{Kind: GitHub, Host: "git.example.org"}); err == nil {
		t.Error("a token of GitLab went to GitHub")
	}
}

func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := Account{Kind: GitLab, File: write("good", "tok-1\n", 0o600)}
	if s, err := a.Secret(t.Context(), nil); s != "tok-1" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	for name, file := range map[string]string{
		"missing": filepath.Join(dir, "none"), "a folder": dir, "empty": write("empty", "\n", 0o600), "two lines": write("two", "tok-a\ntok-b\n", 0o600),
		"long": write("long", strings.Repeat("t", maxToken+1), 0o600),
	} {
		a := Account{Kind: GitLab, File: file}
		if s, err := a.Secret(t.Context(), nil); err == nil || strings.Contains(err.Error(), "tok-") {
			t.Errorf("%s: %q, %v", name, s, err)
		}
	}
	if runtime.GOOS != "windows" {
		a := Account{Kind: GitLab, File: write("open", "tok-1", 0o644)}
		if _, err := a.Secret(t.Context(), nil); api.KindOf(err) != api.KindDenied {
			t.Errorf("a file that all can read: %v", err)
		}
	}
}

// TestNamedSecret reads a token at each use; errors name the secret and never its value.
func TestNamedSecret(t *testing.T) {
	value, fails := "tok-1", error(nil)
	key := func(_ context.Context, name string) (string, error) {
		if name != "corp" {
			t.Errorf("secret %q", name)
		}
		return value, fails
	}
	a := Account{Kind: GitLab, Host: "git.example.org", Named: "corp"}
	for _, want := range []string{"tok-1", "tok-2"} {
		value = want
		if got, err := a.Secret(t.Context(), key); got != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	for what, c := range map[string]struct {
		value string
		err   error
		kind  api.Kind
		hint  string
	}{
		"an error": {"", api.Errorf(api.KindUnauthenticated, "there is none").WithHint("make one"), api.KindUnauthenticated, "make one"},
		"a space":  {"tok tok-", nil, api.KindInvalid, "hortus secret set corp --daemon"},
		"long":     {strings.Repeat("tok-", maxToken), nil, api.KindInvalid, "hortus secret set corp --daemon"},
	} {
		value, fails = c.value, c.err
		got, err := a.Secret(t.Context(), key)
		if got != "" || api.KindOf(err) != c.kind || !strings.Contains(err.Error(), "the token for git.example.org from secret corp") || !strings.Contains(api.HintOf(err), c.hint) || strings.Contains(err.Error(), "tok-") {
			t.Errorf("%s: %q, %v (%s)", what, got, err, api.HintOf(err))
		}
	}
}

func TestProbe(t *testing.T) {
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  string
		err   api.Kind
	}{
		"nothing":  {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "", api.KindUnsupported},
		"a page":   {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>version</html>")) }, "", api.KindUnsupported},
		"no JSON":  {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"version":5}`)) }, "", api.KindUnsupported},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "https://gitlab.com/", 302) }, "", api.KindUnsupported},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`{"version":"`))
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("x", 4096))); err != nil {
					return
				}
			}
		}, "", api.KindUnsupported},
	} {
		ts := httptest.NewServer(tt.serve)
		l, err := Locate(ts.URL+"/a/b", nil)
		if err != nil || l.Kind != "" {
			t.Fatal(l, err)
		}
		got, err := Probe(t.Context(), l, nil)
		if got.Kind != tt.want || api.KindOf(err) != tt.err {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		ts.Close()
		if _, err = Probe(t.Context(), l, nil); api.KindOf(err) != api.KindUnavailable {
			t.Errorf("%s, gone: %v", name, err)
		}
	}
	l := Location{Host: "h.example", Web: "http://h.example", Owner: "a", Name: "b"}
	if _, err := Probe(t.Context(), l, nil); api.KindOf(err) != api.KindInvalid {
		t.Errorf("without TLS: %v", err)
	}
}

func TestServer(t *testing.T) {
	for want, a := range map[string]Account{"github.com": {Kind: GitHub}, "git.example.org": {Kind: GitLab, Host: "git.example.org"}} {
		if got := a.Server(); got != want {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
}
