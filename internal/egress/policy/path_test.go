package policy

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestRequest(t *testing.T) {
	for _, c := range []struct {
		name         string
		specs        []string
		ceiling      []string
		method, path string
		want         string
	}{
		{"no conditions", []string{"example.org"}, nil, "GET", "/", "allow"},
		{"no conditions, odd path", []string{"example.org"}, nil, "get", "//../%2e", "allow"},
		{"every path, odd path", []string{"example.org/**"}, nil, "GET", "/@a%2fb", "allow"},
		{"method", []string{"GET example.org"}, nil, "GET", "/", "allow inspect"},
		{"other method", []string{"GET example.org"}, nil, "POST", "/", "deny: " + ReasonRequest},
		{"method, odd path", []string{"GET example.org"}, nil, "GET", "//", "allow inspect"},
		{"lower-case method", []string{"GET example.org"}, nil, "get", "/", "deny: " + ReasonRequest},
		{"path", []string{"example.org/a"}, nil, "GET", "/a", "allow inspect"},
		{"query", []string{"example.org/a"}, nil, "GET", "/a?/../b", "allow inspect"},
		{"other path", []string{"example.org/a"}, nil, "GET", "/b", "deny: " + ReasonRequest},
		{"one of the paths", []string{"example.org/a|/b"}, nil, "GET", "/b", "allow inspect"},
		{"case", []string{"example.org/a"}, nil, "GET", "/A", "deny: " + ReasonRequest},
		{"encoded", []string{"example.org/@scope/x"}, nil, "GET", "/%40scope/%78", "allow inspect"},
		{"second rule", []string{"example.org/a", "POST example.org"}, nil, "POST", "/b", "allow inspect"},
		{"denied after a condition", []string{"example.org/a", "!example.org"}, nil, "GET", "/b", "deny: " + ReasonDenied},
		{"denied method", []string{"!POST example.org", "example.org"}, nil, "POST", "/", "deny: " + ReasonDenied},
		{"method that is not denied", []string{"!POST example.org", "example.org"}, nil, "GET", "/", "allow inspect"},
		{"denied method in lower case", []string{"!POST example.org", "example.org"}, nil, "post", "/", "deny: " + ReasonRequest},
		{"denied path", []string{"!example.org/admin|/admin/**", "example.org"}, nil, "GET", "/admin/x", "deny: " + ReasonDenied},
		{"denied path, encoded", []string{"!example.org/admin", "example.org"}, nil, "GET", "/%61dmin", "deny: " + ReasonDenied},
		{"only a denied path", []string{"!example.org/admin"}, nil, "GET", "/", "deny: " + ReasonNoRule},
		{"the method excludes the rule with the odd path", []string{"!POST example.org/a", "example.org"}, nil, "GET", "/x/../a", "allow inspect"},
		{"ask", []string{"example.org/a", "ask"}, nil, "GET", "/b", "ask inspect: " + ReasonRequest},
		{"do not ask about an odd path", []string{"example.org/a", "ask"}, nil, "GET", "/x/../a", "deny: " + ReasonPath},
		{"ceiling", []string{"example.org"}, []string{"GET example.org"}, "GET", "/", "allow inspect"},
		{"ceiling, other method", []string{"example.org"}, []string{"GET example.org"}, "POST", "/", "deny: " + ReasonCeiling},
		{"ceiling, odd path", []string{"example.org"}, []string{"!example.org/admin", "*"}, "GET", "/x/../admin", "deny: " + ReasonCeiling},
		{"OPTIONS *", []string{"example.org/a"}, nil, "OPTIONS", "*", "deny: " + ReasonPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := compiled(t, c.specs, c.ceiling...).Request(target(t, "example.org", 443), c.method, c.path)
			if got := brief(v); got != c.want {
				t.Errorf("%s, want %s (rule %q)", got, c.want, v.Rule)
			}
		})
	}
}

