package githttp

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/test/gittest"
)

// TestFetch fetches with git in every version of the protocol.
func TestFetch(t *testing.T) {
	for _, version := range []string{"0", "1", "2"} {
		t.Run("v"+version, func(t *testing.T) {
			s := newStage(t, "sha1", sandboxRule())
			v := []string{"-c", "protocol.version=" + version}
			for _, c := range []struct {
				name string
				args []string
				log  string // number of commits of main
			}{
				{"whole", nil, "2"},
				{"mirror", []string{"--mirror"}, "2"},
				{"shallow", []string{"--depth=1"}, "1"},
				{"since", []string{"--shallow-since=2000-01-01"}, "2"},
				{"exclude", []string{"--shallow-exclude=hortus/old"}, "1"},
				{"partial", []string{"--filter=blob:none"}, "2"},
				{"partial-trees", []string{"--filter=tree:0"}, "2"},
				{"partial-size", []string{"--filter=blob:limit=1k"}, "2"},
				{"single-branch", []string{"--single-branch", "--branch=main"}, "2"},
			} {
				t.Run(c.name, func(t *testing.T) {
					dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "c")
					gittest.Git(t, "/", append(append(append([]string{}, v...), append([]string{"clone", "-q"}, c.args...)...), s.url(), dir)...)
					if n := gittest.Git(t, dir, "rev-list", "--count", "main"); n != c.log {
						t.Errorf("main has %s commits, want %s", n, c.log)
					}
					if c.name == "shallow" {
						gittest.Git(t, dir, append(append([]string{}, v...), "fetch", "-q", "--deepen=1")...)
						if n := gittest.Git(t, dir, "rev-list", "--count", "main"); n != "2" {
							t.Errorf("deepened, main has %s commits", n)
						}
					}
				})
			}
			dir := s.clone(v...)
			other := s.clone()
			want := commitIn(t, other, "three")
			gittest.Git(t, other, "push", "-q", filepath.Join(s.root, "o/r.git"), "HEAD:main")
			gittest.Git(t, dir, append(append([]string{}, v...), "fetch", "-q")...)
			if got := gittest.Git(t, dir, "rev-parse", "origin/main"); got != want {
				t.Errorf("fetched %s, want %s", got, want)
			}
			asked := false
			for _, r := range s.passed {
				asked = asked || r.Header.Get("Git-Protocol") == "version="+version
			}
			if asked != (version != "0") {
				t.Errorf("the server was asked for the version: %v", asked)
			}
			if r := s.refusals(); len(r) > 0 {
				t.Errorf("refused: %v", r[0])
			}
		})
	}
}

// TestFetchMany negotiates with more lines than a small request has, which git compresses.
func TestFetchMany(t *testing.T) {
	s := newStage(t, "sha1", sandboxRule())
	dir := s.clone()
	var stream strings.Builder
	for i := range 400 {
		fmt.Fprintf(&stream, "commit refs/heads/b%d\ncommitter T <t@t> %d +0000\ndata 1\nx\n\n", i, 1700000000+i)
	}
	output(t, dir, stream.String(), "fast-import", "--quiet")
	other := s.clone()
	want := commitIn(t, other, "three")
	gittest.Git(t, other, "push", "-q", filepath.Join(s.root, "o/r.git"), "HEAD:main")
	for _, version := range []string{"0", "2"} {
		gittest.Git(t, dir, "-c", "protocol.version="+version, "fetch", "-q", "origin", "main")
		if got := gittest.Git(t, dir, "rev-parse", "FETCH_HEAD"); got != want {
			t.Errorf("fetched %s, want %s", got, want)
		}
		gittest.Git(t, dir, "update-ref", "-d", "refs/remotes/origin/main")
	}
	if r := s.refusals(); len(r) > 0 {
		t.Errorf("refused: %v", r[0])
	}
}

