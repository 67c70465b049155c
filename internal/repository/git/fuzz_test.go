package git

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"hortus.dev/api"
)

func TestParseSource(t *testing.T) {
	dir := real(t, t.TempDir())
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
		if x, y := must(parseRemote(a, true)), must(parseRemote(b, true)); x.key != y.key {
			t.Errorf("%s and %s are %q and %q", a, b, x.key, y.key)
		}
	}
	same("https://Example.org:443/o/r/", "HTTPS://example.org/o/r")
	same("file://"+dir, dir+"/.")
	if x, y := must(parseRemote("https://example.org/o/R", true)), must(parseRemote("https://example.org/o/r", true)); x.key == y.key {
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
		if WithoutSecret(url) != url && !strings.HasPrefix(url, "file:") && !filepath.IsAbs(url) {
			t.Errorf("%q keeps a secret: %q", s, url)
		}
		r, err := parseRemote(url, true)
		if err != nil {
			t.Fatalf("%q is no source: %v", url, err)
		}
		if strings.Contains(r.url, "::") && !strings.Contains(r.url, "[") && r.scheme != "file" {
			if before, _, _ := strings.Cut(r.url, "::"); word(before) {
				t.Errorf("%q is the address of a helper", r.url)
			}
		}
		again, err := parseRemote(r.url, true)
		if err != nil || again.key != r.key {
			t.Errorf("%q becomes %+v and then %+v, %v", s, r, again, err)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"a/b", ".git", ".GIT./x", "git~1", "a\u200c/.g\u200dit", "../x", ".git:x", "\u212a", ".gıt", "a\\b", ".gitignore", "...", "C:", "git~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if badPath(p) != "" {
			return
		}
		if path.Clean(p) != p || path.IsAbs(p) || strings.HasPrefix(p, "..") && (p == ".." || p[2] == '/') || !utf8.ValidString(p) || len(p) > maxPath || !filepath.IsLocal(p) {
			t.Errorf("%q is taken", p)
		}
		for _, part := range strings.Split(strings.ToLower(p), "/") {
			if strings.TrimRight(part, ". ") == ".git" || part == "git~1" {
				t.Errorf("%q is taken", p)
			}
		}
	})
}

// TestPathAsGitSees compares: what is taken here, git takes into an index as well,
// with the guards for every system on.
func TestPathAsGitSees(t *testing.T) {
	src := newCheckout(t, nil)
	blob := object(t, src, "blob", "x")
	for _, p := range []string{"a", "a b/c", ".gitignore", "git", ".gitx", "git~", "git~x", "...", "ü/ß", "ab:c", "-x", "\u200d", "👩\u200d💻", ".g", "x.git", "aux", "a.", "a "} {
		if why := badPath(p); why != "" {
			t.Errorf("%q is refused: %s", p, why)
		} else if out, err := try(t, src, "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+p); err != nil {
			t.Errorf("git refuses %q: %s", p, out)
		}
	}
	for _, p := range []string{".git/x", ".GIT", "git~1", ".git ", ".git.", ".g\u200cit", "a/../b", ".git::$INDEX_ALLOCATION"} {
		if badPath(p) == "" {
			t.Errorf("%q is taken", p)
		}
		if out, err := try(t, src, "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+p); err == nil {
			t.Errorf("control: git takes %q: %s", p, out)
		}
	}
}

func FuzzLink(f *testing.F) {
	f.Add("a/b", "../c")
	f.Add("a", "b/../..")
	f.Add("a/b/c", "../../../x")
	f.Add("x", "./y/./z")
	f.Fuzz(func(t *testing.T, p, target string) {
		if badPath(p) != "" || badTarget(p, target, func(string) (string, bool) { return "", false }) != "" {
			return
		}
		if to := path.Join(path.Dir(p), target); path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
			t.Errorf("%q may point at %q", p, target)
		}
	})
}

// FuzzAnswers feeds every parser of what git says.
func FuzzAnswers(f *testing.F) {
	h := strings.Repeat("a", 40)
	f.Add([]byte("100644 blob " + h + "      12\ta/b\x00160000 commit " + h + "       -\tsub\x00"))
	f.Add([]byte(":100644 100644 " + h + " " + h + " M\x00a\x00:100644 100644 " + h + " " + h + " R100\x00a\x00b\x00"))
	f.Add([]byte("1\t2\ta\x00-\t-\t\x00a\x00b\x00"))
	f.Add([]byte("ref: refs/heads/main\tHEAD\n" + h + "\tHEAD\n" + h + "\trefs/heads/main\n"))
	f.Add([]byte(h + "\x00" + h + "\x001700000000\x00subject\nmore"))
	f.Add([]byte("To x\n!\ta:b\t[rejected] (stale info)\nDone\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, stop := context.WithCancelCause(context.Background())
		l := &listing{maxFiles: 100, maxBytes: 1 << 40, stop: stop}
		for chunk := b; len(chunk) > 0; chunk = chunk[min(7, len(chunk)):] {
			l.Write(chunk[:min(7, len(chunk))])
		}
		if len(l.entries) > 101 {
			t.Error("the bound does not hold")
		}
		if stats, err := parseRaw(b); err == nil {
			parseNumbers(b, stats)
		}
		parseNumbers(b, []FileStat{{Path: "a"}, {Path: "b"}})
		if a, err := parseAdvertisement(b, 10); err == nil && (len(a.refs) > 10 || a.branch != "" && a.refs[a.branch] == "") {
			t.Errorf("got %+v", a)
		}
		if c, err := parseCommit(string(b)); err == nil && (!isHash(c.Hash) || len(c.Subject) > 1024 || strings.ContainsAny(c.Subject, "\x1b\n")) {
			t.Errorf("got %+v", c)
		}
		refusal(string(b))
		text := clean(string(b), 100)
		if len(text) > 100 || !utf8.ValidString(text) || bytes.ContainsAny([]byte(text), "\x1b\x00\r\x07") {
			t.Errorf("clean gives %q", text)
		}
		short(string(b))
	})
}
