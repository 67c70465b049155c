package checkout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/test/gittest"
)

// someone is a person with a home of their own and nothing of this machine's.
func someone(t *testing.T, more ...string) (p User, home string) {
	t.Helper()
	home = gittest.RealPath(t, t.TempDir())
	return User{Environ: append([]string{"HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}, more...)}, home
}

func TestSetting(t *testing.T) {
	p, home := someone(t)
	src := gittest.NewCheckout(t, nil)
	work := filepath.Join(home, "work")
	gittest.WriteFiles(t, home, map[string]string{
		".gitconfig":  "[user]\n\tname = Ada\n\temail = ada@home\n[includeIf \"gitdir:" + work + "/\"]\n\tpath = work.config\n",
		"work.config": "[user]\n\temail = ada@work\n",
	})
	gittest.Git(t, home, "init", "-q", filepath.Join(work, "r"))
	gittest.Git(t, src, "config", "user.name", "Countess")
	for _, c := range []struct{ dir, key, want string }{
		{src, "user.name", "Countess"}, {src, "user.email", "ada@home"}, {src, "user.nothing", ""},
		{filepath.Join(work, "r"), "user.email", "ada@work"}, {home, "user.name", "Ada"},
	} {
		if got, err := p.Setting(gittest.Context(t), c.dir, c.key); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v", c.key, c.dir, got, err)
		}
	}
	t.Chdir(src)
	if got, err := p.Setting(gittest.Context(t), "", "user.name"); err != nil || got != "Countess" {
		t.Errorf("%q, %v", got, err)
	}
	// A hook has these set, for another repository.
	hook := User{Environ: append(p.Environ, "GIT_DIR=/nowhere", "GIT_WORK_TREE=/nowhere", "GIT_INDEX_FILE=/nowhere")}
	if got, err := hook.Setting(gittest.Context(t), src, "user.name"); err != nil || got != "Countess" {
		t.Errorf("in a hook: %q, %v", got, err)
	}
	if _, err := hook.Toplevel(gittest.Context(t), src); err != nil {
		t.Errorf("in a hook: %v", err)
	}
	_, err := p.Setting(gittest.Context(t), src, "--list")
	gittest.WantKind(t, err, api.KindInvalid, "is not a setting")
	gittest.WriteFiles(t, home, map[string]string{".gitconfig": "[user\n"})
	_, err = p.Setting(gittest.Context(t), src, "user.name")
	gittest.WantKind(t, err, api.KindInvalid, ".gitconfig")
	_, err = p.Toplevel(gittest.Context(t), src)
	gittest.WantKind(t, err, api.KindInvalid, ".gitconfig")
	_, err = User{Program: "/no/such/git"}.Setting(gittest.Context(t), src, "x")
	gittest.WantKind(t, err, api.KindUnavailable, "install git")
}

func TestRemoteOfCheckout(t *testing.T) {
	p, home := someone(t)
	src := gittest.NewCheckout(t, nil)
	for name, c := range map[string]struct{ url, want string }{
		"a": {"https://host/x.git", "https://host/x.git"}, "b": {"git@host:x/y.git", "git@host:x/y.git"}, "c": {"/srv/x.git", "/srv/x.git"},
		"d": {"ssh://host/x", "ssh://host/x"}, "e": {"../up", filepath.Join(filepath.Dir(src), "up")}, "f": {"gh:o/r", "https://github.com/o/r"},
	} {
		gittest.WriteFiles(t, home, map[string]string{".gitconfig": "[url \"https://github.com/\"]\n\tinsteadOf = gh:\n"})
		gittest.Git(t, src, "remote", "add", name, c.url)
		if got, err := p.Remote(gittest.Context(t), src, name); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	gittest.Git(t, src, "remote", "set-url", "--push", "a", "git@host:x.git")
	if got, err := p.Remote(gittest.Context(t), src, "a"); err != nil || got != "git@host:x.git" {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"--help", "none", ""} {
		_, err := p.Remote(gittest.Context(t), src, name)
		gittest.WantKind(t, err, api.KindNotFound, "no remote")
	}
}

func TestCommitOfCheckout(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	hash := gittest.Git(t, src, "rev-parse", "HEAD")
	gittest.Git(t, src, "tag", "-a", "-m", "x", "v1")
	bare := filepath.Join(t.TempDir(), "bare")
	gittest.Git(t, src, "clone", "-q", "--bare", src, bare)
	for _, dir := range []string{src, bare} {
		for _, name := range []string{"main", "HEAD", "v1", hash, hash[:8]} {
			if got, err := (User{}).Commit(gittest.Context(t), dir, name); got != hash || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	for _, name := range []string{"none", "--all", "-h", "", strings.Repeat("0", 40), "HEAD:", "a\nb"} {
		got, err := User{}.Commit(gittest.Context(t), src, name)
		if gittest.WantKind(t, err, api.KindNotFound, "no branch, tag or commit"); got != "" {
			t.Errorf("%q is %q", name, got)
		}
	}
}

// TestPersonsIgnores: what the person ignores everywhere is not called a change, and
// how they write line ends is none.
func TestPersonsIgnores(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1\n2\n"})
	if err := os.Remove(filepath.Join(src, "a")); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, src, "-c", "core.autocrlf=true", "checkout", "--", "a")
	// A changed time makes git compare contents.
	if err := os.Chtimes(filepath.Join(src, "a"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	gittest.WriteFiles(t, src, map[string]string{".DS_Store": "x"})
	for name, c := range map[string]struct {
		files map[string]string
		want  [2]int
	}{
		"nothing":     {nil, [2]int{1, 1}},
		"usual":       {map[string]string{".config/git/ignore": ".DS_Store\n"}, [2]int{1, 0}},
		"named":       {map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": ".DS_Store\n"}, [2]int{1, 0}},
		"missing":     {map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/mine\n"}, [2]int{1, 1}},
		"line ends":   {map[string]string{".gitconfig": "[core]\n\tautocrlf = true\n"}, [2]int{0, 1}},
		"a directory": {map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine/x": ""}, [2]int{1, 1}},
	} {
		p, home := someone(t)
		gittest.WriteFiles(t, home, c.files)
		if got, err := p.Toplevel(gittest.Context(t), src); err != nil || [2]int{got.Dirty, got.Untracked} != c.want {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
	p, home := someone(t)
	other := filepath.Join(home, "elsewhere")
	p.Environ = append(p.Environ, "XDG_CONFIG_HOME="+other)
	gittest.WriteFiles(t, other, map[string]string{"git/ignore": ".DS_Store\n"})
	if got, err := p.Toplevel(gittest.Context(t), src); err != nil || got.Untracked != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSubmodule: its commit counts, what is in it does not, and nothing that it
// configures runs.
func TestSubmodule(t *testing.T) {
	sub := gittest.NewCheckout(t, map[string]string{"x.txt": "1\n", ".gitattributes": "*.txt filter=evil\n"})
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	gittest.Git(t, src, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "dep")
	gittest.Git(t, src, "commit", "-qm", "dep")
	dep := filepath.Join(src, "dep")
	marker := filepath.Join(t.TempDir(), "ran")
	gittest.Git(t, dep, "config", "filter.evil.clean", "touch "+marker+"; cat")
	gittest.Git(t, dep, "config", "core.fsmonitor", "touch "+marker)
	gittest.WriteFiles(t, dep, map[string]string{"x.txt": "22\n"})
	if got, err := (User{}).Toplevel(gittest.Context(t), src); err != nil || got.Dirty != 0 || got.Submodules != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (User{}).Toplevel(gittest.Context(t), dep); err != nil || got.Root != dep || got.Dirty != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("looking ran a program of the submodule")
	}
	gittest.TryGit(t, src, "status")
	if _, err := os.Stat(marker); err != nil {
		t.Error("control: git status did not run it")
	}
	gittest.Git(t, dep, "-c", "core.fsmonitor=false", "commit", "-q", "--allow-empty", "-m", "next")
	if got, err := (User{}).Toplevel(gittest.Context(t), src); err != nil || got.Dirty != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPatchPaths: renames, names that need quotes, binaries and white space.
func TestPatchPaths(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\ntwo\nthree\n", "dir/b.txt": "b\n", "old name": strings.Repeat("some line\n", 20)})
	gittest.WriteFiles(t, src, map[string]string{"a.txt": "one\nTWO   \nthree\n", "sub/new \"quoted\"\n.txt": "new\n", "bin": "\x00\x01\x02"})
	gittest.Git(t, src, "mv", "old name", "new name")
	gittest.Git(t, src, "rm", "-q", "dir/b.txt")
	gittest.Git(t, src, "add", "-A")
	gittest.Git(t, src, "commit", "-qm", "work")
	patch, err := gittest.TryGit(t, src, "diff", "--binary", "-M", "HEAD~", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, src, "reset", "-q", "--hard", "HEAD~")
	paths, err := User{}.Touched(gittest.Context(t), []byte(patch))
	want := []string{"a.txt", "bin", "dir/b.txt", "new name", "old name", "sub/new \"quoted\"\n.txt"}
	if err != nil || strings.Join(paths, "|") != strings.Join(want, "|") {
		t.Fatalf("%q, %v", paths, err)
	}
	// Where it is run does not matter, inside of a checkout neither.
	t.Chdir(filepath.Join(src))
	stats, err := User{}.Stat(gittest.Context(t), []byte(patch))
	if err != nil || len(stats) != 5 || stats[0] != (Stat{Path: "a.txt", Added: 1, Deleted: 1}) || !stats[1].Binary {
		t.Errorf("%+v, %v", stats, err)
	}
	for _, bad := range []string{"garbage", "diff --git a/x b/x\n@@ nonsense\n"} {
		_, err := User{}.Stat(gittest.Context(t), []byte(bad))
		gittest.WantKind(t, err, api.KindInvalid, "cannot read the patch")
		_, err = User{}.Touched(gittest.Context(t), []byte(bad))
		gittest.WantKind(t, err, api.KindInvalid, "cannot read the patch")
	}
	changed := func(want int) {
		t.Helper()
		if c, err := (User{}).Changed(gittest.Context(t), src, paths); len(c) != want || err != nil {
			t.Errorf("%q, %v", c, err)
		}
	}
	changed(0)
	// What a person has set for white space does not change what was verified.
	p, home := someone(t)
	gittest.WriteFiles(t, home, map[string]string{".gitconfig": "[apply]\n\twhitespace = fix\n\tignoreWhitespace = change\n"})
	gittest.Git(t, src, "config", "apply.whitespace", "fix")
	if err := p.Apply(gittest.Context(t), src, strings.NewReader(patch), ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.txt": "one\nTWO   \nthree\n", "bin": "\x00\x01\x02", "sub/new \"quoted\"\n.txt": "new\n"} {
		if b, err := os.ReadFile(filepath.Join(src, name)); string(b) != text {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
	if staged := gittest.Git(t, src, "diff", "--cached", "--name-only"); staged != "" {
		t.Errorf("staged: %s", staged)
	}
	changed(len(paths))
	many := make([]string, 3*maxPathsPerCall)
	for i := range many {
		many[i] = "none"
	}
	paths = append(many, "a.txt", "*")
	changed(1)
}

// TestBorrowed: a clone that shares objects may be brought a result.
func TestBorrowed(t *testing.T) {
	origin := gittest.NewCheckout(t, map[string]string{"a": "1\n"})
	src := filepath.Join(gittest.RealPath(t, t.TempDir()), "clone")
	gittest.Git(t, origin, "clone", "-q", "--shared", origin, src)
	r, base, to := change(t, origin, file("a", "2\n"))
	patch, err := r.Diff(gittest.Context(t), base.Hash, to, cache.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "b.bundle")
	f, err := os.Create(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.Bundle(gittest.Context(t), f, "b", base.Hash); err != nil {
		t.Fatal(err)
	}
	got, err := User{}.Toplevel(gittest.Context(t), src)
	if err != nil || got.Head != base.Hash || got.Dirty != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	gittest.WantKind(t, got.Borrows, api.KindUnsupported, "git repack")
	if err := (User{}).Apply(gittest.Context(t), src, strings.NewReader(string(patch)), ApplyOptions{Index: true}); err != nil {
		t.Error(err)
	}
	if err := (User{}).Import(gittest.Context(t), src, bundle, "b", to); err != nil {
		t.Error(err)
	}
	if got := gittest.Git(t, src, "rev-parse", "b"); got != to {
		t.Errorf("b is at %s", got)
	}
	gittest.Git(t, src, "fsck")
}

// TestAnswerIsBounded: what a program prints without an end is not kept.
func TestAnswerIsBounded(t *testing.T) {
	script := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = version ] && echo git version 2.40 && exit\nhead -c 40000000 /dev/zero\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := User{Program: script}.Setting(gittest.Context(t), "", "x")
	gittest.WantKind(t, err, api.KindExhausted, "larger")
}