// TestPush pushes with git what the rule allows.
func TestPush(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			s := newStage(t, format, sandboxRule())
			dir := s.clone()
			pushed := func(ref, want string, args ...string) {
				t.Helper()
				gittest.Git(t, dir, append([]string{"push", "-q", "origin"}, args...)...)
				if got := s.ref(ref); got != want {
					t.Errorf("%s is %q, want %q", ref, got, want)
				}
			}
			one := commitIn(t, dir, "a")
			pushed("refs/heads/hortus/new", one, "HEAD:refs/heads/hortus/new")
			commitIn(t, dir, "b")
			two := commitIn(t, dir, "c")
			pushed("refs/heads/hortus/new", two, "HEAD:refs/heads/hortus/new")
			// From an old commit, through commits that the server has on another branch.
			pushed("refs/heads/hortus/other", two, "HEAD:refs/heads/hortus/other")
			three := commitIn(t, dir, "d")
			pushed("refs/heads/hortus/x", three, "--atomic", "HEAD:refs/heads/hortus/x", "HEAD:refs/heads/hortus/new", "HEAD~1:refs/heads/hortus/y")
			// More than git buffers: it is sent in chunks.
			big := make([]byte, 3<<20)
			rng := rand.NewChaCha8([32]byte{1})
			_, _ = rng.Read(big)
			if err := os.WriteFile(filepath.Join(dir, "big"), big, 0o600); err != nil {
				t.Fatal(err)
			}
			four := commitIn(t, dir, "e")
			pushed("refs/heads/hortus/new", four, "HEAD:refs/heads/hortus/new")
			// A merge whose second parent is the old value.
			gittest.Git(t, dir, "checkout", "-q", "-b", "side", two)
			commitIn(t, dir, "f")
			gittest.Git(t, dir, "merge", "-q", "-s", "ours", "-m", "merge", four)
			pushed("refs/heads/hortus/new", gittest.Git(t, dir, "rev-parse", "HEAD"), "HEAD:refs/heads/hortus/new")
			// From a shallow clone.
			shallow := s.clone("--depth=1", "--branch=hortus/new", "--no-local")
			five := commitIn(t, shallow, "g")
			gittest.Git(t, shallow, "push", "-q", "origin", "HEAD:hortus/new")
			if got := s.ref("refs/heads/hortus/new"); got != five {
				t.Errorf("pushed from a shallow clone: %q, want %q", got, five)
			}
			if r := s.refusals(); len(r) > 0 {
				t.Errorf("refused: %v", r[0])
			}
		})
	}
}

// TestPushRefused pushes with git what the rule does not allow, and then with a rule that does.
func TestPushRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		// prepare changes the checkout, whose branch hortus/old is the server's.
		prepare func(t *testing.T, dir string)
		args    []string
		reason  string
		allow   func(*secrets.Git)
		ref     string
		deleted bool
	}{
		{"other branch", nil, []string{"HEAD:refs/heads/main2"}, `"refs/heads/main2" may not be pushed`,
			func(r *secrets.Git) { r.Push = []string{"refs/heads/main2"} }, "refs/heads/main2", false},
		{"deeper branch", nil, []string{"HEAD:refs/heads/hortus/a/b"}, `"refs/heads/hortus/a/b" may not be pushed`,
			func(r *secrets.Git) { r.Push = []string{"refs/heads/hortus/**"} }, "refs/heads/hortus/a/b", false},
		{"tag", nil, []string{"HEAD:refs/tags/v1"}, `"refs/tags/v1" may not be pushed`,
			func(r *secrets.Git) { r.Push = []string{"refs/tags/*"} }, "refs/tags/v1", false},
		{"annotated tag", func(t *testing.T, dir string) { gittest.Git(t, dir, "tag", "-a", "-m", "x", "v1") },
			[]string{"v1"}, `"refs/tags/v1" may not be pushed`,
			func(r *secrets.Git) { r.Push = []string{"refs/tags/*"} }, "refs/tags/v1", false},
		{"one of two", nil, []string{"HEAD:refs/heads/hortus/ok", "HEAD:refs/heads/main2"}, `"refs/heads/main2" may not be pushed`,
			func(r *secrets.Git) { r.Push = append(r.Push, "refs/heads/main2") }, "refs/heads/main2", false},
		{"delete", nil, []string{":refs/heads/hortus/old"}, `"refs/heads/hortus/old" may not be deleted`,
			func(r *secrets.Git) { r.Delete = true }, "refs/heads/hortus/old", true},
		{"force", func(t *testing.T, dir string) {
			gittest.Git(t, dir, "checkout", "-q", "--orphan", "o")
			commitIn(t, dir, "unrelated")
		}, []string{"+HEAD:refs/heads/hortus/old"}, `"refs/heads/hortus/old" is not fast-forward`,
			func(r *secrets.Git) { r.Force = true }, "refs/heads/hortus/old", false},
		{"large, other branch", func(t *testing.T, dir string) {
			gittest.WriteFiles(t, dir, map[string]string{"large": randomText(3 << 20)})
			commitIn(t, dir, "large")
		},
			[]string{"HEAD:refs/heads/main2"}, `"refs/heads/main2" may not be pushed`,
			func(r *secrets.Git) { r.Push = []string{"refs/heads/main2"} }, "refs/heads/main2", false},
		{"large, force", func(t *testing.T, dir string) {
			gittest.Git(t, dir, "checkout", "-q", "--orphan", "o")
			gittest.WriteFiles(t, dir, map[string]string{"large": randomText(3 << 20)})
			commitIn(t, dir, "unrelated")
		}, []string{"+HEAD:refs/heads/hortus/old"}, `"refs/heads/hortus/old" is not fast-forward`,
			func(r *secrets.Git) { r.Force = true }, "refs/heads/hortus/old", false},
		{"amended", func(t *testing.T, dir string) {
			gittest.Git(t, dir, "checkout", "-q", "-b", "o", "origin/hortus/old")
			commitIn(t, dir, "amended", "--amend")
		}, []string{"+HEAD:refs/heads/hortus/old"}, `"refs/heads/hortus/old" is not fast-forward`,
			func(r *secrets.Git) { r.Force = true }, "refs/heads/hortus/old", false},
		{"no new commits", func(t *testing.T, dir string) { gittest.Git(t, dir, "checkout", "-q", "origin/main") },
			[]string{"HEAD:refs/heads/hortus/old"}, `the new commit of "refs/heads/hortus/old" is not in the push`,
			func(r *secrets.Git) { r.Force = true }, "refs/heads/hortus/old", false},
		{"mirror", func(t *testing.T, dir string) { gittest.Git(t, dir, "remote", "set-url", "--push", "origin", "") },
			nil, `may not be `,
			func(r *secrets.Git) { r.Push, r.Force, r.Delete = []string{"refs/**"}, true, true }, "refs/heads/extra", false},
		{"option", nil, []string{"-o", "merge_request.create", "HEAD:refs/heads/hortus/ok"}, `push options are not possible`,
			nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, "sha1", sandboxRule())
			gittest.Git(t, filepath.Join(s.root, "o/r.git"), "config", "receive.advertisePushOptions", "true")
			dir := s.clone()
			gittest.Git(t, dir, "branch", "extra")
			commitIn(t, dir, "new")
			args := append([]string{"push", "origin"}, c.args...)
			if c.prepare != nil {
				c.prepare(t, dir)
			}
			if c.name == "mirror" {
				args = []string{"push", "--mirror", s.url()}
			}
			before := s.refs()
			out, err := gittest.TryGit(t, dir, args...)
			if err == nil {
				t.Fatalf("pushed: %s", out)
			}
			r := s.refusals()
			if len(r) != 1 || !strings.Contains(r[0].Reason, c.reason) || !strings.Contains(r[0].Hint, "Allowed in the repository /o/r: ") {
				t.Fatalf("refused: %+v, want %q", r, c.reason)
			}
			// A person sees it in git's own words.
			if !strings.Contains(out, "remote: hortus: "+r[0].Reason) || !strings.Contains(out, "[remote rejected]") {
				t.Errorf("git says:\n%s", out)
			}
			if after := s.refs(); after != before {
				t.Errorf("refs were changed:\n%s\nbefore:\n%s", after, before)
			}
			if c.allow == nil {
				return
			}
			s.allow(c.allow)
			if out, err := gittest.TryGit(t, dir, args...); err != nil {
				t.Fatalf("with a rule that allows it: %v\n%s", err, out)
			}
			if got := s.ref(c.ref); (got == "") != c.deleted || s.refs() == before {
				t.Errorf("allowed, %s is %q", c.ref, got)
			}
		})
	}
}

