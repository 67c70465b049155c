package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestForgesAndPolicy(t *testing.T) {
	path := write(t, `
[forge."git.example.com"]
kind = "gitlab"
token-file = "gitlab-token"

[forge."127.0.0.1:3000"]
kind = "gitea"
token-env = "MY_TOKEN"
url = "http://127.0.0.1:3000"

[forge."10.0.0.1"]
kind = "github"
token-secret = "forge-token"

[policy]
branch = "bots/*"
protected = ["main", "release/*"]
max-files = 20
forbidden = [".github/**", "*.key"]
allow = []
off-limits = [".env", "!.env.ci"]
`)
	conf, err := Load(Source{File: path, UID: 1, Getenv: environ{"HORTUS_POLICY_MAX_LINES": "500", "HORTUS_POLICY_FORBIDDEN": "a, b"}.get})
	if err != nil {
		t.Fatal(err)
	}
	forges, err := conf.Forges()
	want := []Forge{
		{Host: "10.0.0.1", Kind: "github", TokenSecret: "forge-token"},
		{Host: "127.0.0.1:3000", Kind: "gitea", TokenEnv: "MY_TOKEN", URL: "http://127.0.0.1:3000"},
		{Host: "git.example.com", Kind: "gitlab", TokenFile: filepath.Join(filepath.Dir(path), "gitlab-token")},
	}
	if err != nil || !reflect.DeepEqual(forges, want) {
		t.Errorf("%+v, %v", forges, err)
	}
	policy := Policy{Branch: "bots/*", Protected: []string{"main", "release/*"}, MaxFiles: 20, MaxLines: 500, Forbidden: []string{"a", "b"}, OffLimits: []string{".env", "!.env.ci"}}
	if got := conf.Policy(); !reflect.DeepEqual(got, policy) {
		t.Errorf("%+v", got)
	}
	all := conf.All()
	if last := all[len(all)-1]; last.Setting.Key != `forge."git.example.com".token-file` || last.Origin.Line != 4 || len(all) != len(Settings())+7 {
		t.Errorf("%d values, the last is %+v", len(all), last)
	}
	defaults, err := Load(Source{UID: 1})
	if err != nil || !reflect.DeepEqual(defaults.Policy(), Policy{Branch: "hortus/*", Protected: []string{"main", "master", "trunk", "develop", "release", "release/**", "production", "stable"}, OffLimits: api.DefaultOffLimits()}) {
		t.Errorf("%+v, %v", defaults.Policy(), err)
	}
}

func TestForgeErrors(t *testing.T) {
	for _, c := range []struct{ file, line, says, hint string }{
		{"[forge]\nkind = 'gitlab'", ":2", `"forge.kind"`, ""},
		{"[forge.'a.b']\nknid = 'gitlab'", ":2", `knid`, ""},
		{"[forge.'a.b'.x]\nkind = 'gitlab'", ":1", `forge.a.b.x`, ""},
		{"[forge.'a.b']\nkind = 'gitlba'", ":2", "one of github, gitlab, gitea", "gitlab"},
		{"[forge.'a b']\nkind = 'gitlab'", ":2", "not a host name", ""},
		{"[forge.'A.b']\nkind = 'gitlab'", ":2", "not a host name", ""},
		{"[forge.'https://a.b']\nkind = 'gitlab'", ":2", "no valid port", ""},
		{"[forge.'a.b:0']\nkind = 'gitlab'", ":2", "no valid port", ""},
		{"[forge.'']\nkind = 'gitlab'", ":2", "not a host name", ""},
		{"[forge.'a.b']\nurl = 'http://x'", "", "has no kind", "kind"},
		{"[forge.'a.b']\nkind='gitea'\ntoken-file='x'\ntoken-env='X'", "", "both", "one of them"},
		{"[forge.'a.b']\nkind='gitea'\ntoken-secret='x'\ntoken-env='X'", "", "both a token-env and a token-secret", "one of them"},
		{"[forge.'a.b']\nkind='gitea'\ntoken-file='x'\ntoken-secret='x'", "", "both a token-file and a token-secret", "one of them"},
		{"[forge.'a.b']\nkind='gitea'\ntoken-secret='glpat-ABC'", ":3", "not the name of a secret", "hortus secret ls"},
		{"[forge.'a.b']\nkind='gitea'\ntoken-secret=3", ":3", "wrong type", "a string"},
		{"[model]\nopenai-key-secret = 'sk-ABC'", ":2", "not the name of a secret", "hortus secret ls"},
		{"[model]\nopenai-key-secret = ''", ":2", "not the name of a secret", ""},
		{"[model]\nother-key-secret = 'x'", ":2", "unknown setting", "openai-key-secret"},
		{"[forge.'a.b']\ntoken-file='~/x'", ":2", "not expanded", ""},
		{"forge = 3", ":1", `"forge"`, ""},
		{"[policy]\nprotected = 'main,,dev'", ":2", "a list", ""},
		{"[policy]\nprotected = [1]", ":2", "policy.protected", "strings"},
		{"[policy]\nprotected = ['a,b']", ":2", "policy.protected", "without commas"},
		{"[policy]\nmax-files = 0", ":2", "from 1 to", ""},
		{"[task]\nrounds = 11", ":2", "from 0 to 10", ""},
		{"[task]\ncost = 0", ":2", "above 0", ""},
	} {
		path := write(t, c.file)
		_, err := Load(Source{File: path})
		if strings.Contains(fmt.Sprint(err, api.HintOf(err)), "ABC") {
			t.Errorf("%q: a value shows: %v", c.file, err)
		}
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), path+c.line) || !strings.Contains(err.Error(), c.says) || !strings.Contains(api.HintOf(err), c.hint) {
			t.Errorf("%q: %v (%s)", c.file, err, api.HintOf(err))
		}
	}
}

func TestKeySecrets(t *testing.T) {
	path := write(t, "[model]\nanthropic-key-secret = 'anthropic'\nopenai-key-secret = 'openai-1'\n")
	for _, c := range []struct {
		src  Source
		want map[string]string
	}{
		{Source{UID: 1}, map[string]string{}},
		{Source{UID: 1, File: path}, map[string]string{"anthropic": "anthropic", "openai": "openai-1"}},
		{Source{UID: 1, File: path, Getenv: environ{"HORTUS_OPENAI_KEY_SECRET": "other"}.get}, map[string]string{"anthropic": "anthropic", "openai": "other"}},
	} {
		conf, err := Load(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.KeySecrets(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
	_, err := Load(Source{UID: 1, Getenv: environ{"HORTUS_ANTHROPIC_KEY_SECRET": "sk-ABC"}.get})
	if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "HORTUS_ANTHROPIC_KEY_SECRET") {
		t.Errorf("a value instead of a name: %v", err)
	}
}
