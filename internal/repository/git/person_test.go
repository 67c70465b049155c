package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// someone is a person with a home of their own and nothing of this machine's.
func someone(t *testing.T, more ...string) (p Person, home string) {
	t.Helper()
	home = real(t, t.TempDir())
	return Person{Environ: append([]string{"HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}, more...)}, home
}

func TestSetting(t *testing.T) {
	p, home := someone(t)
	src := newCheckout(t, nil)
	work := filepath.Join(home, "work")
	put(t, home, map[string]string{
		".gitconfig":  "[user]\n\tname = Ada\n\temail = ada@home\n[includeIf \"gitdir:" + work + "/\"]\n\tpath = work.config\n",
		"work.config": "[user]\n\temail = ada@work\n",
	})
	sh(t, home, "init", "-q", filepath.Join(work, "r"))
	sh(t, src, "config", "user.name", "Countess")
	for _, c := range []struct{ dir, key, want string }{
		{src, "user.name", "Countess"}, {src, "user.email", "ada@home"}, {src, "user.nothing", ""},
		{filepath.Join(work, "r"), "user.email", "ada@work"}, {home, "user.name", "Ada"},
	} {
		if got, err := p.Setting(patient(t), c.dir, c.key); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v", c.key, c.dir, got, err)
		}
	}
	t.Chdir(src)
	if got, err := p.Setting(patient(t), "", "user.name"); err != nil || got != "Countess" {
		t.Errorf("%q, %v", got, err)
	}
	// A hook has these set, for another repository.
	hook := Person{Environ: append(p.Environ, "GIT_DIR=/nowhere", "GIT_WORK_TREE=/nowhere", "GIT_INDEX_FILE=/nowhere")}
	if got, err := hook.Setting(patient(t), src, "user.name"); err != nil || got != "Countess" {
		t.Errorf("in a hook: %q, %v", got, err)
	}
	if _, err := hook.Toplevel(patient(t), src); err != nil {
		t.Errorf("in a hook: %v", err)
	}
	_, err := p.Setting(patient(t), src, "--list")
	wantKind(t, err, api.KindInvalid, "no setting")
	put(t, home, map[string]string{".gitconfig": "[user\n"})
	_, err = p.Setting(patient(t), src, "user.name")
	wantKind(t, err, api.KindInvalid, ".gitconfig")
	_, err = p.Toplevel(patient(t), src)
	wantKind(t, err, api.KindInvalid, ".gitconfig")
	_, err = Person{Program: "/no/such/git"}.Setting(patient(t), src, "x")
	wantKind(t, err, api.KindUnavailable, "install git")
}

func TestRemoteOfCheckout(t *testing.T) {
	p, home := someone(t)
	src := newCheckout(t, nil)
	for name, c := range map[string]struct{ url, want string }{
		"a": {"https://host/x.git", "https://host/x.git"}, "b": {"git@host:x/y.git", "git@host:x/y.git"}, "c": {"/srv/x.git", "/srv/x.git"},
		"d": {"ssh://host/x", "ssh://host/x"}, "e": {"../up", filepath.Join(filepath.Dir(src), "up")}, "f": {"gh:o/r", "https://github.com/o/r"},
	} {
		put(t, home, map[string]string{".gitconfig": "[url \"https://github.com/\"]\n\tinsteadOf = gh:\n"})
		sh(t, src, "remote", "add", name, c.url)
		if got, err := p.Remote(patient(t), src, name); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	sh(t, src, "remote", "set-url", "--push", "a", "git@host:x.git")
	if got, err := p.Remote(patient(t), src, "a"); err != nil || got != "git@host:x.git" {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"--help", "none", ""} {
		_, err := p.Remote(patient(t), src, name)
		wantKind(t, err, api.KindNotFound, "no remote")
	}
}

func TestCommitOfCheckout(t *testing.T) {
	src := newCheckout(t, nil)
	hash := sh(t, src, "rev-parse", "HEAD")
	sh(t, src, "tag", "-a", "-m", "x", "v1")
	bare := filepath.Join(t.TempDir(), "bare")
	sh(t, src, "clone", "-q", "--bare", src, bare)
	for _, dir := range []string{src, bare} {
		for _, name := range []string{"main", "HEAD", "v1", hash, hash[:8]} {
			if got, err := (Person{}).Commit(patient(t), dir, name); got != hash || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	for _, name := range []string{"none", "--all", "-h", "", strings.Repeat("0", 40), "HEAD:", "a\nb"} {
		got, err := Person{}.Commit(patient(t), src, name)
		if wantKind(t, err, api.KindNotFound, "no branch, tag or commit"); got != "" {
			t.Errorf("%q is %q", name, got)
		}
	}
}

// TestPersonsIgnores: what the person ignores everywhere is not called a change, and
// how they write line ends is none.
func TestPersonsIgnores(t *testing.T) {
	src := newCheckout(t, map[string]string{"a": "1\n2\n"})
	if err := os.Remove(filepath.Join(src, "a")); err != nil {
		t.Fatal(err)
	}
	sh(t, src, "-c", "core.autocrlf=true", "checkout", "--", "a")
	// A changed time makes git compare contents.
	if err := os.Chtimes(filepath.Join(src, "a"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	put(t, src, map[string]string{".DS_Store": "x"})
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
		put(t, home, c.files)
		if got, err := p.Toplevel(patient(t), src); err != nil || [2]int{got.Dirty, got.Untracked} != c.want {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
	p, home := someone(t)
	other := filepath.Join(home, "elsewhere")
	p.Environ = append(p.Environ, "XDG_CONFIG_HOME="+other)
	put(t, other, map[string]string{"git/ignore": ".DS_Store\n"})
	if got, err := p.Toplevel(patient(t), src); err != nil || got.Untracked != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSubmodule: its commit counts, what is in it does not, and nothing that it
// configures runs.
func TestSubmodule(t *testing.T) {
	sub := newCheckout(t, map[string]string{"x.txt": "1\n", ".gitattributes": "*.txt filter=evil\n"})
	src := newCheckout(t, map[string]string{"a": "1"})
	sh(t, src, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "dep")
	sh(t, src, "commit", "-qm", "dep")
	dep := filepath.Join(src, "dep")
	marker := filepath.Join(t.TempDir(), "ran")
	sh(t, dep, "config", "filter.evil.clean", "touch "+marker+"; cat")
	sh(t, dep, "config", "core.fsmonitor", "touch "+marker)
	put(t, dep, map[string]string{"x.txt": "22\n"})
	if got, err := (Person{}).Toplevel(patient(t), src); err != nil || got.Dirty != 0 || got.Submodules != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (Person{}).Toplevel(patient(t), dep); err != nil || got.Root != dep || got.Dirty != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("looking ran a program of the submodule")
	}
	try(t, src, "status")
	if _, err := os.Stat(marker); err != nil {
		t.Error("control: git status did not run it")
	}
	sh(t, dep, "-c", "core.fsmonitor=false", "commit", "-q", "--allow-empty", "-m", "next")
	if got, err := (Person{}).Toplevel(patient(t), src); err != nil || got.Dirty != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPatchPaths: renames, names that need quotes, binaries and white space.
func TestPatchPaths(t *testing.T) {
	src := newCheckout(t, map[string]string{"a.txt": "one\ntwo\nthree\n", "dir/b.txt": "b\n", "old name": strings.Repeat("some line\n", 20)})
	put(t, src, map[string]string{"a.txt": "one\nTWO   \nthree\n", "sub/new \"quoted\"\n.txt": "new\n", "bin": "\x00\x01\x02"})
	sh(t, src, "mv", "old name", "new name")
	sh(t, src, "rm", "-q", "dir/b.txt")
	sh(t, src, "add", "-A")
	sh(t, src, "commit", "-qm", "work")
	patch, err := try(t, src, "diff", "--binary", "-M", "HEAD~", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	sh(t, src, "reset", "-q", "--hard", "HEAD~")
	paths, err := Person{}.Touched(patient(t), []byte(patch))
	want := []string{"a.txt", "bin", "dir/b.txt", "new name", "old name", "sub/new \"quoted\"\n.txt"}
	if err != nil || strings.Join(paths, "|") != strings.Join(want, "|") {
		t.Fatalf("%q, %v", paths, err)
	}
	// Where it is run does not matter, inside of a checkout neither.
	t.Chdir(filepath.Join(src))
	stats, err := Person{}.Stat(patient(t), []byte(patch))
	if err != nil || len(stats) != 5 || stats[0] != (Stat{Path: "a.txt", Added: 1, Deleted: 1}) || !stats[1].Binary {
		t.Errorf("%+v, %v", stats, err)
	}
	for _, bad := range []string{"garbage", "diff --git a/x b/x\n@@ nonsense\n"} {
		_, err := Person{}.Stat(patient(t), []byte(bad))
		wantKind(t, err, api.KindInvalid, "cannot read the patch")
		_, err = Person{}.Touched(patient(t), []byte(bad))
		wantKind(t, err, api.KindInvalid, "cannot read the patch")
	}
	changed := func(want int) {
		t.Helper()
		if c, err := (Person{}).Changed(patient(t), src, paths); len(c) != want || err != nil {
			t.Errorf("%q, %v", c, err)
		}
	}
	changed(0)
	// What a person has set for white space does not change what was verified.
	p, home := someone(t)
	put(t, home, map[string]string{".gitconfig": "[apply]\n\twhitespace = fix\n\tignoreWhitespace = change\n"})
	sh(t, src, "config", "apply.whitespace", "fix")
	if err := p.Apply(patient(t), src, strings.NewReader(patch), ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.txt": "one\nTWO   \nthree\n", "bin": "\x00\x01\x02", "sub/new \"quoted\"\n.txt": "new\n"} {
		if b, err := os.ReadFile(filepath.Join(src, name)); string(b) != text {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
	if staged := sh(t, src, "diff", "--cached", "--name-only"); staged != "" {
		t.Errorf("staged: %s", staged)
	}
	changed(len(paths))
	many := make([]string, 3*atOnce)
	for i := range many {
		many[i] = "none"
	}
	paths = append(many, "a.txt", "*")
	changed(1)
}

// TestBorrowed: a clone that shares objects may be brought a result.
func TestBorrowed(t *testing.T) {
	origin := newCheckout(t, map[string]string{"a": "1\n"})
	src := filepath.Join(real(t, t.TempDir()), "clone")
	sh(t, origin, "clone", "-q", "--shared", origin, src)
	r, base, to := change(t, origin, file("a", "2\n"))
	patch, err := r.Diff(patient(t), base.Hash, to, DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "b.bundle")
	f, err := os.Create(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.Bundle(patient(t), f, "b", base.Hash); err != nil {
		t.Fatal(err)
	}
	got, err := Person{}.Toplevel(patient(t), src)
	if err != nil || got.Head != base.Hash || got.Dirty != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	wantKind(t, got.Borrows, api.KindUnsupported, "git repack")
	if err := (Person{}).Apply(patient(t), src, strings.NewReader(string(patch)), ApplyOptions{Index: true}); err != nil {
		t.Error(err)
	}
	if err := (Person{}).Import(patient(t), src, bundle, "b", to); err != nil {
		t.Error(err)
	}
	if got := sh(t, src, "rev-parse", "b"); got != to {
		t.Errorf("b is at %s", got)
	}
	sh(t, src, "fsck")
}

func TestWithoutSecret(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:pass@host/a": "https://host/a", "https://token@host/a": "https://host/a", "http://u@h/x": "http://h/x", "https://u:p@h": "https://h",
		"ssh://git:pass@host/a": "ssh://host/a", "ssh://git@host/a": "ssh://git@host/a", "ssh://git@host:22/a": "ssh://git@host:22/a", "git@host:a": "git@host:a",
		"/srv/a@b": "/srv/a@b", "https://host/a@b": "https://host/a@b", "https://u:%zz@host/a": "https://host/a", "https://a@b@host:8/x": "https://host:8/x",
	} {
		if got := WithoutSecret(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestAnswerIsBounded: what a program prints without an end is not kept.
func TestAnswerIsBounded(t *testing.T) {
	script := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = version ] && echo git version 2.40 && exit\nhead -c 40000000 /dev/zero\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Person{Program: script}.Setting(patient(t), "", "x")
	wantKind(t, err, api.KindExhausted, "larger")
}
