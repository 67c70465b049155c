package git

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

// change commits to a checkout's commit in a cache, and gives the repository and the
// commit, on the branch b.
func change(t *testing.T, src string, changes ...Change) (*Repo, Commit, string) {
	t.Helper()
	r := fetch(t, newCache(t), src)
	base := head(t, r)
	res, err := r.Commit(patient(t), request(base.Hash, changes...))
	if err != nil || len(res.Refused) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := r.SetBranch(patient(t), "b", res.Hash); err != nil {
		t.Fatal(err)
	}
	return r, base, res.Hash
}

func TestToplevel(t *testing.T) {
	src := newCheckout(t, map[string]string{"dir/a": "1", ".gitignore": "ignored\n"})
	sh(t, src, "remote", "add", "origin", "https://alice:secret@example.org/x.git")
	want := Checkout{Root: src, Head: sh(t, src, "rev-parse", "HEAD"), Branch: "main", Origin: "https://example.org/x.git"}
	check := func() {
		t.Helper()
		got, err := Person{}.Toplevel(patient(t), filepath.Join(src, "dir"))
		if err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	put(t, src, map[string]string{"ignored": "x"})
	check()
	put(t, src, map[string]string{"new": "x"})
	want.Untracked = 1
	check()
	put(t, src, map[string]string{".git/info/exclude": "new\n"})
	want.Untracked = 0
	check()
	put(t, src, map[string]string{"dir/a": "2"})
	want.Dirty = 1
	check()
	sh(t, src, "add", "-A")
	check()
	sh(t, src, "update-index", "--split-index")
	check()
	sh(t, src, "commit", "-qm", "second")
	sh(t, src, "checkout", "-q", "--detach")
	want.Dirty, want.Branch, want.Head = 0, "", sh(t, src, "rev-parse", "HEAD")
	check()

	before := sh(t, src, "ls-files", "--stage", "--debug")
	check()
	if sh(t, src, "ls-files", "--stage", "--debug") != before {
		t.Error("looking changed the index")
	}
	empty := real(t, t.TempDir())
	sh(t, empty, "init", "-q", "-b", "trunk")
	if got, err := (Person{}).Toplevel(patient(t), empty); err != nil || got != (Checkout{Root: empty, Branch: "trunk"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	bare := filepath.Join(real(t, t.TempDir()), "bare.git")
	sh(t, src, "clone", "-q", "--bare", src, bare)
	if got, err := (Person{}).Toplevel(patient(t), bare); err != nil || got != (Checkout{Root: bare, Bare: true, Head: want.Head, Branch: got.Branch, Origin: src}) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantKind(t, Person{}.Apply(patient(t), bare, strings.NewReader("x"), ApplyOptions{}), api.KindInvalid, "no work tree")
	_, err := Person{}.Toplevel(patient(t), filepath.Join(empty, "none"))
	wantKind(t, err, api.KindNotFound, "no directory")
	put(t, src, map[string]string{"a file": "x"})
	_, err = Person{}.Toplevel(patient(t), filepath.Join(src, "a file"))
	wantKind(t, err, api.KindNotFound, "no directory")
	_, err = Person{}.Toplevel(patient(t), real(t, t.TempDir()))
	wantKind(t, err, api.KindNotFound, "git init")
	_, err = Person{}.Toplevel(patient(t), "relative")
	wantKind(t, err, api.KindInvalid, "absolute")
	_, err = Person{Program: "/no/such/git"}.Toplevel(patient(t), src)
	wantKind(t, err, api.KindUnavailable, "install git")
}

func TestApply(t *testing.T) {
	src := newCheckout(t, map[string]string{"a.txt": "one\ntwo\nthree\n", "gone": "x\n", "bin": "\x00\x01\x02"})
	r, base, to := change(t, src, file("a.txt", "one\n2\nthree\n"), Change{Path: "gone", Delete: true}, file("bin", "\x00\x03"), file("sub/new", "n\n"), link("l", "a.txt"))
	patch, err := r.Diff(patient(t), base.Hash, to, DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(opt ApplyOptions) error { return Person{}.Apply(patient(t), src, bytes.NewReader(patch), opt) }
	status := func() string { return sh(t, src, "status", "--porcelain", "-uall") }

	if err := apply(ApplyOptions{Check: true}); err != nil || status() != "" {
		t.Fatalf("check: %v, %s", err, status())
	}
	if err := apply(ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(src, "bin")); string(b) != "\x00\x03" {
		t.Errorf("bin is %q", b)
	}
	sh(t, src, "add", "-A")
	if tree, want := sh(t, src, "write-tree"), sh(t, r.dir, "rev-parse", to+"^{tree}"); tree != want {
		t.Errorf("the tree is %s, want %s", tree, want)
	}
	sh(t, src, "reset", "-q", "--hard")
	if err := apply(ApplyOptions{Index: true}); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, src, "status", "--porcelain", "-uall"); strings.Contains(out, "??") || !strings.Contains(out, "A  sub/new") {
		t.Errorf("status:\n%s", out)
	}
	sh(t, src, "reset", "-q", "--hard")

	// One file in the way: nothing is changed, and the file is named.
	put(t, src, map[string]string{"a.txt": "one\nTWO\nthree\n"})
	for _, opt := range []ApplyOptions{{}, {Check: true}, {Index: true}, {ThreeWay: true}} {
		wantKind(t, apply(opt), api.KindConflict, "a.txt")
		if got := status(); got != "M a.txt" {
			t.Errorf("%+v changed:\n%s", opt, got)
		}
	}
	sh(t, src, "commit", "-qam", "mine")
	wantKind(t, apply(ApplyOptions{ThreeWay: true}), api.KindConflict, "a.txt")
	if got := status(); got != "" {
		t.Errorf("a merge that conflicts changed:\n%s", got)
	}
	// What does not fit by its lines and merges.
	sh(t, src, "reset", "-q", "--hard", base.Hash)
	put(t, src, map[string]string{"a.txt": "ONE\none\ntwo\nthree\nfour\nfive\n"})
	sh(t, src, "commit", "-qam", "mine")
	if err := apply(ApplyOptions{ThreeWay: true}); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(filepath.Join(src, "a.txt")); string(b) != "ONE\none\n2\nthree\nfour\nfive\n" {
		t.Errorf("a.txt is %q", b)
	}
	wantKind(t, Person{}.Apply(patient(t), src, strings.NewReader("garbage"), ApplyOptions{}), api.KindInvalid, "")
	wantKind(t, Person{}.Apply(patient(t), src, bytes.NewReader(patch), ApplyOptions{Max: 10}), api.KindExhausted, "10 bytes")
	if err := (Person{}).Apply(patient(t), src, strings.NewReader("\n"), ApplyOptions{}); err != nil {
		t.Error(err)
	}
}

// TestApplyStaysInside: patches that reach for what is not in the checkout.
func TestApplyStaysInside(t *testing.T) {
	src := newCheckout(t, map[string]string{"a": "1\n"})
	outside := real(t, t.TempDir())
	if err := os.Symlink(outside, filepath.Join(src, "door")); err != nil {
		t.Fatal(err)
	}
	sh(t, src, "add", "-A")
	sh(t, src, "commit", "-qm", "door")
	add := func(p string) string {
		return "diff --git a/" + p + " b/" + p + "\nnew file mode 100755\n--- /dev/null\n+++ b/" + p + "\n@@ -0,0 +1 @@\n+x\n"
	}
	made := "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+" + outside + "\n\\ No newline at end of file\n" + add("l/x")
	for name, patch := range map[string]string{"up": add("../x"), "link": add("door/x"), "own link": made, "hook": add(".git/hooks/pre-commit"), "HOOK": add(".GIT/hooks/pre-commit"), "short": add("git~1/config"), "deep": add("dir/../../evil"), "inner": add("dir/.git/evil")} {
		for _, opt := range []ApplyOptions{{}, {Index: true}, {ThreeWay: true}} {
			wantKind(t, Person{}.Apply(patient(t), src, strings.NewReader(patch), opt), api.KindDenied, "")
		}
		if out := sh(t, src, "status", "--porcelain", "-uall"); out != "" {
			t.Errorf("%s: %s", name, out)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("outside: %v", left)
	}
	if err := (Person{}).Apply(patient(t), src, strings.NewReader(add("x")), ApplyOptions{}); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestBundleAndImport(t *testing.T) {
	src := newCheckout(t, map[string]string{"a": "1"})
	r, base, to := change(t, src, file("a", "2"), file("b", "new"))
	bundle := filepath.Join(t.TempDir(), "x.bundle")
	write := func(name, base string) {
		t.Helper()
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := r.Bundle(patient(t), f, "b", base); err != nil {
			t.Fatal(err)
		}
	}
	write(bundle, base.Hash)
	sh(t, src, "bundle", "verify", "-q", bundle)
	for range 2 { // the second finds it there
		if err := (Person{}).Import(patient(t), src, bundle, "b", to); err != nil {
			t.Fatal(err)
		}
	}
	if got := sh(t, src, "rev-parse", "refs/heads/b"); got != to {
		t.Errorf("b is at %s", got)
	}
	if got := sh(t, src, "status", "--porcelain", "--branch"); got != "## main" {
		t.Errorf("status: %s", got)
	}
	if got := sh(t, src, "for-each-ref", "--format=%(refname)"); got != "refs/heads/b\nrefs/heads/main" {
		t.Errorf("refs: %s", got)
	}
	sh(t, src, "fsck")
	sh(t, src, "update-ref", "refs/heads/b", base.Hash)
	wantKind(t, Person{}.Import(patient(t), src, bundle, "b", to), api.KindExists, "already")
	if got := sh(t, src, "rev-parse", "b"); got != base.Hash {
		t.Errorf("b was overwritten: %s", got)
	}
	sh(t, src, "branch", "-D", "b")
	sh(t, src, "branch", "b/c")
	wantKind(t, Person{}.Import(patient(t), src, bundle, "b", to), api.KindConflict, "cannot be written")
	sh(t, src, "branch", "-D", "b/c")
	sh(t, src, "checkout", "-q", "--orphan", "b")
	wantKind(t, Person{}.Import(patient(t), src, bundle, "b", to), api.KindConflict, "checked out")
	sh(t, src, "checkout", "-qf", "main")

	other := newCheckout(t, map[string]string{"z": "z"})
	wantKind(t, Person{}.Import(patient(t), other, bundle, "b", to), api.KindConflict, "git fetch")
	for _, name := range []string{"-f", "a..b", "x y", "HEAD:", "@{-1}", "a\nb", "refs/../x", "", "refs/heads/x", "HEAD"} {
		wantKind(t, Person{}.Import(patient(t), src, bundle, name, to), api.KindInvalid, "")
	}
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	put(t, filepath.Dir(nonsense), map[string]string{"nonsense": "# v2 git bundle\nnonsense"})
	wantKind(t, Person{}.Import(patient(t), src, nonsense, "y", to), api.KindInvalid, "the bundle")
	wantKind(t, Person{}.Import(patient(t), src, bundle, "nope", base.Hash), api.KindInvalid, "does not hold")
	wantKind(t, Person{}.Import(patient(t), src, filepath.Dir(bundle), "c", to), api.KindInvalid, "")
	whole := filepath.Join(t.TempDir(), "whole.bundle")
	write(whole, "")
	if err := (Person{}).Import(patient(t), other, whole, "b", to); err != nil {
		t.Error(err)
	}
	var w bytes.Buffer
	wantKind(t, r.Bundle(patient(t), &w, "b", to), api.KindConflict, "no commit")
	wantKind(t, r.Bundle(patient(t), &w, "nope", ""), api.KindNotFound, "nope")

	// A linked work tree has the same branches.
	linked := filepath.Join(real(t, t.TempDir()), "linked")
	sh(t, src, "worktree", "add", "-q", "-b", "side", linked)
	if err := (Person{}).Import(patient(t), linked, bundle, "b", to); err != nil {
		t.Error(err)
	}
	if got := sh(t, src, "rev-parse", "b"); got != to {
		t.Errorf("b is at %s", got)
	}
}

func TestPushToPath(t *testing.T) {
	src := newCheckout(t, map[string]string{"a": "1"})
	r, base, to := change(t, src, file("a", "2"))
	q := PushRequest{Source: Source{URL: src}, Commit: to, Branch: "hortus/x"}
	if got, err := r.Push(patient(t), q); err != nil || !got.Created {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := r.Push(patient(t), q); err != nil || !got.UpToDate {
		t.Errorf("%+v, %v", got, err)
	}
	sh(t, src, "fsck")
	q.Branch = "main"
	q.Expect = base.Hash
	_, err := r.Push(patient(t), q)
	wantKind(t, err, api.KindConflict, "checked out")
	sh(t, src, "update-ref", "refs/heads/hortus/x", base.Hash)
	q.Branch, q.Expect = "hortus/x", ""
	_, err = r.Push(patient(t), q)
	wantKind(t, err, api.KindConflict, "somebody else")
	q.Expect = base.Hash
	if got, err := r.Push(patient(t), q); err != nil || got.Created {
		t.Errorf("%+v, %v", got, err)
	}
	bare := filepath.Join(real(t, t.TempDir()), "bare.git")
	sh(t, src, "clone", "-q", "--bare", src, bare)
	if got, err := r.Push(patient(t), PushRequest{Source: Source{URL: bare}, Commit: to, Branch: "y"}); err != nil || !got.Created {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestShallowCheckout goes all the way with what a CI has: a clone of depth 1.
func TestShallowCheckout(t *testing.T) {
	full := newCheckout(t, map[string]string{"a": "1"})
	put(t, full, map[string]string{"a": "2"})
	sh(t, full, "commit", "-qam", "second")
	src := filepath.Join(real(t, t.TempDir()), "clone")
	sh(t, full, "clone", "-q", "--depth=1", "file://"+full, src)
	r, base, to := change(t, src, file("a", "3"))
	bundle := filepath.Join(t.TempDir(), "b.bundle")
	f, err := os.Create(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.Bundle(patient(t), f, "b", base.Hash); err != nil {
		t.Fatal(err)
	}
	if err := (Person{}).Import(patient(t), src, bundle, "b", to); err != nil {
		t.Error(err)
	}
	if _, err := r.Push(patient(t), PushRequest{Source: Source{URL: src}, Commit: to, Branch: "c"}); err != nil {
		t.Error(err)
	}
	s := newServer(t, true)
	url, dir := s.bare(t, full, "a.git")
	if _, err := r.Push(patient(t), PushRequest{Source: Source{URL: url}, Commit: to, Branch: "d"}); err != nil {
		t.Error(err)
	}
	for _, ref := range []string{"b", "c"} {
		if got := sh(t, src, "rev-parse", ref); got != to {
			t.Errorf("%s is at %s", ref, got)
		}
	}
	if got := sh(t, dir, "rev-list", "--count", "d"); got != "3" {
		t.Errorf("%s commits were pushed to", got)
	}
	sh(t, src, "fsck")
}