// TestRights refuses fetches and pushes as a whole, with a message that git shows.
func TestRights(t *testing.T) {
	s := newStage(t, "sha1", sandboxRule())
	dir := s.clone()
	commitIn(t, dir, "new")
	push := []string{"push", "origin", "HEAD:hortus/new"}
	fetch := []string{"fetch", "origin"}
	for _, c := range []struct {
		args   []string
		rule   secrets.Git
		says   string
		origin string
	}{
		{push, secrets.Git{Repository: "/o/r", Fetch: true}, "remote: hortus: git: nothing may be pushed to the repository /o/r", ""},
		{push, sandboxRule(), "", ""},
		{fetch, secrets.Git{Repository: "/o/r", Push: []string{"refs/heads/x"}}, "remote: hortus: git: the repository /o/r may not be fetched", ""},
		{fetch, sandboxRule(), "", ""},
		{fetch, sandboxRule(), `remote: hortus: git: "/o/other.git/info/refs" is not a path of the repository /o/r`, "/o/other.git"},
		{push, sandboxRule(), `remote: hortus: git: "/o/other.git/info/refs" is not a path of the repository /o/r`, "/o/other.git"},
		{fetch, secrets.Git{Repository: "/o/other.git", Fetch: true}, "", "/o/other"},
		{fetch, sandboxRule(), "remote: hortus: git: servers may understand the path", "/o/other/%2e%2e/r.git"},
	} {
		s.allow(func(r *secrets.Git) { *r = c.rule })
		gittest.Git(t, dir, "remote", "set-url", "origin", s.url())
		if c.origin != "" {
			gittest.Git(t, dir, "remote", "set-url", "origin", s.proxy.URL+c.origin)
		}
		if c.origin == "/o/other" { // the server has it with its suffix only
			gittest.Git(t, dir, "remote", "set-url", "origin", s.proxy.URL+c.origin+".git")
		}
		out, err := gittest.TryGit(t, dir, c.args...)
		if (err == nil) != (c.says == "") || !strings.Contains(out, c.says) {
			t.Errorf("%v of %+v: %v\n%s\nwant %q", c.args, c.rule, err, out, c.says)
		}
		if c.says != "" && !strings.Contains(out, "remote: Allowed in the repository ") {
			t.Errorf("no hint:\n%s", out)
		}
	}
}
