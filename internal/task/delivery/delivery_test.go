package delivery

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/task/repo"
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
	if got := policyOf(config.Policy{}); !reflect.DeepEqual(got, std) {
		t.Errorf("nothing set: %+v", got)
	}
	conf, err := config.Load(config.Source{UID: os.Getuid(), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if got := policyOf(conf.Policy()); !reflect.DeepEqual(got, std) {
		t.Errorf("the defaults of the configuration weaken the policy: %+v, want %+v", got, std)
	}
	want := std
	want.Branch, want.Protected, want.MaxFiles, want.MaxLines = "bots/*", []string{"x"}, 3, 4
	want.Forbidden, want.Allow = []string{"f/**"}, []string{"f/ok"}
	got := policyOf(config.Policy{Branch: "bots/*", Protected: []string{"x"}, MaxFiles: 3, MaxLines: 4, Forbidden: []string{"f/**"}, Allow: []string{"f/ok"}})
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
