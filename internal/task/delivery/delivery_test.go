package delivery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/secrettest"
)

func deliverWith(t *testing.T, vars map[string]string, forges []config.Forge, set config.Policy) *Deliverer {
	t.Helper()
	d, err := New(Config{Getenv: func(name string) string { return vars[name] }, Forges: forges, Policy: set, Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A token goes with remotes of its own host, and with no other.
func TestSourceTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := deliverWith(t, map[string]string{
		"GITHUB_TOKEN": "of-github", "HORTUS_GITLAB_TOKEN": "of-corp", "HORTUS_GITLAB_HOST": "gitlab.corp", "GITEA_TOKEN": "of-gitea", "MINE": " of-mine\n",
	}, []config.Forge{
		{Host: "git.corp", Kind: forge.GitLab, TokenFile: file},
		{Host: "127.0.0.1:3000", Kind: forge.Gitea, TokenEnv: "MINE"},
		{Host: "git.plain", Kind: forge.Gitea, TokenEnv: "MINE", URL: "http://127.0.0.1:9"},
		{Host: "ssh.corp", Kind: forge.GitLab, TokenFile: file, URL: "https://web.corp:8443"},
	}, config.Policy{})
	for remote, want := range map[string]string{
		"https://github.com/a/b.git":           "of-github",
		"https://GitHub.com:443/a/b.git":       "of-github",
		"https://gitlab.corp/a/b/c.git":        "of-corp",
		"https://git.corp/a/b":                 "of-the-file",
		"http://127.0.0.1:3000/a/b.git":        "of-mine",
		"https://web.corp:8443/a/b.git":        "",
		"https://ssh.corp/a/b.git":             "of-the-file",
		"https://gitea.com/a/b.git":            "of-gitea",
		"http://github.com/a/b.git":            "",
		"http://gitlab.corp/a/b.git":           "",
		"http://git.plain/a/b.git":             "",
		"http://ssh.corp/a/b.git":              "",
		"https://ssh.corp:9000/a/b.git":        "",
		"https://git.corp:9000/a/b.git":        "",
		"https://github.com:444/a/b.git":       "",
		"https://github.com.evil.org/a/b":      "",
		"https://evil.org/github.com/a/b":      "",
		"https://evilgithub.com/a/b":           "",
		"https://gist.github.com/a/b":          "",
		"https://git.corp.evil.org/a/b":        "",
		"https://git.corp@evil.org/a/b":        "",
		"https://evil.org#git.corp/a/b":        "",
		"https://git.corp\\@evil.org/a/b":      "",
		"https://codeberg.org/a/b.git":         "",
		"https://gitlab.com/a/b.git":           "",
		"http://127.0.0.1:3001/a/b.git":        "",
		"http://localhost:3000/a/b.git":        "",
		"git@github.com:a/b.git":               "",
		"ssh://git@git.corp/a/b":               "",
		"/srv/git.corp/a/b":                    "",
		"file:///srv/git.corp/a/b":             "",
		"https://":                             "",
		"":                                     "",
		"https://git.corp/..%2fx/a":            "",
		"https://git.corp/a/b?x=https://y/a/b": "",
	} {
		src, err := d.Source(t.Context(), remote)
		got := ""
		if src.Auth != nil {
			got = src.Auth.Token
		}
		if err != nil || got != want || src.URL != remote {
			t.Errorf("%s: %q for %q, %v; want %q", remote, got, src.URL, err, want)
		}
	}
	src, err := d.Source(t.Context(), "https://git.corp/a/b")
	if err != nil || src.Auth.Username != "oauth2" {
		t.Errorf("user %+v, %v", src.Auth.Username, err)
	}
	// A file that others can read is not used, and said to be so.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if src, err := d.Source(t.Context(), "https://git.corp/a/b"); api.KindOf(err) != api.KindDenied || src.Auth != nil || strings.Contains(err.Error(), "of-the-file") {
		t.Errorf("a token that everybody reads: %+v, %v", src.Auth, err)
	}
}

func TestPolicyOf(t *testing.T) {
	std := policy.Default()
	if got := operators(config.Policy{}); !reflect.DeepEqual(got, std) {
		t.Errorf("nothing set: %+v", got)
	}
	conf, err := config.Load(config.Source{UID: os.Getuid(), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if got := operators(conf.Policy()); !reflect.DeepEqual(got, std) {
		t.Errorf("the defaults of the configuration weaken the policy: %+v, want %+v", got, std)
	}
	want := std
	want.Branch, want.Protected, want.MaxFiles, want.MaxLines = "bots/*", []string{"x"}, 3, 4
	want.Forbidden, want.Allow = []string{"f/**"}, []string{"f/ok"}
	got := operators(config.Policy{Branch: "bots/*", Protected: []string{"x"}, MaxFiles: 3, MaxLines: 4, Forbidden: []string{"f/**"}, Allow: []string{"f/ok"}})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	// Exceptions open what is forbidden, and nothing else is closed by them.
	d := deliverWith(t, nil, nil, config.Policy{Allow: []string{".github/workflows/ok.yml"}})
	change := func(paths ...string) (p repo.Proposal) {
		p = repo.Proposal{Branch: "hortus/t1"}
		for _, path := range paths {
			p.Files = append(p.Files, policy.File{Path: path, Status: "changed", Mode: 0o100644})
		}
		return p
	}
	if v, err := d.Check(t.Context(), change(".github/workflows/ok.yml", "src/main.go")); err != nil || len(v.Refused) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	v, err := d.Check(t.Context(), change(".github/workflows/ok.yml", ".github/workflows/other.yml"))
	if err != nil || len(v.Refused) != 1 || v.Refused[0].Path != ".github/workflows/other.yml" || v.Refused[0].Rule != "forbidden" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := New(Config{Getenv: func(string) string { return "" }, Policy: config.Policy{Branch: "*"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a pattern for every branch: %v", err)
	}
}

// TestEvidenceOfTheOfflineModel: a merge request of a change that no language model has
// read says so, and no other one does.
func TestEvidenceOfTheOfflineModel(t *testing.T) {
	for model, want := range map[string]bool{"offline": true, "anthropic:m": false, "": false} {
		p := repo.Proposal{Task: api.Task{Model: "offline", Repo: &api.RepoResult{Head: "h", Rounds: []api.Round{{N: 1, Model: model}}}}}
		if got := strings.Contains(strings.Join(evidence(p).Look, "\n"), "passes the tests but was not reviewed by a language model"); got != want {
			t.Errorf("model %q: says that no model has read it: %v, want %v", model, got, want)
		}
	}
}

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

func TestFingerprint(t *testing.T) {
	of := func(vars map[string]string, more ...string) string {
		return Fingerprint(func(name string) string { return vars[name] }, more)
	}
	if s := of(map[string]string{"OTHER": "x", "MINE": "y"}); s != "" {
		t.Errorf("nothing is %q", s)
	}
	seen := map[string]string{}
	for _, name := range []string{"GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN", "HORTUS_GITHUB_TOKEN", "HORTUS_GITLAB_TOKEN_FILE", "HORTUS_GITEA_HOST", "HORTUS_GITEA_URL"} {
		s := of(map[string]string{name: "secret"})
		if s == "" || seen[s] != "" || strings.Contains(s, "secret") {
			t.Errorf("%s is %q, as %q", name, s, seen[s])
		}
		seen[s] = name
	}
	mine := map[string]string{"MINE": "y"}
	if a := of(mine, "MINE", "Z"); a == "" || a != of(mine, "Z", "MINE", "MINE") {
		t.Errorf("variables that a configuration names: %q", a)
	}
	if got := TokenVariables([]config.Forge{{TokenFile: "/x"}, {TokenEnv: "A"}}); len(got) != 1 || got[0] != "A" {
		t.Errorf("%v", got)
	}
}
