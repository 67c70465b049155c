package preset

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
)

const home = "/home/user"

// host is a machine: its files by path, and its environment.
type host struct {
	files       map[string]string
	env         map[string]string
	git, models []string
}

func (h host) catalog(t testing.TB) *Catalog {
	t.Helper()
	root := t.TempDir()
	for path, text := range h.files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{Getenv: func(n string) string { return h.env[n] }, Home: home, Root: root, Git: h.git, Models: h.models, Public: []string{"github.com", "api.openai.com"}, Defaults: fixture})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (h host) expand(t testing.TB, name string) Preset {
	t.Helper()
	p, err := h.catalog(t).Expand(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func texts(rules []api.EgressRule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, policy.Format(r))
	}
	return out
}

func TestExpand(t *testing.T) {
	files := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	env := files
	const npmrc, pipConf, goEnv = home + "/.npmrc", home + "/.config/pip/pip.conf", home + "/.config/go/env"
	for _, c := range []struct {
		name   string
		host   host
		preset string
		rules  string // separated by spaces
		env    map[string]string
		warns  string // part of the only warning
	}{
		{"npm: default", host{}, "npm", "npm-default.example:443 yarn-default.example:443", nil, ""},
		{"npm: the default, written", host{files: files(npmrc, "registry=https://npm-default.example")}, "npm", "npm-default.example:443 yarn-default.example:443", nil, ""},
		{"npm: mirror", host{files: files(npmrc, "registry = http://npm.example:4873/\n//npm.example:4873/:_authToken=secret\n")}, "npm",
			"npm.example:4873,private", env("npm_config_registry", "http://npm.example:4873/"), ""},
		{"npm: variable", host{env: env("NPM_CONFIG_REGISTRY", "https://npm.example"), files: files(npmrc, "registry=https://other.example")}, "npm",
			"npm.example:443,private", env("npm_config_registry", "https://npm.example"), ""},
		{"npm: user before global", host{files: files(npmrc, "registry=https://user.example", "/etc/npmrc", "registry=https://etc.example")}, "npm",
			"user.example:443,private", env("npm_config_registry", "https://user.example"), ""},
		{"npm: global", host{files: files("/usr/local/etc/npmrc", "; comment\n# comment\nregistry='https://etc.example'\n[x]\nregistry=https://section.example")}, "npm",
			"etc.example:443,private", env("npm_config_registry", "https://etc.example"), ""},
		{"npm: other file", host{env: env("npm_config_userconfig", "/x/rc"), files: files("/x/rc", `registry="https://x.example"`)}, "npm",
			"x.example:443,private", env("npm_config_registry", "https://x.example"), ""},
		{"npm: scope", host{files: files(npmrc, "@corp:registry=https://corp.example:8443/npm/")}, "npm",
			"npm-default.example:443 yarn-default.example:443 corp.example:8443,private", nil, "scope"},
		{"npm: variable in the file", host{env: env("MIRROR", "m.example"), files: files(npmrc, "registry=https://${MIRROR}/${NONE?}")}, "npm",
			"m.example:443,private", env("npm_config_registry", "https://m.example/"), ""},
		{"npm: variable that is not set", host{files: files(npmrc, "registry=https://${MIRROR}/")}, "npm", "", nil, "left out"},
		{"npm: credentials", host{files: files(npmrc, "registry=https://user:hunter2@npm.example/")}, "npm",
			"npm.example:443,private", env("npm_config_registry", "https://npm.example/"), "has credentials"},
		{"npm: loopback", host{files: files(npmrc, "registry=http://localhost:4873/")}, "npm", "", nil, "loopback"},
		{"npm: odd loopback", host{files: files(npmrc, "registry=http://127.1:4873/")}, "npm", "", nil, "not valid"},
		{"npm: address", host{files: files(npmrc, "registry=http://10.0.0.5:4873/")}, "npm", "10.0.0.5:4873,private", env("npm_config_registry", "http://10.0.0.5:4873/"), ""},
		{"npm: IPv6", host{files: files(npmrc, "registry=http://[FD00::0:1]:4873/")}, "npm", "[fd00::1]:4873,private", env("npm_config_registry", "http://[fd00::1]:4873/"), ""},
		{"npm: no URL", host{files: files(npmrc, "registry=npm.example")}, "npm", "", nil, "left out"},

		{"pip: default", host{}, "pip", "pip-default.example:443 pip-files.example:443", nil, ""},
		{"pip: mirror", host{files: files(pipConf, "[global]\nindex-url = https://pip.example/simple\n")}, "pip",
			"pip.example:443,private", env("PIP_INDEX_URL", "https://pip.example/simple"), ""},
		{"pip: variable", host{env: env("PIP_INDEX_URL", "https://v.example/simple"), files: files(pipConf, "[global]\nindex-url=https://pip.example/simple")}, "pip",
			"v.example:443,private", env("PIP_INDEX_URL", "https://v.example/simple"), ""},
		{"pip: extra", host{files: files("/etc/pip.conf", "[global]\nextra_index_url:\n  https://a.example/simple\n  # comment\n\thttps://b.example/simple\nno-index = false")}, "pip",
			"pip-default.example:443 pip-files.example:443 a.example:443,private b.example:443,private", env("PIP_EXTRA_INDEX_URL", "https://a.example/simple https://b.example/simple"), ""},
		{"pip: a mirror, and the default as extra", host{env: env("PIP_INDEX_URL", "https://v.example/simple", "PIP_EXTRA_INDEX_URL", "https://pip-default.example/simple/")}, "pip",
			"v.example:443,private pip-default.example:443 pip-files.example:443", env("PIP_INDEX_URL", "https://v.example/simple", "PIP_EXTRA_INDEX_URL", "https://pip-default.example/simple/"), ""},
		{"pip: section install of a file with less priority", host{files: files("/etc/pip.conf", "[install]\nindex-url=https://a.example", pipConf, "[global]\nindex-url=https://b.example\n[search]\nindex-url=https://c.example")}, "pip",
			"a.example:443,private", env("PIP_INDEX_URL", "https://a.example"), ""},
		{"pip: user before global", host{files: files("/etc/pip.conf", "[global]\nindex-url=https://a.example", pipConf, "[global]\nindex-url=https://b.example")}, "pip",
			"b.example:443,private", env("PIP_INDEX_URL", "https://b.example"), ""},
		{"pip: no files", host{env: env("PIP_CONFIG_FILE", "/dev/null"), files: files("/etc/pip.conf", "[global]\nindex-url=https://a.example")}, "pip",
			"pip-default.example:443 pip-files.example:443", nil, ""},
		{"pip: trusted", host{files: files(pipConf, "[global]\nindex-url=http://a.example:8080/simple\ntrusted-host=a.example other.example")}, "pip",
			"a.example:8080,private", env("PIP_INDEX_URL", "http://a.example:8080/simple", "PIP_TRUSTED_HOST", "a.example:8080"), ""},
		{"pip: trusted https", host{files: files(pipConf, "[global]\nindex-url=https://a.example/simple\ntrusted-host=a.example")}, "pip",
			"a.example:443,private", env("PIP_INDEX_URL", "https://a.example/simple"), ""},
		{"pip: credentials", host{env: env("PIP_INDEX_URL", "https://__token__:hunter2@pip.example/simple?token=hunter2")}, "pip",
			"pip.example:443,private", env("PIP_INDEX_URL", "https://pip.example/simple"), "credentials and a query"},
		{"pip: another directory", host{env: env("XDG_CONFIG_HOME", "/xdg"), files: files("/xdg/pip/pip.conf", "[global]\nindex-url=https://a.example")}, "pip",
			"a.example:443,private", env("PIP_INDEX_URL", "https://a.example"), ""},

		{"go: default", host{}, "go", "go-default.example:443 GET,HEAD go-storage.example:443/proxy-golang-org-prod/** gosum-default.example:443", nil, ""},
		{"go: mirror", host{env: env("GOPROXY", "https://go.example,direct")}, "go", "go.example:443,private gosum-default.example:443", env("GOPROXY", "https://go.example,off"), "direct"},
		{"go: file", host{files: files(goEnv, "# comment\nGOPROXY=go.example|https://go-default.example|off\nGOFLAGS=-mod=mod\nGOSUMDB=off\n")}, "go",
			"go.example:443,private go-default.example:443 GET,HEAD go-storage.example:443/proxy-golang-org-prod/**",
			env("GOPROXY", "https://go.example|https://go-default.example|off", "GOSUMDB", "off"), ""},
		{"go: variable before file", host{env: env("GOPROXY", "https://v.example"), files: files(goEnv, "GOPROXY=https://f.example")}, "go",
			"v.example:443,private gosum-default.example:443", env("GOPROXY", "https://v.example"), ""},
		{"go: no file", host{env: env("GOENV", "off"), files: files(goEnv, "GOPROXY=https://f.example")}, "go",
			"go-default.example:443 GET,HEAD go-storage.example:443/proxy-golang-org-prod/** gosum-default.example:443", nil, ""},
		{"go: direct", host{env: env("GOPROXY", "direct")}, "go", "gosum-default.example:443", env("GOPROXY", "off"), "direct"},
		{"go: off", host{env: env("GOPROXY", "off")}, "go", "gosum-default.example:443", env("GOPROXY", "off"), ""},
		{"go: file proxy", host{env: env("GOPROXY", "file:///proxy,https://go.example")}, "go", "go.example:443,private gosum-default.example:443", env("GOPROXY", "https://go.example"), "left out"},
		{"go: credentials", host{env: env("GOPROXY", "https://u:hunter2@go.example")}, "go", "go.example:443,private gosum-default.example:443", env("GOPROXY", "https://go.example"), "has credentials"},
		{"go: sumdb with a URL", host{env: env("GOSUMDB", "gosum-default.example https://u:hunter2@sum.example/x")}, "go",
			"go-default.example:443 GET,HEAD go-storage.example:443/proxy-golang-org-prod/** sum.example:443,private", env("GOSUMDB", "gosum-default.example https://sum.example/x"), "has credentials"},
		{"go: sumdb with a key", host{env: env("GOSUMDB", "sum.example+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8")}, "go",
			"go-default.example:443 GET,HEAD go-storage.example:443/proxy-golang-org-prod/** sum.example:443,private", env("GOSUMDB", "sum.example+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"), ""},
		{"go: known sumdb", host{env: env("GOSUMDB", "gosum-other.example")}, "go",
			"go-default.example:443 GET,HEAD go-storage.example:443/proxy-golang-org-prod/** gosum-other.example:443", env("GOSUMDB", "gosum-other.example"), ""},

		{"apt: default", host{}, "apt", "deb-default.example deb-security.example apt-a.example apt-b.example apt-c.example", nil, ""},
		{"apt: list", host{files: files("/etc/apt/sources.list", "# deb http://no.example x main\ndeb [arch=amd64 signed-by=/k] http://a.example/debian trixie main # x\ndeb-src\thttps://a.example/debian trixie main\ndeb cdrom:[Debian]/ trixie main\nrpm http://no.example\n")}, "apt",
			"a.example,private", nil, ""},
		{"apt: directory", host{files: files(
			"/etc/apt/sources.list.d/a.sources", "Types: deb\nURIs: http://a.example/x\n https://b.example:8443\n# URIs: http://no.example\nSuites: x\n\nTypes: deb\nURIs: http://no.example\nEnabled: no\n\nuris: http://deb-default.example/debian",
			"/etc/apt/sources.list.d/b.list", "deb http://c.example x main",
			"/etc/apt/sources.list.d/c.list.save", "deb http://no.example x main")}, "apt",
			"a.example:80,private c.example:80,private deb-default.example:80 b.example:8443,private", nil, ""},
		{"apt: credentials", host{files: files("/etc/apt/sources.list", "deb https://u:hunter2@a.example/debian x main")}, "apt", "a.example:443,private", nil, "has credentials"},
		{"apt: mirrors", host{files: files("/etc/apt/sources.list", "deb mirror+http://a.example/list x main")}, "apt", "a.example:80,private", nil, "list of mirrors"},
		{"apt: mirror file", host{files: files("/etc/apt/sources.list", "deb mirror+file:/etc/mirrors x main")}, "apt", "", nil, "left out"},

		{"git: none", host{}, "git", "", nil, "no forge"},
		{"git", host{git: []string{"github.com", "https://git.example:8443/x", "gitea.example:3000"}}, "git", "github.com:443 git.example:8443,private gitea.example:3000,private", nil, ""},
		{"models: none", host{}, "models", "", nil, "no model service"},
		{"models", host{models: []string{"https://api.openai.com/v1", "http://10.0.0.9:8000/v1"}}, "models", "api.openai.com:443 10.0.0.9:8000,private", nil, ""},
		{"registries", host{env: env("GOPROXY", "https://mirror.example/go", "GOSUMDB", "off", "PIP_INDEX_URL", "https://mirror.example/pip", "npm_config_registry", "http://mirror.example:8080/npm"),
			files: files("/etc/apt/sources.list", "deb http://mirror.example/debian x main")}, "registries",
			"mirror.example:80,443,8080,private",
			env("GOPROXY", "https://mirror.example/go", "GOSUMDB", "off", "PIP_INDEX_URL", "https://mirror.example/pip", "npm_config_registry", "http://mirror.example:8080/npm"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.host.expand(t, c.preset)
			if registry := c.preset != "git" && c.preset != "models"; registry {
				for i, r := range p.Rules {
					if strings.Join(r.Methods, ",") != "GET,HEAD" {
						t.Errorf("%+v: installing needs GET and HEAD only", r)
					}
					if len(r.Paths) == 0 {
						p.Rules[i].Methods = nil // the rows are shorter
					}
				}
			}
			if npm := c.preset == "npm" || c.preset == registries; npm != (p.Env["npm_config_audit"] == "false") {
				t.Errorf("env: %v", p.Env)
			}
			delete(p.Env, "npm_config_audit")
			// Yarn 1 uses npm's registry, whichever that is.
			if want := cmp.Or(c.env["npm_config_registry"], "https://npm-default.example/"); p.Env["YARN_REGISTRY"] != "" && p.Env["YARN_REGISTRY"] != want || c.preset == "npm" && c.rules != "" && p.Env["YARN_REGISTRY"] == "" {
				t.Errorf("YARN_REGISTRY is %q, want %q", p.Env["YARN_REGISTRY"], want)
			}
			delete(p.Env, "YARN_REGISTRY")
			// Methods have a space behind them.
			got := strings.Join(texts(p.Rules), " ")
			if got != c.rules {
				t.Errorf("rules: %s\nwant:  %s", got, c.rules)
			}
			if !maps.Equal(p.Env, c.env) {
				t.Errorf("env: %v, want %v", p.Env, c.env)
			}
			switch all := strings.Join(p.Warnings, "\n"); {
			case c.warns == "" && all != "" || len(p.Warnings) > 1:
				t.Errorf("warnings: %q", p.Warnings)
			case !strings.Contains(all, c.warns):
				t.Errorf("warnings: %q, want %q", p.Warnings, c.warns)
			}
			for _, r := range p.Rules {
				if r.Source != c.preset || r.Action != api.EgressAllow || r.Class != api.EgressWeb {
					t.Errorf("%+v", r)
				}
			}
			noSecret(t, p)
		})
	}
}