// ambiguousPaths are requests for /admin, or for what is below it, by some server or proxy.
var ambiguousPaths = map[string]string{
	"dot segments":               "/public/../admin",
	"encoded dots":               "/public/%2e%2e/admin",
	"half encoded dots":          "/public/.%2E/admin",
	"one dot":                    "/./admin",
	"encoded dot":                "/%2e/admin",
	"dots at the end":            "/admin/x/..",
	"empty segment":              "//admin",
	"inner empty segment":        "/public//../admin",
	"encoded slash":              "/public%2f..%2fadmin",
	"encoded slash, upper case":  "/public/..%2Fadmin",
	"backslash":                  `/public\..\admin`,
	"encoded backslash":          "/public/..%5cadmin",
	"NUL":                        "/admin%00.png",
	"raw NUL":                    "/admin\x00.png",
	"line feed":                  "/public%0a/admin",
	"tab":                        "/\tadmin",
	"parameters":                 "/public/..;x=1/admin",
	"parameters of the path":     "/admin;x",
	"encoded semicolon":          "/admin%3bx",
	"encoded twice":              "/public/%252e%252e/admin",
	"encoded percent":            "/%2561dmin",
	"encoded query":              "/admin%3fx",
	"encoded fragment":           "/admin%23x",
	"fragment":                   "/admin#x",
	"not hexadecimal":            "/%zzadmin",
	"short encoding":             "/admin%2",
	"percent at the end":         "/admin%",
	"overlong dot":               "/public/%c0%ae%c0%ae/admin",
	"fullwidth dots":             "/public/\uff0e\uff0e/admin",
	"encoded fullwidth slash":    "/public/..%ef%bc%8fadmin",
	"dot at the end (Windows)":   "/admin.",
	"space at the end (Windows)": "/admin%20",
	"raw space":                  "/public /admin",
	"DEL":                        "/admin%7f",
	"no slash":                   "admin",
	"empty":                      "",
	"absolute form":              "https://example.org/admin",
	"UTF-16":                     "/%u0061dmin",
	"long":                       "/" + strings.Repeat("a", maxPath),
}

// An ambiguous path must not get past a rule that denies, nor be allowed by one that allows
// something else.
func TestAmbiguousPaths(t *testing.T) {
	deny := compiled(t, []string{"!example.org/admin|/admin/**", "example.org"})
	allow := compiled(t, []string{"example.org/public/**"})
	free := compiled(t, []string{"GET example.org"})
	to := target(t, "example.org", 443)
	for name, path := range ambiguousPaths {
		if v := deny.Request(to, "GET", path); v.Allow || v.Ask || v.Reason != ReasonPath {
			t.Errorf("%s: %q gets past a rule that denies: %s", name, path, brief(v))
		}
		if v := allow.Request(to, "GET", path); v.Allow || v.Ask || v.Reason != ReasonPath {
			t.Errorf("%s: %q is allowed by a rule for another path: %s", name, path, brief(v))
		}
		// The control: without paths in the rules, the request is allowed.
		if v := free.Request(to, "GET", path); !v.Allow {
			t.Errorf("%s: %q: %s", name, path, brief(v))
		}
	}
	// The control: with the guard removed, rules are matched with the text, and these get past.
	for _, path := range []string{"/public/../admin", "/public/%2e%2e/admin", "/public//../admin", "/public%2f..%2fadmin"} {
		if matchesPattern("/admin", path) || matchesPattern("/admin/**", path) {
			t.Errorf("%q is denied without the guard: the test shows nothing", path)
		}
		if strings.HasPrefix(path, "/public/") && !matchesPattern("/public/**", path) {
			t.Errorf("%q is not allowed without the guard: the test shows nothing", path)
		}
	}
	for _, path := range []string{"/", "/public/", "/public/a/b", "/public/a.b/..c", "/a%20b", "/a+b,c=d&e!$'()*:@~", "/%7Euser", "/public/...x"} {
		if v := deny.Request(to, "GET", path); !v.Allow {
			t.Errorf("%q: %s", path, brief(v))
		}
	}
}

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true},
		{"/a", "/a/", false},
		{"/a/**", "/a/", true},
		{"/a/**", "/a", false},
		{"/a/**", "/a/b/c", true},
		{"/a/*", "/a/b", true},
		{"/a/*", "/a/b/c", false},
		{"/a/*/c", "/a/b/c", true},
		{"/a/*/c", "/a/b/b/c", false},
		{"/a/**/c", "/a/b/b/c", true},
		{"/a/**/c", "/a/c", false},
		{"/*.js", "/x.js", true},
		{"/*.js", "/x.js.map", false},
		{"/**.js", "/a/b.js/c.js", true},
		{"/**/x*y/**", "/a/xb/xcy/d", true},
		{"/**/x*y", "/a/xb/y", false},
		{"/*a*b", "/aab", true},
		{"/*a*b", "/aa/b", false},
		{"/**", "/", true},
		{"/*", "/", true},
	} {
		if got := matchesPattern(c.pattern, c.path); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.path, got)
		}
	}
}

