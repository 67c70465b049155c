package daemon

import (
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/test/gittest"
	"hortus.dev/test/world"
)

// gitHost serves git repositories over HTTP to whoever has the value of the secret.
type gitHost struct {
	t *testing.T
	*gittest.Server
}

// newGitHost serves /o/r with two commits on main, and /o/other with one.
func newGitHost(v *world.Vault, secret string) *gitHost {
	v.T.Helper()
	work := gittest.NewCheckout(v.T, map[string]string{"a.txt": "one\n"})
	f := &gitHost{v.T, gittest.NewServer(v.T, map[string]string{"o/r.git": work, "o/other.git": work})}
	gittest.Git(v.T, work, "commit", "-q", "--allow-empty", "-m", "second")
	gittest.Git(v.T, work, "push", "-q", f.dir("r"), "HEAD:refs/heads/main")
	v.Out.HandleFunc("/o/", func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != v.Value[secret] {
			v.Saw("password " + password + "\n")
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	})
	return f
}

func (f *gitHost) dir(name string) string { return f.Dir("o/" + name + ".git") }

// refs returns all refs of both repositories.
func (f *gitHost) refs() string {
	f.t.Helper()
	return gittest.Git(f.t, f.dir("r"), "for-each-ref") + "\n--\n" + gittest.Git(f.t, f.dir("other"), "for-each-ref")
}

// TestSecretOfGit has git in a sandbox clone and push with a token that it does not have. What the
// rules of the token do not allow is refused with a reason that git shows, and changes nothing on
// the server; the control is the same command with rules that allow it.
func TestSecretOfGit(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		rule := func(r secrets.Git) {
			b := v.At("example.com", "", world.InBasic)
			b.Paths, b.Git = nil, &r
			v.Set("forge", b)
		}
		own := secrets.Git{Repository: "/o/r", Fetch: true, Push: []string{"refs/heads/hortus/*"}}
		rule(own)
		f := newGitHost(v, "forge")
		s := v.Sandbox(api.CreateSandbox{}, "forge")
		world.Needs(v.T, s, "git")
		base := "https://example.com:" + v.Out.Port + "/o/"
		const begin = `set -e; export GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com; cd /tmp; `
		git := func(script string) (string, error) {
			v.T.Helper()
			out, err := v.Sh(s, begin+script)
			if strings.Contains(out, v.Value["forge"]) {
				v.T.Errorf("the sandbox has the value: %s", out)
			}
			return out, err
		}
		must := func(script, want string) {
			v.T.Helper()
			if out, err := git(script); err != nil || !strings.Contains(f.refs(), want) {
				v.T.Fatalf("%s: %v, %s; the server has\n%s", script, err, out, f.refs())
			}
		}
		must(`git clone -q `+base+`r.git r && cd r && git checkout -q -b x && git commit -q --allow-empty -m third && git push -q origin x:hortus/x`, "refs/heads/hortus/x")
		must(`git clone -q git@example.com:o/r.git ssh && cd ssh && git checkout -q -b y && git commit -q --allow-empty -m y && git push -q origin y:refs/heads/hortus/y`, "refs/heads/hortus/y")
		must(`cd r && git commit -q --allow-empty -m fourth && git push -q origin x:hortus/x`, "refs/heads/hortus/x")
		if got := v.Refusals(s.ID()); got != nil {
			v.T.Errorf("alarms: %+v", got)
		}

		all := secrets.Git{Repository: "/o/r", Fetch: true, Push: []string{"refs/heads/**"}, Force: true, Delete: true}
		other := all
		other.Repository = "/o/other"
		for _, c := range []struct {
			what, script, reason string
			allow                secrets.Git
		}{
			{"main", `cd r && git push origin x:main`, "refs/heads/main", all},
			{"a tag", `cd r && git push origin x:refs/tags/v1`, "refs/tags/v1", secrets.Git{Repository: "/o/r", Push: []string{"refs/tags/*"}}},
			{"one of two refs", `cd r && git push origin x:hortus/z x:topic`, "refs/heads/topic", all},
			{"a forced push", `cd r && git commit -q --amend --allow-empty -m again && git push -f origin x:hortus/x`, "fast-forward", all},
			{"a deletion", `cd r && git push origin :hortus/y`, "refs/heads/hortus/y", all},
			{"another repository", `cd r && git push https://x:$FORGE@example.com:` + v.Out.Port + `/o/other.git x:hortus/x`, "", other},
			{"a clone of another repository", `rm -rf other && git clone https://x:$FORGE@example.com:` + v.Out.Port + `/o/other.git other && cd other && git push origin main:hortus/copy`, "", other},
		} {
			before, alarms := f.refs(), len(v.Refusals(s.ID()))
			out, err := git(c.script)
			if err == nil || f.refs() != before || !strings.Contains(out, "hortus: git: ") || !strings.Contains(out, c.reason) {
				v.T.Errorf("%s: %v, %s; the server has\n%s\nbefore:\n%s", c.what, err, out, f.refs(), before)
			}
			if len(v.Refusals(s.ID())) <= alarms {
				v.T.Errorf("%s: no alarm", c.what)
			}
			rule(c.allow)
			if out, err := git(c.script); err != nil || f.refs() == before {
				v.T.Errorf("the control of %s: %v, %s", c.what, err, out)
			}
			rule(own)
		}
		// Without a credential git is asked for one, and has none for another repository.
		if out, err := git(`git clone ` + base + `other.git unknown`); err == nil || !strings.Contains(out, "could not read Username") {
			v.T.Errorf("%v, %s", err, out)
		}
		if seen := v.Take(); strings.Contains(seen, "hortus-secret-") {
			v.T.Errorf("the server got %s", seen)
		}
	})
}
