package filerule

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

func TestOffLimits(t *testing.T) {
	for _, c := range []struct {
		globs     string // separated by spaces
		off, free string
	}{
		{".env", ".env a/.env a/b/.env .env/x", ".env2 a.env env .ENV"},
		{".env*", ".env .env.local a/.envrc .env.d/x/y", "env x.env"},
		{"/.env", ".env .env/x", "a/.env"},
		{"*.key", "a.key .key d/e/f.key f.key/x", "a.keys key a.key2"},
		{"secrets", "secrets secrets/a b/secrets/c/d", "secrets2 my/secrets2"},
		{"secrets/", "secrets/a b/secrets/c/d", "secrets b/secrets"},
		{"secrets/**", "secrets/a secrets/a/b", "secrets b/secrets/c"},
		{"**/secrets/**", "secrets/a b/secrets/c b/c/secrets/d/e", "secrets b/secrets"},
		{"a/**/z", "a/z a/b/z a/b/c/z a/b/z/below", "z a b/a/z"},
		{"a/*/z", "a/b/z a/b/z/y", "a/z a/b/c/z"},
		{"deploy/*.yaml", "deploy/a.yaml", "deploy/b/a.yaml a.yaml x/deploy/a.yaml"},
		{"**", "a a/b .git/x", ""},
		{"*", "a a/b", ""},
		{"/*", "a a/b", ""},
		{"id_[a-z]*", "id_rsa x/id_ecdsa", "id_2 id_"},
		{"?.txt", "a.txt ä.txt", "ab.txt .txt"},
		{`\*.txt`, "*.txt", "a.txt"},
		{".env* !.env.example", ".env .env.local", ".env.example a/.env.example"},
		{"!.env.example .env*", ".env .env.example", ""},
		{"secrets/** !secrets/README", "secrets/a", "secrets/README secrets/README/x"},
		{"a !a a", "a", ""},
	} {
		p, err := Compile(api.FilePolicy{OffLimits: strings.Fields(c.globs)})
		if err != nil {
			t.Errorf("%s: %v", c.globs, err)
			continue
		}
		for _, path := range strings.Fields(c.off) {
			if p.OffLimits(path) == "" || !strings.Contains(p.Refuse(path), "off limits by the rule ") {
				t.Errorf("%q: %s is not off limits", c.globs, path)
			}
		}
		for _, path := range strings.Fields(c.free) {
			if g := p.OffLimits(path); g != "" || p.Refuse(path) != "" {
				t.Errorf("%q: %s is off limits by %q", c.globs, path, g)
			}
		}
	}
	var none *Policy
	if none.Refuse("x") != "" || none.Hides() || none.Restricts() {
		t.Error("no policy refuses something")
	}
}

func TestDefault(t *testing.T) {
	p, err := Compile(api.FilePolicy{OffLimits: api.DefaultOffLimits()})
	if err != nil {
		t.Fatal(err)
	}
	for path, off := range map[string]bool{
		".env": true, "web/.env.production": true, ".envrc": true, ".env.example": false, "web/.env.sample": false, ".env.template": false,
		"secrets/id_rsa": true, "id_rsa.pub": false, "tls/server.key": true, "keys.go": false, "cert.p12": true, "a.pfx": true, ".netrc": true,
		"testdata/server.key": false, "net/testdata/deep/.env": false, "server.pem": false, "environment.go": false,
	} {
		if got := p.OffLimits(path) != ""; got != off {
			t.Errorf("%s: off limits is %t", path, got)
		}
	}
}