// noSecret checks that a preset has no part of a password.
func noSecret(t *testing.T, p Preset) {
	t.Helper()
	for _, s := range append(append(texts(p.Rules), p.Warnings...), values(p.Env)...) {
		if strings.Contains(s, "hunter2") || strings.Contains(s, "hunter") || strings.Contains(s, "ter2") {
			t.Errorf("a password is in %q", s)
		}
	}
}

func values(m map[string]string) []string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	return out
}

// Passwords that break the syntax of URLs must not get out either.
func TestCredentials(t *testing.T) {
	for _, raw := range []string{
		"https://user:hunter2@m.example/", "https://hunter2@m.example/", "https://user:hun/ter2@m.example/", "https://user:hun?ter2@m.example/",
		"https://user:hun#ter2@m.example/", "https://hunter/2@m.example/", "https://user:1/hunter2@m.example/", "https://user:hunter2%40@m.example/",
		"https://user:hunter2@x@m.example/", "https:user:hunter2@m.example/", "https:///user:hunter2@m.example/", "user:hunter2@m.example",
		"https://m.example/?token=hunter2", "https://m.example/#hunter2", "https://user:hunter2 @m.example/", "https://user:hunter2\\@m.example/", "ssh://git:hunter2@m.example/",
		"https://user:12#hunter2@m.example/", "https://user:12?hunter2@m.example/", "https://m.example:hunter2/", "https://user:hunter2@localhost/", "https://user:hunter2@127.1/",
	} {
		h := host{
			env:   map[string]string{"PIP_INDEX_URL": raw, "PIP_EXTRA_INDEX_URL": raw, "GOPROXY": raw + ",direct", "GOSUMDB": "gosum-default.example " + raw},
			files: map[string]string{home + "/.npmrc": "registry=" + raw + "\n@a:registry=" + raw, "/etc/apt/sources.list": "deb " + raw + " x main"},
			git:   []string{raw}, models: []string{raw},
		}
		reported := false
		for _, name := range []string{registries, "git", "models"} {
			p := h.expand(t, name)
			noSecret(t, p)
			reported = reported || len(p.Warnings) > 0
		}
		if !reported {
			t.Errorf("%q: no warning", raw)
		}
	}
	// The control: without credentials the URL is used, so the places above are the right ones.
	h := host{env: map[string]string{"PIP_INDEX_URL": "https://m.example/hunter2", "GOPROXY": "https://m.example/hunter2"}, files: map[string]string{home + "/.npmrc": "registry=https://m.example/hunter2"}}
	if p := h.expand(t, registries); len(p.Env) != 5 || !strings.Contains(strings.Join(values(p.Env), " "), "hunter2") {
		t.Errorf("%+v: the test shows nothing", p.Env)
	}
}

