package forge

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"hortus.dev/api"
)

func TestLocate(t *testing.T) {
	hosts := map[string]string{
		"git.example.org":      GitLab,
		"git.example.org:3000": Gitea,
		"example.org/gitlab":   GitLab,
		"ssh.only":             "gitlab+https://web.only:8443/prefix",
		"127.0.0.1:8080":       Gitea,
		"acme.ghe.com":         GitHub,
		"bad":                  "cvs",
		"plain":                "gitlab+http://plain",
	}
	for _, tt := range []struct{ remote, kind, host, path, api string }{
		{"https://github.com/owner/name.git", GitHub, "github.com", "owner/name", "https://api.github.com/"},
		{"https://GitHub.com/Owner/Name/", GitHub, "github.com", "Owner/Name", "https://api.github.com/"},
		{"https://user:secret@github.com/owner/name", GitHub, "github.com", "owner/name", "https://api.github.com/"},
		{"git@github.com:owner/name.git", GitHub, "github.com", "owner/name", "https://api.github.com/"},
		{"github.com:owner/name", GitHub, "github.com", "owner/name", "https://api.github.com/"},
		{"ssh://git@ssh.github.com:443/owner/name.git", GitHub, "github.com", "owner/name", "https://api.github.com/"},
		{"git://github.com/owner/name.js.git", GitHub, "github.com", "owner/name.js", "https://api.github.com/"},
		{"git+ssh://git@gitlab.com/a/b/c/d.git", GitLab, "gitlab.com", "a/b/c/d", "https://gitlab.com/api/v4/"},
		{"https://codeberg.org/owner/name", Gitea, "codeberg.org", "owner/name", "https://codeberg.org/api/v1/"},
		{"git@git.example.org:a/b/c.git", GitLab, "git.example.org", "a/b/c", "https://git.example.org/api/v4/"},
		{"ssh://git@git.example.org:2222/a/b.git", GitLab, "git.example.org", "a/b", "https://git.example.org/api/v4/"},
		{"https://git.example.org:3000/a/b.git", Gitea, "git.example.org:3000", "a/b", "https://git.example.org:3000/api/v1/"},
		{"https://git.example.org:443/a/b.git", GitLab, "git.example.org", "a/b", "https://git.example.org/api/v4/"},
		{"https://example.org/gitlab/a/b.git", GitLab, "example.org", "a/b", "https://example.org/gitlab/api/v4/"},
		{"https://example.org/other/a/b.git", "", "example.org", "other/a/b", ""},
		{"git@ssh.only:a/b.git", GitLab, "web.only:8443", "a/b", "https://web.only:8443/prefix/api/v4/"},
		{"http://127.0.0.1:8080/a/b.git", Gitea, "127.0.0.1:8080", "a/b", "http://127.0.0.1:8080/api/v1/"},
		{"https://acme.ghe.com/a/b", GitHub, "acme.ghe.com", "a/b", "https://api.acme.ghe.com/"},
		{"git@[::1]:a/b.git", "", "[::1]", "a/b", ""},
		{"ssh://git@[2001:db8::1]:22/a/b.git", "", "[2001:db8::1]", "a/b", ""},
		{"https://gitlab.evil.example/a/b.git", "", "gitlab.evil.example", "a/b", ""},
		{"https://github.com.evil.example/a/b", "", "github.com.evil.example", "a/b", ""},
		{"https://github.com@evil.example/a/b", "", "evil.example", "a/b", ""},
	} {
		l, err := Locate(tt.remote, hosts)
		if err != nil || l.Kind != tt.kind || l.Host != tt.host || l.Path() != tt.path || l.API != tt.api {
			t.Errorf("%s: %+v, %v", tt.remote, l, err)
		}
		if tt.kind != "" && l.Check() != nil {
			t.Errorf("%s: %v", tt.remote, l.Check())
		}
	}
	for _, remote := range []string{
		"", " ", "/srv/git/x.git", "./x", "../a/b", "C:/repo", `C:\repo`, "file:///srv/x", "ext::sh -c x", "-oProxyCommand=x:a/b", "https://", "https://github.com",
		"https://github.com/owner", "https://github.com/owner/name/pull/3", "https://github.com/../name", "https://github.com/o/..", "https://github.com/o/n?x=y", "https://github.com/o/n#f",
		"https://github.com/o%2fp/n", "https://github.com/o/n%00", "https://github.com/o//n", "https://github.com/ö/n", "https://gitlab.com/a/-/b", "https://-x/a/b", "https://x..y/a/b",
		"https://x_y!/a/b", "https://bad/a/b", "git@plain:a/b", "https://github.com:x/a/b", "https://github.com/a/b c", "https://github.com/a/b\n", "git@github.com", "git@github.com:", "git@github.com:name",
		"https://github.com/" + strings.Repeat("a", 300) + "/b", "https://gitlab.com/" + strings.Repeat("a/", 30) + "b", strings.Repeat("x", 5000), "https://u:geheim@github.com/x", "ftp://u:geheim@h/a/b", "https://u:geheim@h h/a/b",
	} {
		l, err := Locate(remote, hosts)
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%.60q: %+v, %v", remote, l, err)
		} else if strings.Contains(err.Error()+api.HintOf(err), "geheim") {
			t.Errorf("a password is in %q", err)
		}
	}
}