func TestReadOnly(t *testing.T) {
	for _, c := range []struct {
		read, write string
		fixed, free string
	}{
		{"", "", "", "a b/c"},
		{"*_test.go /go.mod", "", "x_test.go a/b_test.go go.mod", "x.go sub/go.mod"},
		{"", "src/**", "a src docs/x", "src/a src/b/c"},
		{"src/fixed.go", "src/**", "src/fixed.go a", "src/a"},
		{"", "src/** !src/vendor/", "src/vendor/a b", "src/a"},
	} {
		p, err := Compile(api.FilePolicy{ReadOnly: strings.Fields(c.read), Writable: strings.Fields(c.write)})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range strings.Fields(c.fixed) {
			if p.ReadOnly(path) == "" || p.Refuse(path) == "" {
				t.Errorf("%+v: %s can be changed", c, path)
			}
		}
		for _, path := range strings.Fields(c.free) {
			if why := p.ReadOnly(path); why != "" {
				t.Errorf("%+v: %s is %s", c, path, why)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for glob, want := range map[string]string{
		"": "empty", "!": "empty", "/": "empty", "!/": "empty", "a//b": "two slashes", "../a": "component", "a/./b": "component", "a**": "whole component",
		"a[": "unfinished", `a\`: "unfinished", "a\nb": "control", "a\xff": "UTF-8", strings.Repeat("a", api.MaxFileGlob+1): "longer",
	} {
		_, err := Compile(api.FilePolicy{ReadOnly: []string{glob}})
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "readOnly") || api.HintOf(err) == "" {
			t.Errorf("%q: %v (%s)", glob, err, api.HintOf(err))
		}
	}
	if err := (api.FilePolicy{OffLimits: make([]string, api.MaxFileGlobs+1)}).CheckBounds(); api.KindOf(err) != api.KindInvalid {
		t.Errorf("too many: %v", err)
	}
	if _, err := Compile(api.FilePolicy{Writable: []string{"!a"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("only exceptions: %v", err)
	}
}

// TestHostile matches what makes a matcher that goes back and forth take for ever.
func TestHostile(t *testing.T) {
	glob := strings.TrimSuffix(strings.Repeat("**/a*/", 60), "/") + "/b"
	path := strings.Repeat("aaaa/", 800) + "c"
	p, err := Compile(api.FilePolicy{OffLimits: []string{glob, strings.Repeat("*a", 200) + "b"}})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if p.OffLimits(path) != "" || p.OffLimits(strings.Repeat("a", 250)) != "" {
		t.Error("it matches")
	}
	if d := time.Since(start); d > patience.Of(10*time.Second) {
		t.Errorf("it took %s", d)
	}
}

// FuzzMatch compares with a regular expression of the same meaning.
func FuzzMatch(f *testing.F) {
	f.Add("*.key", "a/b.key")
	f.Add("/a/**/z", "a/b/c/z/y")
	f.Add("**/x/", "x/y")
	f.Add("a?[b-d]", "axc")
	f.Fuzz(func(t *testing.T, glob, path string) {
		if api.CheckFileGlob(glob) != nil || strings.HasPrefix(glob, "!") || path == "" {
			return
		}
		p, err := Compile(api.FilePolicy{OffLimits: []string{glob}})
		if err != nil {
			t.Fatal(err)
		}
		got := p.OffLimits(path) != ""
		if strings.ContainsAny(glob, `[]\`) || strings.ContainsAny(path, "\n\xff\ufffd") || !regexp.MustCompile(`^[ -~/]*$`).MatchString(glob+path) {
			return // only that it returns
		}
		if want := slow(glob).MatchString(path); got != want {
			t.Errorf("glob %q, path %q: %t, want %t", glob, path, got, want)
		}
	})
}

func slow(glob string) *regexp.Regexp {
	text, dirOnly := strings.CutSuffix(glob, "/")
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(text, "/") {
		b.WriteString("(?:[^/]*/)*")
	}
	parts := strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "**" && last:
			b.WriteString("[^/]*(?:/[^/]*)*?")
		case part == "**":
			b.WriteString("(?:[^/]*/)*")
		default:
			for _, r := range part {
				switch r {
				case '*':
					b.WriteString("[^/]*")
				case '?':
					b.WriteString("[^/]")
				default:
					b.WriteString(regexp.QuoteMeta(string(r)))
				}
			}
			if !last {
				b.WriteString("/")
			}
		}
	}
	if dirOnly {
		b.WriteString("/.*$")
	} else {
		b.WriteString("(?:/.*)?$")
	}
	return regexp.MustCompile(b.String())
}