func TestExpandErrors(t *testing.T) {
	c := host{}.catalog(t)
	for _, name := range []string{"", "nmp", "NPM", "../npm"} {
		if _, err := c.Expand(context.Background(), name); api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" {
			t.Errorf("%q: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Expand(ctx, "npm"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, name := range Names() {
		if _, err := c.Expand(context.Background(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p, err := policy.Parse(name); err != nil || !reflect.DeepEqual(p.Presets, []string{name}) {
			t.Errorf("%s on the command line: %+v, %v", name, p, err)
		}
	}
}

// Files that are too large or no files must end in a warning, not in a wait or an error.
func TestFiles(t *testing.T) {
	h := host{files: map[string]string{home + "/.npmrc": strings.Repeat("#", maxFile+1), "/etc/npmrc": "registry=https://etc.example"}}
	p := h.expand(t, "npm")
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "larger") || len(p.Rules) != 1 {
		t.Errorf("%+v", p)
	}
	c := host{files: map[string]string{"/etc/npmrc": ""}}.catalog(t)
	for _, make := range []func(string) error{
		func(p string) error { return syscall.Mkfifo(p, 0o600) },
		func(p string) error { return os.Mkdir(p, 0o700) },
		func(p string) error { return os.Symlink("/dev/zero", p) },
	} {
		rc := filepath.Join(c.config.Root, home, ".npmrc")
		if err := errors.Join(os.RemoveAll(rc), os.MkdirAll(filepath.Dir(rc), 0o700), make(rc)); err != nil {
			t.Fatal(err)
		}
		p, err := c.Expand(context.Background(), "npm")
		if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "regular") {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// A configuration cannot make a preset without limit.
func TestManyMirrors(t *testing.T) {
	var list strings.Builder
	for i := range maxLines {
		list.WriteString("deb http://" + strings.Repeat("a", i%50+1) + ".example" + strings.Repeat("b", i/50%50) + "/ x main\n")
	}
	p := host{files: map[string]string{"/etc/apt/sources.list": list.String()[:maxFile]}}.expand(t, "apt")
	if len(p.Rules) == 0 || len(p.Rules) > maxMirrors || len(p.Warnings) != 1 {
		t.Errorf("%d rules, warnings %q", len(p.Rules), p.Warnings)
	}
}

// The rules of a preset do what they are for.
func TestPolicy(t *testing.T) {
	p := host{}.expand(t, registries)
	c, err := policy.Compile(api.EgressPolicy{Rules: p.Rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		host         string
		port         int
		method, path string
		want         bool
	}{
		{"npm-default.example", 443, "GET", "/@types%2fnode", true},
		{"pip-default.example", 443, "GET", "/simple/requests/", true},
		{"pip-files.example", 443, "GET", "/packages/ab/cd/x.whl", true},
		{"go-default.example", 443, "GET", "/github.com/!azure/x/@v/list", true},
		{"go-storage.example", 443, "GET", "/proxy-golang-org-prod/0123-github.com:%21azure:x-%40v-v1.0.0.zip?Expires=1", true},
		{"go-storage.example", 443, "PUT", "/proxy-golang-org-prod/x", false},
		{"go-storage.example", 443, "GET", "/bucket/x", false},
		{"go-storage.example", 443, "GET", "/proxy-golang-org-prod/../bucket/x", false},
		{"deb-default.example", 80, "GET", "/debian/dists/trixie/InRelease", true},
		{"npm-default.example", 443, "PUT", "/my-package", false},
		{"npm-default.example", 443, "POST", "/-/npm/v1/security/advisories/bulk", false},
		{"yarn-default.example", 443, "PUT", "/my-package", false},
		{"pip-files.example", 443, "POST", "/legacy/", false},
		{"go-default.example", 443, "POST", "/x/@v/list", false},
		{"gosum-default.example", 443, "PUT", "/lookup/x", false},
		{"deb-default.example", 80, "PUT", "/debian/x", false},
		{"npm-default.example", 80, "GET", "/", false},
		{"github.com", 443, "GET", "/", false},
	} {
		if v := c.Request(policy.Target{Host: x.host, Port: x.port}, x.method, x.path); v.Allow != x.want || v.Private {
			t.Errorf("%s %s:%d%s: %+v", x.method, x.host, x.port, x.path, v)
		}
	}
}

// TestPublish: a preset of its own allows what publishing needs, for the registries of its tool.
func TestPublish(t *testing.T) {
	for name, row := range map[string][2]string{"npm-publish": {"npm-default.example", "pip-default.example"}, "pip-publish": {"pip-default.example", "npm-default.example"}} {
		p := host{}.expand(t, name)
		c, err := policy.Compile(api.EgressPolicy{Rules: p.Rules}, nil)
		if err != nil {
			t.Fatal(err)
		}
		own, other := policy.Target{Host: row[0], Port: 443}, policy.Target{Host: row[1], Port: 443}
		if !c.Request(own, "PUT", "/x").Allow || !c.Request(own, "GET", "/x").Allow || c.Request(other, "GET", "/x").Allow {
			t.Errorf("%s: %+v", name, p.Rules)
		}
	}
}

// fixture is the defaults of tools that exist here only.
func fixture(_ context.Context, _ string, d *Defaults) {
	d.NPM.Registry, d.NPM.Rules = "https://npm-default.example/", []string{"npm-default.example:443", "yarn-default.example:443"}
	d.Pip.Index, d.Pip.Rules = "https://pip-default.example/simple", []string{"pip-default.example:443", "pip-files.example:443"}
	d.Go.Proxy = "https://go-default.example,direct"
	d.Go.Rules = []string{"go-default.example:443", "GET,HEAD go-storage.example:443/proxy-golang-org-prod/**"}
	d.Go.SumDB, d.Go.SumDBURLs = "gosum-default.example", map[string]string{"gosum-other.example": "https://gosum-other.example"}
	d.Apt.Rules = []string{"deb-default.example", "deb-security.example", "apt-a.example", "apt-b.example", "apt-c.example"}
	d.Public = append(d.Public, "gosum-default.example", "gosum-other.example", "deb-default.example")
}

// TestToolsWriteNothing: what a tool keeps in its home comes nowhere, also as root.
func TestToolsWriteNothing(t *testing.T) {
	bin, marker := t.TempDir(), filepath.Join(t.TempDir(), "wrote")
	script := "#!/bin/sh\nif mkdir -p \"$HOME/kept\" 2>/dev/null; then : >" + marker + "; fi\necho https://npm-default.example/\n"
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var tools Tools
	var d Defaults
	tools.Defaults(t.Context(), "npm", &d)
	if d.NPM.Registry != "https://npm-default.example/" {
		t.Fatalf("the registry is %q; want that of the npm in the PATH", d.NPM.Registry)
	}
	if _, err := os.Stat(marker); !os.IsNotExist(err) {
		t.Errorf("npm could write to its home: %v", err)
	}
}

// TestYarn: the registry that Yarn's lock files name is allowed with npm's, where Yarn 1 is installed.
func TestYarn(t *testing.T) {
	for _, c := range []struct{ prints, want string }{
		{"https://yarn-default.example", "npm-default.example:443 yarn-default.example:443"},
		{"undefined", "npm-default.example:443"}, // Yarn 2 and later
	} {
		bin := t.TempDir()
		for name, line := range map[string]string{"npm": "https://npm-default.example/", "yarn": c.prints} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho "+line+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", bin)
		var tools Tools
		var d Defaults
		tools.Defaults(t.Context(), "npm", &d)
		if got := strings.Join(d.NPM.Rules, " "); got != c.want || d.NPM.Registry != "https://npm-default.example/" {
			t.Errorf("%s: %s, registry %s", c.prints, got, d.NPM.Registry)
		}
	}
}

// TestTools asks the tools of this machine.
func TestTools(t *testing.T) {
	var tools Tools
	for _, tool := range []string{"npm", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("%s is not installed: %v", tool, err)
			continue
		}
		c, err := New(Config{Root: t.TempDir(), Defaults: tools.Defaults})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Expand(t.Context(), tool)
		delete(p.Env, "YARN_REGISTRY") // which is not npm's own
		if err != nil || len(p.Rules) == 0 || len(p.Env) > 1 || len(p.Warnings) != 0 {
			t.Errorf("%s: %+v, %v; want rules for its defaults and nothing else", tool, p, err)
		}
		for _, r := range p.Rules {
			if r.Private || r.Ports != "443" {
				t.Errorf("%s: %+v; want a public host and https", tool, r)
			}
		}
	}
	// A tool that is not there is a warning.
	c, err := New(Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Expand(t.Context(), "npm"); err != nil || len(p.Rules) != 0 || len(p.Warnings) != 1 {
		t.Errorf("without npm: %+v, %v", p, err)
	}
}
