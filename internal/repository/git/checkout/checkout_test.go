package checkout

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/test/gittest"
)

func TestToplevel(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"dir/a": "1", ".gitignore": "ignored\n"})
	gittest.Git(t, src, "remote", "add", "origin", "https://alice:secret@example.org/x.git")
	want := Info{Root: src, Head: gittest.Git(t, src, "rev-parse", "HEAD"), Branch: "main", Origin: "https://example.org/x.git"}
	check := func() {
		t.Helper()
		got, err := User{}.Toplevel(gittest.Context(t), filepath.Join(src, "dir"))
		if err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	gittest.WriteFiles(t, src, map[string]string{"ignored": "x"})
	check()
	gittest.WriteFiles(t, src, map[string]string{"new": "x"})
	want.Untracked = 1
	check()
	gittest.WriteFiles(t, src, map[string]string{".git/info/exclude": "new\n"})
	want.Untracked = 0
	check()
	gittest.WriteFiles(t, src, map[string]string{"dir/a": "2"})
	want.Dirty = 1
	check()
	gittest.Git(t, src, "add", "-A")
	check()
	gittest.Git(t, src, "update-index", "--split-index")
	check()
	gittest.Git(t, src, "commit", "-qm", "second")
	gittest.Git(t, src, "checkout", "-q", "--detach")
	want.Dirty, want.Branch, want.Head = 0, "", gittest.Git(t, src, "rev-parse", "HEAD")
	check()

	before := gittest.Git(t, src, "ls-files", "--stage", "--debug")
	check()
	if gittest.Git(t, src, "ls-files", "--stage", "--debug") != before {
		t.Error("looking changed the index")
	}
	empty := gittest.RealPath(t, t.TempDir())
	gittest.Git(t, empty, "init", "-q", "-b", "trunk")
	if got, err := (User{}).Toplevel(gittest.Context(t), empty); err != nil || got != (Info{Root: empty, Branch: "trunk"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	bare := filepath.Join(gittest.RealPath(t, t.TempDir()), "bare.git")
	gittest.Git(t, src, "clone", "-q", "--bare", src, bare)
	if got, err := (User{}).Toplevel(gittest.Context(t), bare); err != nil || got != (Info{Root: bare, Bare: true, Head: want.Head, Branch: got.Branch, Origin: src}) {
		t.Errorf("got %+v, %v", got, err)
	}
	gittest.WantKind(t, User{}.Apply(gittest.Context(t), bare, strings.NewReader("x"), ApplyOptions{}), api.KindInvalid, "no work tree")
	_, err := User{}.Toplevel(gittest.Context(t), filepath.Join(empty, "none"))
	gittest.WantKind(t, err, api.KindNotFound, "not found")
	gittest.WriteFiles(t, src, map[string]string{"a file": "x"})
	_, err = User{}.Toplevel(gittest.Context(t), filepath.Join(src, "a file"))
	gittest.WantKind(t, err, api.KindNotFound, "is not a directory")
	_, err = User{}.Toplevel(gittest.Context(t), gittest.RealPath(t, t.TempDir()))
	gittest.WantKind(t, err, api.KindNotFound, "git init")
	_, err = User{}.Toplevel(gittest.Context(t), "relative")
	gittest.WantKind(t, err, api.KindInvalid, "absolute")
	_, err = User{Program: "/no/such/git"}.Toplevel(gittest.Context(t), src)
	gittest.WantKind(t, err, api.KindUnavailable, "install git")
}

func TestApply(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\ntwo\nthree\n", "gone": "x\n", "bin": "\x00\x01\x02"})
	r, base, to := change(t, src, file("a.txt", "one\n2\nthree\n"), cache.Change{Path: "gone", Delete: true}, file("bin", "\x00\x03"), file("sub/new", "n\n"), link("l", "a.txt"))
	patch, err := r.Diff(gittest.Context(t), base.Hash, to, cache.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(opt ApplyOptions) error {
		return User{}.Apply(gittest.Context(t), src, bytes.NewReader(patch), opt)
	}
	status := func() string { return gittest.Git(t, src, "status", "--porcelain", "-uall") }

	if err := apply(ApplyOptions{Check: true}); err != nil || status() != "" {
		t.Fatalf("check: %v, %s", err, status())
	}
	if err := apply(ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(src, "bin")); string(b) != "\x00\x03" {
		t.Errorf("bin is %q", b)
	}
	gittest.Git(t, src, "add", "-A")
	if tree, want := gittest.Git(t, src, "write-tree"), treeOf(t, src, r, to); tree != want {
		t.Errorf("the tree is %s, want %s", tree, want)
	}
	gittest.Git(t, src, "reset", "-q", "--hard")
	if err := apply(ApplyOptions{Index: true}); err != nil {
		t.Fatal(err)
	}
	if out := gittest.Git(t, src, "status", "--porcelain", "-uall"); strings.Contains(out, "??") || !strings.Contains(out, "A  sub/new") {
		t.Errorf("status:\n%s", out)
	}
	gittest.Git(t, src, "reset", "-q", "--hard")

	// One file in the way: nothing is changed, and the file is named.
	gittest.WriteFiles(t, src, map[string]string{"a.txt": "one\nTWO\nthree\n"})
	for _, opt := range []ApplyOptions{{}, {Check: true}, {Index: true}, {ThreeWay: true}} {
		gittest.WantKind(t, apply(opt), api.KindConflict, "a.txt")
		if got := status(); got != "M a.txt" {
			t.Errorf("%+v changed:\n%s", opt, got)
		}
	}
	gittest.Git(t, src, "commit", "-qam", "mine")
	gittest.WantKind(t, apply(ApplyOptions{ThreeWay: true}), api.KindConflict, "a.txt")
	if got := status(); got != "" {
		t.Errorf("a merge that conflicts changed:\n%s", got)
	}
	// What does not fit by its lines and merges.
	gittest.Git(t, src, "reset", "-q", "--hard", base.Hash)
	gittest.WriteFiles(t, src, map[string]string{"a.txt": "ONE\none\ntwo\nthree\nfour\nfive\n"})
	gittest.Git(t, src, "commit", "-qam", "mine")
	if err := apply(ApplyOptions{ThreeWay: true}); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(filepath.Join(src, "a.txt")); string(b) != "ONE\none\n2\nthree\nfour\nfive\n" {
		t.Errorf("a.txt is %q", b)
	}
	gittest.WantKind(t, User{}.Apply(gittest.Context(t), src, strings.NewReader("garbage"), ApplyOptions{}), api.KindInvalid, "")
	gittest.WantKind(t, User{}.Apply(gittest.Context(t), src, bytes.NewReader(patch), ApplyOptions{Max: 10}), api.KindExhausted, "10 bytes")
	if err := (User{}).Apply(gittest.Context(t), src, strings.NewReader("\n"), ApplyOptions{}); err != nil {
		t.Error(err)
	}
}

// TestApplyStaysInside: patches that reach for what is not in the checkout.
func TestApplyStaysInside(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1\n"})
	outside := gittest.RealPath(t, t.TempDir())
	if err := os.Symlink(outside, filepath.Join(src, "server")); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, src, "add", "-A")
	gittest.Git(t, src, "commit", "-qm", "server")
	add := func(p string) string {
		return "diff --git a/" + p + " b/" + p + "\nnew file mode 100755\n--- /dev/null\n+++ b/" + p + "\n@@ -0,0 +1 @@\n+x\n"
	}
	made := "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+" + outside + "\n\\ No newline at end of file\n" + add("l/x")
	for name, patch := range map[string]string{"up": add("../x"), "link": add("server/x"), "own link": made, "hook": add(".git/hooks/pre-commit"), "HOOK": add(".GIT/hooks/pre-commit"), "short": add("git~1/config"), "deep": add("dir/../../evil"), "inner": add("dir/.git/evil")} {
		for _, opt := range []ApplyOptions{{}, {Index: true}, {ThreeWay: true}} {
			gittest.WantKind(t, User{}.Apply(gittest.Context(t), src, strings.NewReader(patch), opt), api.KindDenied, "")
		}
		if out := gittest.Git(t, src, "status", "--porcelain", "-uall"); out != "" {
			t.Errorf("%s: %s", name, out)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("outside: %v", left)
	}
	if err := (User{}).Apply(gittest.Context(t), src, strings.NewReader(add("x")), ApplyOptions{}); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestBundleAndImport(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	r, base, to := change(t, src, file("a", "2"), file("b", "new"))
	bundle := filepath.Join(t.TempDir(), "x.bundle")
	write := func(name, base string) {
		t.Helper()
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := r.Bundle(gittest.Context(t), f, "b", base); err != nil {
			t.Fatal(err)
		}
	}
	write(bundle, base.Hash)
	gittest.Git(t, src, "bundle", "verify", "-q", bundle)
	for range 2 { // the second finds it there
		if err := (User{}).Import(gittest.Context(t), src, bundle, "b", to); err != nil {
			t.Fatal(err)
		}
	}
	if got := gittest.Git(t, src, "rev-parse", "refs/heads/b"); got != to {
		t.Errorf("b is at %s", got)
	}
	if got := gittest.Git(t, src, "status", "--porcelain", "--branch"); got != "## main" {
		t.Errorf("status: %s", got)
	}
	if got := gittest.Git(t, src, "for-each-ref", "--format=%(refname)"); got != "refs/heads/b\nrefs/heads/main" {
		t.Errorf("refs: %s", got)
	}
	gittest.Git(t, src, "fsck")
	gittest.Git(t, src, "update-ref", "refs/heads/b", base.Hash)
	gittest.WantKind(t, User{}.Import(gittest.Context(t), src, bundle, "b", to), api.KindExists, "already")
	if got := gittest.Git(t, src, "rev-parse", "b"); got != base.Hash {
		t.Errorf("b was overwritten: %s", got)
	}
	gittest.Git(t, src, "branch", "-D", "b")
	gittest.Git(t, src, "branch", "b/c")
	gittest.WantKind(t, User{}.Import(gittest.Context(t), src, bundle, "b", to), api.KindConflict, "cannot be written")
	gittest.Git(t, src, "branch", "-D", "b/c")
	gittest.Git(t, src, "checkout", "-q", "--orphan", "b")
	gittest.WantKind(t, User{}.Import(gittest.Context(t), src, bundle, "b", to), api.KindConflict, "checked out")
	gittest.Git(t, src, "checkout", "-qf", "main")

	other := gittest.NewCheckout(t, map[string]string{"z": "z"})
	gittest.WantKind(t, User{}.Import(gittest.Context(t), other, bundle, "b", to), api.KindConflict, "git fetch")
	for _, name := range []string{"-f", "a..b", "x y", "HEAD:", "@{-1}", "a\nb", "refs/../x", "", "refs/heads/x", "HEAD"} {
		gittest.WantKind(t, User{}.Import(gittest.Context(t), src, bundle, name, to), api.KindInvalid, "")
	}
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	gittest.WriteFiles(t, filepath.Dir(nonsense), map[string]string{"nonsense": "# v2 git bundle\nnonsense"})
	gittest.WantKind(t, User{}.Import(gittest.Context(t), src, nonsense, "y", to), api.KindInvalid, "the bundle")
	gittest.WantKind(t, User{}.Import(gittest.Context(t), src, bundle, "nope", base.Hash), api.KindInvalid, "does not contain")
	gittest.WantKind(t, User{}.Import(gittest.Context(t), src, filepath.Dir(bundle), "c", to), api.KindInvalid, "")
	whole := filepath.Join(t.TempDir(), "whole.bundle")
	write(whole, "")
	if err := (User{}).Import(gittest.Context(t), other, whole, "b", to); err != nil {
		t.Error(err)
	}
	var w bytes.Buffer
	gittest.WantKind(t, r.Bundle(gittest.Context(t), &w, "b", to), api.KindConflict, "no commit")
	gittest.WantKind(t, r.Bundle(gittest.Context(t), &w, "nope", ""), api.KindNotFound, "nope")

	// A linked work tree has the same branches.
	linked := filepath.Join(gittest.RealPath(t, t.TempDir()), "linked")
	gittest.Git(t, src, "worktree", "add", "-q", "-b", "side", linked)
	if err := (User{}).Import(gittest.Context(t), linked, bundle, "b", to); err != nil {
		t.Error(err)
	}
	if got := gittest.Git(t, src, "rev-parse", "b"); got != to {
		t.Errorf("b is at %s", got)
	}
}
