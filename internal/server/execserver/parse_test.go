package execserver

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

func TestPaths(t *testing.T) {
	tier.AnyUser(t)
	for uri, want := range map[string]string{
		"file:///":                                  "/",
		"file:///a%20b/%C3%A4":                      "/a b/ä",
		"file:///a/../../etc":                       "/etc",
		"file:///a/%2e%2e/b":                        "/b",
		"file:///a%2Fb":                             "/a/b",
		"file:///a%3Fb%23c":                         "/a?b#c",
		"file:///" + strings.Repeat("a", maxPath-1): "/" + strings.Repeat("a", maxPath-1),
		"/etc/passwd":                               "",
		"file:/etc/passwd?":                         "",
		"file://localhost/etc":                      "",
		"file:///a%00":                              "",
		"file:///" + strings.Repeat("a", maxPath):   "",
	} {
		if got, err := pathOf(uri); got != want || (err == nil) != (want != "") {
			t.Errorf("%.60s: %.60q, %v; want %.60q", uri, got, err, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"file:///a%20b", "file:////a", "file:///..", "file://h/a", "file:///%00", "file:///a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		p, err := pathOf(uri)
		if err != nil {
			return
		}
		if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) || len(p) > maxPath {
			t.Fatalf("%q is %q", uri, p)
		}
		if again, err := pathOf(uriOf(p)); len(uriOf(p)) <= 3*maxPath && (again != p || err != nil) {
			t.Fatalf("%q, as %q, is %q, %v", p, uriOf(p), again, err)
		}
	})
}

func FuzzEnvironment(f *testing.F) {
	f.Add([]byte("/bin/bash\x00/workspace\x00HOME=/home/user\x00A=b\nc\x00_=x\x00"))
	f.Add([]byte("\x00\x00"))
	f.Add([]byte("/bin/sh\x00relative\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		e, err := parseEnvironment(out)
		if err != nil {
			return
		}
		for _, p := range []string{e.shell, e.dir, e.home} {
			if !path.IsAbs(p) {
				t.Fatalf("%q is not absolute", p)
			}
		}
		for name := range e.vars {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				t.Fatalf("a variable %q", name)
			}
		}
	})
}

// FuzzWild compares with a regular expression.
func FuzzWild(f *testing.F) {
	for _, s := range [][2]string{{"*KEY*", "MY_KEY_1"}, {"a?c", "abc"}, {"", ""}, {"*", ""}, {"**a*b*", "xaxxbx"}, {"?", "*"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 50 || len(s) > 200 {
			return
		}
		// Byte by byte, as wild does.
		var b strings.Builder
		b.WriteString(`(?s)\A`)
		for _, c := range []byte(pattern) {
			switch c {
			case '*':
				b.WriteString(`.*`)
			case '?':
				b.WriteString(`.`)
			default:
				b.WriteString(regexp.QuoteMeta(string(rune(c))))
			}
		}
		latin := func(s string) string {
			out := make([]rune, 0, len(s))
			for _, c := range []byte(s) {
				out = append(out, rune(c))
			}
			return string(out)
		}
		if got, want := wild(pattern, s), regexp.MustCompile(b.String()+`\z`).MatchString(latin(s)); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, s, got, want)
		}
	})
}
