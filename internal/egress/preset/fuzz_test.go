package preset

import (
	"strings"
	"testing"
)

// checkPreset checks what must hold for a preset of any configuration.
func checkPreset(t *testing.T, c *Catalog, name string) {
	t.Helper()
	p, err := c.Expand(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range p.Env {
		if strings.ContainsAny(v, "\x00\n@") {
			t.Fatalf("%s=%q", k, v)
		}
	}
	if len(p.Rules) > maxMirrors+10 || len(p.Warnings) > maxWarnings {
		t.Fatalf("%d rules, %d warnings", len(p.Rules), len(p.Warnings))
	}
}

func FuzzNPMRC(f *testing.F) {
	f.Add("; x\nregistry = \"https://u:p@a.example/${X}\"\n@a:registry='http://b.example'\n[s]\nregistry=https://c.example")
	f.Fuzz(func(t *testing.T, text string) {
		m := parseNPMRC(lines(text), func(string) string { return "value" })
		for k := range m {
			if k != "registry" && !strings.HasSuffix(k, ":registry") {
				t.Fatalf("%q has the key %q", text, k)
			}
		}
	})
}

func FuzzPipConf(f *testing.F) {
	f.Add("[global]\nindex-url = https://a.example\nextra-index-url:\n  https://b.example\n\n# x\n[install]\n--Trusted_Host=a\npassword=x")
	f.Fuzz(func(t *testing.T, text string) {
		for k, v := range parsePipConf(lines(text)) {
			if section, key, ok := strings.Cut(k, "."); !ok || section != "global" && section != "install" || key == "password" || len(v) > 2*len(text) {
				t.Fatalf("%q: %q", k, v)
			}
		}
	})
}

func FuzzGoEnv(f *testing.F) {
	f.Add("GOPROXY=https://a.example,direct\nGOSUMDB=off")
	f.Fuzz(func(t *testing.T, text string) { parseGoEnv(lines(text)) })
}

func FuzzSources(f *testing.F) {
	f.Add("deb [a=b c=d] http://a.example x main\nTypes: deb\nURIs: http://b.example\n http://c.example\nEnabled: no\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, uri := range append(parseSourcesList(lines(text)), parseSources(lines(text))...) {
			if uri == "" || !strings.Contains(text, uri) {
				t.Fatalf("%q has the URI %q", text, uri)
			}
		}
	})
}

func FuzzMirror(f *testing.F) {
	for _, s := range []string{"https://u:p@a.example:8443/x?y#z", "http://[::1%25x]:80", "http://127.1", "https://a/b@c", "https://exa%6dple.org/%2e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		m, dropped, wrong := parseMirror(raw)
		if wrong != "" {
			return
		}
		again, dropped2, wrong := parseMirror(m.url)
		if wrong != "" || dropped2 != "" || again.url != m.url || again.target != m.target {
			t.Fatalf("%q is %+v (without %s), then %+v, %q, %q", raw, m, dropped, again, dropped2, wrong)
		}
		if strings.ContainsAny(m.url, "@?# \x00\n") {
			t.Fatalf("%q is %q", raw, m.url)
		}
	})
}

// FuzzEnvironment reads everything from variables.
func FuzzEnvironment(f *testing.F) {
	f.Add("https://u:p@a.example|b.example,direct")
	f.Add("gosum-default.example https://a.example")
	f.Fuzz(func(t *testing.T, value string) {
		c, err := New(Config{Root: "/nonexistent", Getenv: func(string) string { return value }, Git: strings.Split(value, ","), Models: []string{value}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range Names() {
			checkPreset(t, c, name)
		}
	})
}