// FuzzLocate: what is taken names a repository by harmless parts, at a host that
// the text names, with no user in any address.
func FuzzLocate(f *testing.F) {
	for _, s := range []string{"https://u:p@github.com/o/n.git", "git@gitlab.com:a/b/c", "ssh://[::1]:22/a/b", "http://127.0.0.1:3000/a/b", "h:a/b", "https://example.org/gitlab/a/b"} {
		f.Add(s)
	}
	hosts := map[string]string{"example.org/gitlab": GitLab, "127.0.0.1:3000": Gitea}
	f.Fuzz(func(t *testing.T, remote string) {
		l, err := Locate(remote, hosts)
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Errorf("%q: %v", remote, err)
			}
			return
		}
		for _, part := range append(strings.Split(l.Owner, "/"), l.Name) {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\?#%@: \x00") {
				t.Errorf("%q: part %q", remote, part)
			}
		}
		if l.Host == "" || strings.ContainsAny(l.Host+l.API+l.Web, "@ ?#%\\") || !strings.Contains(strings.ToLower(remote), strings.Trim(strings.Split(l.Host, ":")[0], "[]")) {
			t.Errorf("%q: %+v", remote, l)
		}
		if l.Kind != "" && !strings.HasPrefix(l.API, "https://") && !strings.HasPrefix(l.API, "http://127.0.0.1:3000/") {
			t.Errorf("%q: %+v", remote, l)
		}
	})
}

func TestCheckBranch(t *testing.T) {
	for _, good := range []string{"main", "hortus/4f2a", "a/b/c", "fix-1.2", "ünï", "x@y", "a#b"} {
		if err := CheckBranch(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "@", "HEAD", "-x", "a..b", "a@{1}", "a.", "a.lock", "a.lock/b", ".a", "a/.b", "/a", "a/", "a//b", "a b", "a~1", "a^", "a:b", "a?b", "a*b", "a[b", `a\b`,
		"a\x00b", "a\x7f", "a\nb", "a\xff", "a\u200bb", "refs/heads/x", strings.Repeat("x", 245),
	} {
		if err := CheckBranch(bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func TestSplitIssue(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/owner/name/issues/12":                   "https://github.com/owner/name 12",
		"https://github.com/owner/name/issues/12#issue-3":           "https://github.com/owner/name 12",
		"https://gitlab.com/group/sub/name/-/issues/7/?a=b":         "https://gitlab.com/group/sub/name 7",
		"https://gitlab.com/group/name/-/work_items/7":              "https://gitlab.com/group/name 7",
		"http://127.0.0.1:3000/forge/owner/name/issues/1":           "http://127.0.0.1:3000/forge/owner/name 1",
		"https://github.com/owner/name/pull/12":                     "",
		"https://github.com/owner/issues/12":                        "",
		"https://github.com/owner/name/issues/":                     "",
		"https://github.com/owner/name/issues/012":                  "",
		"https://github.com/owner/name/issues/-1":                   "",
		"https://ann:secret@github.com/owner/name/issues/1":         "",
		"file:///owner/name/issues/1":                               "",
		"git@github.com:owner/name/issues/1":                        "",
		"https://github.com/owner/name/issues/1\n":                  "",
		"https://github.com/owner/name/issues/99999999999999999999": "",
	} {
		repository, n, err := SplitIssue(in)
		got := fmt.Sprint(repository, " ", n)
		if err != nil {
			if got = ""; api.KindOf(err) != api.KindInvalid {
				t.Errorf("%q: %v", in, err)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzIssueText(f *testing.F) {
	f.Add("Title", "body\n\nmore", 3)
	f.Add("\x1b[31m", strings.Repeat("\u202ex ", 40_000), 90)
	f.Fuzz(func(t *testing.T, title, text string, n int) {
		i := Issue{Title: title, Body: text, Author: title, More: true}
		for range min(max(n, 0), MaxComments) {
			i.Comments = append(i.Comments, Comment{title, text})
		}
		got := i.Text()
		if len(got) > maxIssueText+2*maxIssueLine+100 || strings.IndexFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) >= 0 {
			t.Errorf("%d bytes: %.200q", len(got), got)
		}
	})
}
