package cache

import (
	"context"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
)

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
	src := gittest.NewCheckout(t, nil)
	blob := gittest.WriteObject(t, src, "blob", "x")
	for _, p := range []string{"a", "a b/c", ".gitignore", "git", ".gitx", "git~", "git~x", "...", "ü/ß", "ab:c", "-x", "\u200d", "👩\u200d💻", ".g", "x.git", "aux", "a.", "a "} {
		if why := badPath(p); why != "" {
			t.Errorf("%q is refused: %s", p, why)
		} else if out, err := gittest.TryGit(t, src, "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+p); err != nil {
			t.Errorf("git refuses %q: %s", p, out)
		}
	}
	for _, p := range []string{".git/x", ".GIT", "git~1", ".git ", ".git.", ".g\u200cit", "a/../b", ".git::$INDEX_ALLOCATION"} {
		if badPath(p) == "" {
			t.Errorf("%q is taken", p)
		}
		if out, err := gittest.TryGit(t, src, "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+p); err == nil {
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
		fields := git.SplitNUL(b)
		if stats, numbers, err := parseRaw(fields); err == nil {
			parseNumbers(numbers, stats)
		}
		parseNumbers(fields, []FileStat{{Path: "a"}, {Path: "b"}})
		if a, err := parseAdvertisement(b, 10); err == nil && (len(a.refs) > 10 || a.branch != "" && a.refs[a.branch] == "") {
			t.Errorf("got %+v", a)
		}
		if c, err := parseCommit(string(b)); err == nil && (!git.IsHash(c.Hash) || len(c.Subject) > 1024 || strings.ContainsAny(c.Subject, "\x1b\n")) {
			t.Errorf("got %+v", c)
		}
		parseRejection(string(b))
	})
}
