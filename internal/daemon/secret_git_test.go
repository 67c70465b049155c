package daemon

import (
	"net/http"
	"net/http/cgi"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/test/gittest"
)

// gitHost serves git repositories over HTTP to whoever has the value of the secret.
type gitHost struct {
	t    *testing.T
	root string
}

// newGitHost serves /o/r.git with two commits on main, and /o/other.git with one.
func newGitHost(v *vault, secret string) *gitHost {
	v.t.Helper()
	f := &gitHost{v.t, gittest.RealPath(v.t, v.t.TempDir())}
	work := gittest.NewCheckout(v.t, map[string]string{"a.txt": "one\n"})
	for _, name := range []string{"r", "other"} {
		dir := f.dir(name)
		gittest.Git(v.t, f.root, "init", "-q", "--bare", "-b", "main", dir)
		gittest.Git(v.t, dir, "config", "http.receivepack", "true")
		gittest.Git(v.t, work, "push", "-q", dir, "HEAD:refs/heads/main")
	}
	gittest.Git(v.t, work, "commit", "-q", "--allow-empty", "-m", "second")
	gittest.Git(v.t, work, "push", "-q", f.dir("r"), "HEAD:refs/heads/main")
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(gittest.Git(v.t, f.root, "--exec-path")), "git-http-backend"), InheritEnv: []string{"PATH"},
		Env: []string{"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "REMOTE_USER=t"},
	}
	v.routes.HandleFunc("/o/", func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != v.value[secret] {
			v.saw("password " + password + "\n")
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodPost {
			r.TransferEncoding, r.ContentLength = nil, -1 // http-backend reads until the end
		}
		backend.ServeHTTP(w, r)
	})
	return f
}

func (f *gitHost) dir(name string) string { return filepath.Join(f.root, "o", name+".git") }

// refs returns all refs of both repositories.
func (f *gitHost) refs() string {
	f.t.Helper()
	return gittest.Git(f.t, f.dir("r"), "for-each-ref") + "\n--\n" + gittest.Git(f.t, f.dir("other"), "for-each-ref")
}

// TestSecretOfGit has git in a sandbox clone and push with a token that it does not have. What the
// rules of the token do not allow is refused with a reason that git shows, and changes nothing on
// the server; the control is the same command with rules that allow it.
func TestSecretOfGit(t *testing.T) {
	both(t, func(v *vault) {
		rule := func(r secrets.Git) {
			b := v.at("example.com", "", inBasic)
			b.Paths, b.Git = nil, &r
			v.set("forge", b)
		}
		own := secrets.Git{Repository: "/o/r", Fetch: true, Push: []string{"refs/heads/hortus/*"}}
		rule(own)
		f := newGitHost(v, "forge")
		s := v.box(api.CreateSandbox{}, "forge")
		needs(v.t, s, "git")
		base := "https://example.com:" + v.port + "/o/"
		const begin = `set -e; export GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com; cd /tmp; `
		git := func(script string) (string, error) {
			v.t.Helper()
			out, err := sh(v.t, s, begin+script)
			if strings.Contains(out, v.value["forge"]) {
				v.t.Errorf("the sandbox has the value: %s", out)
			}
			return out, err
		}
		must := func(script, want string) {
			v.t.Helper()
			if out, err := git(script); err != nil || !strings.Contains(f.refs(), want) {
				v.t.Fatalf("%s: %v, %s; the server has\n%s", script, err, out, f.refs())
			}
		}
		must(`git clone -q `+base+`r.git r && cd r && git checkout -q -b x && git commit -q --allow-empty -m third && git push -q origin x:hortus/x`, "refs/heads/hortus/x")
		must(`git clone -q git@example.com:o/r.git ssh && cd ssh && git checkout -q -b y && git commit -q --allow-empty -m y && git push -q origin y:refs/heads/hortus/y`, "refs/heads/hortus/y")
		must(`cd r && git commit -q --allow-empty -m fourth && git push -q origin x:hortus/x`, "refs/heads/hortus/x")
		if got := v.alarms(s.ID()); got != nil {
			v.t.Errorf("alarms: %q", got)
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
			{"another repository", `cd r && git push https://x:$FORGE@example.com:` + v.port + `/o/other.git x:hortus/x`, "", other},
			{"a clone of another repository", `rm -rf other && git clone https://x:$FORGE@example.com:` + v.port + `/o/other.git other && cd other && git push origin main:hortus/copy`, "", other},
		} {
			before, alarms := f.refs(), len(v.alarms(s.ID()))
			out, err := git(c.script)
			if err == nil || f.refs() != before || !strings.Contains(out, "hortus: git: ") || !strings.Contains(out, c.reason) {
				v.t.Errorf("%s: %v, %s; the server has\n%s\nbefore:\n%s", c.what, err, out, f.refs(), before)
			}
			if len(v.alarms(s.ID())) <= alarms {
				v.t.Errorf("%s: no alarm", c.what)
			}
			rule(c.allow)
			if out, err := git(c.script); err != nil || f.refs() == before {
				v.t.Errorf("the control of %s: %v, %s", c.what, err, out)
			}
			rule(own)
		}
		// Without a credential git is asked for one, and has none for another repository.
		if out, err := git(`git clone ` + base + `other.git unknown`); err == nil || !strings.Contains(out, "could not read Username") {
			v.t.Errorf("%v, %s", err, out)
		}
		if seen := v.take(); strings.Contains(seen, "hortus-secret-") {
			v.t.Errorf("the server got %s", seen)
		}
	})
}