// matchesPattern has no limit of steps.
func matchesPattern(pattern, path string) bool {
	steps := math.MaxInt
	return matchPath(pattern, path, &steps)
}

// A rule that costs much per request must not let the sandbox use the host's processor.
func TestHostilePath(t *testing.T) {
	pattern, path := "/**"+strings.Repeat("a", maxPattern-8)+"*b", "/"+strings.Repeat("a", maxPath-1)
	for _, action := range []api.EgressAction{api.EgressDeny, api.EgressAllow} {
		p := api.EgressPolicy{Rules: []api.EgressRule{
			{Action: action, Host: "example.org", Paths: []string{pattern, "/a*"}},
			{Action: api.EgressAllow, Host: "example.org"},
		}}
		c, err := Compile(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := c.Request(Target{"example.org", 443}, "GET", path); v.Allow || v.Reason != ReasonPath {
			t.Errorf("%s: %s", action, brief(v))
		}
		if v := c.Request(Target{"example.org", 443}, "GET", "/"+strings.Repeat("b", maxPath-1)); !v.Allow {
			t.Errorf("an ordinary path: %s: %s", action, brief(v))
		}
	}
	// The control: the pattern needs more steps than are allowed.
	steps := math.MaxInt
	if matchPath(pattern, path, &steps); math.MaxInt-steps <= maxSteps {
		t.Errorf("%d steps: the test shows nothing", math.MaxInt-steps)
	}
}

// reference is a pattern as a regular expression.
func reference(pattern string) *regexp.Regexp {
	s := regexp.QuoteMeta(pattern)
	s = strings.ReplaceAll(s, `\*\*`, `(?s:.*)`)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(s, `\*`, `[^/]*`) + `\z`)
}

func FuzzMatchPath(f *testing.F) {
	f.Add("/**/x*y/**", "/a/xb/xcy/d")
	f.Add("/*a*b/**a*/c", "/aab/aa/c")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if checkPattern(pattern) != nil {
			return
		}
		plain, ok := plainPath(path)
		if !ok {
			return
		}
		if got, want := matchesPattern(pattern, plain), reference(pattern).MatchString(plain); got != want {
			t.Fatalf("%q, %q: %v, want %v", pattern, plain, got, want)
		}
		// It is decoded, and a server that cleans it finds nothing to clean.
		if strings.ContainsAny(plain, `%\;?#`) || strings.Contains(plain, "//") || strings.Contains(plain+"/", "/../") || strings.Contains(plain+"/", "/./") {
			t.Fatalf("%q is ambiguous", plain)
		}
	})
}

// FuzzMatchPathSmall uses few letters, so that the wildcards are tried again often.
func FuzzMatchPathSmall(f *testing.F) {
	f.Add([]byte{1, 4, 2, 5, 0}, []byte{1, 2, 0, 1, 2, 2, 0})
	letters := []string{"/", "a", "b", "ab", "*", "**"}
	f.Fuzz(func(t *testing.T, p, s []byte) {
		if len(p) > 20 || len(s) > 100 {
			return
		}
		var pattern, path strings.Builder
		for _, c := range p {
			pattern.WriteString(letters[int(c)%6])
		}
		for _, c := range s {
			path.WriteString(letters[int(c)%4])
		}
		if strings.Contains(pattern.String(), "***") {
			return
		}
		got, want := matchesPattern(pattern.String(), path.String()), reference(pattern.String()).MatchString(path.String())
		if got != want {
			t.Fatalf("%q, %q: %v, want %v", pattern.String(), path.String(), got, want)
		}
	})
}
