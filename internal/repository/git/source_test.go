package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

func TestParseSource(t *testing.T) {
	dir := gittest.RealPath(t, t.TempDir())
	at := filepath.Join(dir, "a@b", "repo")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{"odd@dir", "with blanks, @ and more", "host:dir"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for in, want := range map[string][2]string{
		"https://example.org/o/r":                    {"https://example.org/o/r", ""},
		"https://example.org/o/r.git@main":           {"https://example.org/o/r.git", "main"},
		"https://example.org/o/r@feature/x":          {"https://example.org/o/r", "feature/x"},
		"https://example.org/o/r@pkg@1.2.3":          {"https://example.org/o/r", "pkg@1.2.3"},
		"https://example.org/o/r@@scope/pkg@1.0":     {"https://example.org/o/r", "@scope/pkg@1.0"},
		"https://example.org/@scope/r":               {"https://example.org/@scope/r", ""},
		"https://example.org/@scope/r@v1":            {"https://example.org/@scope/r", "v1"},
		"https://example.org/a%40b/r@v1":             {"https://example.org/a%40b/r", "v1"},
		"ssh://git@example.org/o/r":                  {"ssh://git@example.org/o/r", ""},
		"ssh://git@example.org:22/o/r@v1":            {"ssh://git@example.org:22/o/r", "v1"},
		"git@example.org:o/r":                        {"git@example.org:o/r", ""},
		"git@example.org:o/r@v1":                     {"git@example.org:o/r", "v1"},
		"git@[::1]:o/r@v1":                           {"git@[::1]:o/r", "v1"},
		"example.org:o/r":                            {"example.org:o/r", ""},
		at:                                           {at, ""},
		at + "@main":                                 {at, "main"},
		"file://" + at + "@main":                     {"file://" + at, "main"},
		"file://" + at:                               {"file://" + at, ""},
		".":                                          {dir, ""},
		"../" + filepath.Base(dir) + "@0123abc":      {dir, "0123abc"},
		"odd@dir":                                    {filepath.Join(dir, "odd@dir"), ""},
		"odd@dir@feature/x":                          {filepath.Join(dir, "odd@dir"), "feature/x"},
		"with blanks, @ and more":                    {filepath.Join(dir, "with blanks, @ and more"), ""},
		"with blanks, @ and more@main":               {filepath.Join(dir, "with blanks, @ and more"), "main"},
		"host:dir":                                   {filepath.Join(dir, "host:dir"), ""},
		"host:other":                                 {"host:other", ""},
		"git@host:a/b.git@release/1.x":               {"git@host:a/b.git", "release/1.x"},
		"https://host:8443/a@feature/x":              {"https://host:8443/a", "feature/x"},
		"http://127.0.0.1:3000/o/r@x":                {"http://127.0.0.1:3000/o/r", "x"},
		"file:///srv/repo@main":                      {"file:///srv/repo", "main"},
		".@main":                                     {dir, "main"},
		"a@b/repo@x":                                 {at, "x"},
		"/nothing/here@main":                         {"/nothing/here", "main"},
		"https://example.org/o/r@0123456789abcdef01": {"https://example.org/o/r", "0123456789abcdef01"},
	} {
		url, ref, err := ParseSource(in)
		if err != nil || url != want[0] || ref != want[1] {
			t.Errorf("ParseSource(%q) = %q, %q, %v; want %q", in, url, ref, err, want)
		}
	}
	for _, in := range []string{"", "-x", "https://example.org", "https://example.org/", "https://example.org/r@", "https://example.org/r@a..b", "https://u:p@example.org/r", "ext::sh -c x", "a\nb", "https://exa mple.org/x",
		"git://example.org/x", "javascript://x/y", "ssh://-x/y", "-u@h:p", "u@-h:p", "u@h:-p", "u@h:", "u@h::p", "https:///x", "https://example.org/r@-x", "https://example.org/r#x", "http://u@127.0.0.1/x",
		"--upload-pack=x", ".@", ".@-x", "https://", "ftp://host/x", "file://host/x", "https://u:p@host/a", "https://secret@host/a", strings.Repeat("x", 5000), "ext://x/y", "https://host/%zz"} {
		if url, ref, err := ParseSource(in); api.KindOf(err) != api.KindInvalid {
			t.Errorf("ParseSource(%q) = %q, %q, %v", in, url, ref, err)
		} else if api.HintOf(err) == "" {
			t.Errorf("ParseSource(%q) does not say what to do: %v", in, err)
		} else if text := err.Error() + api.HintOf(err); strings.Contains(text, "u:p") || strings.Contains(text, "secret@") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	same := func(a, b string) {
		if x, y := mustParse(ParseRemote(a, true)), mustParse(ParseRemote(b, true)); x.Key != y.Key {
			t.Errorf("%s and %s are %q and %q", a, b, x.Key, y.Key)
		}
	}
	same("https://Example.org:443/o/r/", "HTTPS://example.org/o/r")
	same("file://"+dir, dir+"/.")
	if x, y := mustParse(ParseRemote("https://example.org/o/R", true)), mustParse(ParseRemote("https://example.org/o/r", true)); x.Key == y.Key {
		t.Error("paths differ by case")
	}
}

func FuzzParseSource(f *testing.F) {
	for _, s := range []string{"https://example.org/o/r@v1", "git@example.org:o/r", "/a/b@c", "file:///x", "ssh://u@[::1]:22/x@y", "u@[::1]:p", "ext::x", "http://127.0.0.1:80/a@@b/c@d", "https://a:b@c/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		url, ref, err := ParseSource(s)
		if err != nil {
			return
		}
		if url == "" || url[0] == '-' || strings.ContainsAny(url+ref, "\x00\n\r") || strings.HasPrefix(ref, "-") {
			t.Errorf("ParseSource(%q) = %q, %q", s, url, ref)
		}
		if StripCredentials(url) != url && !strings.HasPrefix(url, "file:") && !filepath.IsAbs(url) {
			t.Errorf("%q keeps a secret: %q", s, url)
		}
		r, err := ParseRemote(url, true)
		if err != nil {
			t.Fatalf("%q is no source: %v", url, err)
		}
		if strings.Contains(r.URL, "::") && !strings.Contains(r.URL, "[") && r.Scheme != "file" {
			if before, _, _ := strings.Cut(r.URL, "::"); IsName(before) {
				t.Errorf("%q is the address of a helper", r.URL)
			}
		}
		again, err := ParseRemote(r.URL, true)
		if err != nil || again.Key != r.Key {
			t.Errorf("%q becomes %+v and then %+v, %v", s, r, again, err)
		}
	})
}

func mustParse(r Remote, err error) Remote {
	if err != nil {
		panic(err)
	}
	return r
}

func TestWithoutSecret(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:pass@host/a": "https://host/a", "https://token@host/a": "https://host/a", "http://u@h/x": "http://h/x", "https://u:p@h": "https://h",
		"ssh://git:pass@host/a": "ssh://host/a", "ssh://git@host/a": "ssh://git@host/a", "ssh://git@host:22/a": "ssh://git@host:22/a", "git@host:a": "git@host:a",
		"/srv/a@b": "/srv/a@b", "https://host/a@b": "https://host/a@b", "https://u:%zz@host/a": "https://host/a", "https://a@b@host:8/x": "https://host:8/x",
	} {
		if got := StripCredentials(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
