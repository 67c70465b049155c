package checkout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/checkout"
)

// environ is that of a person whose git knows nothing but this test.
func environ(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}, more...)
}

// world is a home directory with a repository in it.
type world struct {
	t    *testing.T
	home string
	root string
	git  *checkout.Git
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: ", err)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: home, root: filepath.Join(home, "repo"), git: checkout.New("", environ(home))}
	w.run(home, "init", "-q", "-b", "main", w.root)
	w.run(w.root, "config", "user.name", "Ada")
	w.run(w.root, "config", "user.email", "ada@example.com")
	w.write("a.txt", "one\ntwo\nthree\n")
	w.write("dir/b.txt", "b\n")
	w.write(".gitignore", "*.log\n")
	w.commit("first")
	return w
}

func (w *world) run(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, environ(w.home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) commit(message string) string {
	w.t.Helper()
	w.run(w.root, "add", "-A")
	w.run(w.root, "commit", "-q", "--allow-empty", "-m", message)
	return w.run(w.root, "rev-parse", "HEAD")
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil {
		return "<" + err.Error() + ">"
	}
	return string(b)
}

func TestFind(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	head := w.run(w.root, "rev-parse", "HEAD")
	w.write("a.txt", "changed\n")
	w.write("new file", "x")
	w.write("x.log", "ignored")
	w.run(w.root, "remote", "add", "origin", "../upstream")
	got, err := w.git.Find(ctx, filepath.Join(w.root, "dir"))
	want := checkout.Tree{Root: w.root, Head: head, Branch: "main", Dirty: 2, Origin: filepath.Join(w.home, "upstream")}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	// A hook has these set, for another repository.
	hook := checkout.New("", environ(w.home, "GIT_DIR=/nowhere", "GIT_WORK_TREE=/nowhere", "GIT_INDEX_FILE=/nowhere"))
	if got, err := hook.Find(ctx, w.root); err != nil || got != want {
		t.Errorf("in a hook: %+v, %v", got, err)
	}
	w.run(w.root, "checkout", "-q", "--detach", "-f")
	if got, err := w.git.Find(ctx, w.root); err != nil || got.Branch != "" || got.Head != head {
		t.Errorf("detached: %+v, %v", got, err)
	}
	bare := filepath.Join(w.home, "bare.git")
	w.run(w.home, "clone", "-q", "--bare", w.root, bare)
	if got, err := w.git.Find(ctx, bare); err != nil || !got.Bare || got.Root != bare || got.Head != head {
		t.Errorf("bare: %+v, %v", got, err)
	}
	fresh := filepath.Join(w.home, "fresh")
	w.run(w.home, "init", "-q", "-b", "main", fresh)
	if got, err := w.git.Find(ctx, fresh); err != nil || got.Head != "" || got.Branch != "main" {
		t.Errorf("without a commit: %+v, %v", got, err)
	}
	for dir, kind := range map[string]api.Kind{w.home: api.KindNotFound, filepath.Join(w.home, "none"): api.KindNotFound} {
		if _, err := w.git.Find(ctx, dir); api.KindOf(err) != kind {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := checkout.New("/nowhere/git", environ(w.home)).Find(ctx, w.root); api.KindOf(err) != api.KindUnsupported || api.HintOf(err) == "" {
		t.Errorf("without git: %v", err)
	}
}

func TestSettingCommitRemote(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if v, err := w.git.Setting(ctx, w.root, "user.name"); v != "Ada" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if v, err := w.git.Setting(ctx, w.root, "user.nothing"); v != "" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	head := w.run(w.root, "rev-parse", "HEAD")
	for _, name := range []string{"main", "HEAD", head[:8]} {
		if v, err := w.git.Commit(ctx, w.root, name); v != head || err != nil {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
	for _, name := range []string{"none", "--all", "-h", ""} {
		if v, err := w.git.Commit(ctx, w.root, name); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%q: %q, %v", name, v, err)
		}
	}
	for name, url := range map[string]string{"a": "https://host/x.git", "b": "git@host:x/y.git", "c": "/srv/x.git", "d": "ssh://host/x"} {
		w.run(w.root, "remote", "add", name, url)
		if v, err := w.git.Remote(ctx, w.root, name); v != url || err != nil {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
	if _, err := w.git.Remote(ctx, w.root, "--help"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("%v", err)
	}
}

// patch commits a change and goes back to where it was; it gives the patch, the
// commit, and the commit before.
func (w *world) patch(change func()) (patch []byte, commit, base string) {
	w.t.Helper()
	base = w.run(w.root, "rev-parse", "HEAD")
	change()
	commit = w.commit("work")
	cmd := exec.Command("git", "diff", "--binary", "-M", base, commit)
	cmd.Dir, cmd.Env = w.root, environ(w.home)
	patch, err := cmd.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(w.root, "reset", "-q", "--hard", base)
	return patch, commit, base
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.write("old name", strings.Repeat("some line\n", 20))
	w.commit("second")
	patch, _, _ := w.patch(func() {
		w.write("a.txt", "one\nTWO   \nthree\n")
		w.write("sub/new \"quoted\"\n.txt", "new\n")
		w.run(w.root, "mv", "old name", "new name")
		w.run(w.root, "rm", "-q", "dir/b.txt")
		w.write("bin", "\x00\x01\x02")
	})
	paths, err := w.git.Touched(ctx, w.root, patch)
	want := []string{"a.txt", "bin", "dir/b.txt", "new name", "old name", "sub/new \"quoted\"\n.txt"}
	if err != nil || strings.Join(paths, "|") != strings.Join(want, "|") {
		t.Fatalf("%q, %v", paths, err)
	}
	stats, err := w.git.Stat(ctx, patch)
	if err != nil || len(stats) != 5 || stats[0] != (checkout.Stat{Path: "a.txt", Added: 1, Deleted: 1}) || !stats[1].Binary {
		t.Errorf("%+v, %v", stats, err)
	}
	if c, err := w.git.Changed(ctx, w.root, paths); len(c) != 0 || err != nil {
		t.Errorf("%q, %v", c, err)
	}
	if err := w.git.Apply(ctx, w.root, strings.NewReader(string(patch)), true); err != nil || w.run(w.root, "status", "--porcelain") != "" {
		t.Errorf("a check changed something, or %v", err)
	}
	// What a person has set for white space does not change what was verified.
	w.run(w.root, "config", "apply.whitespace", "fix")
	if err := w.git.Apply(ctx, w.root, strings.NewReader(string(patch)), false); err != nil {
		t.Fatal(err)
	}
	if w.read("a.txt") != "one\nTWO   \nthree\n" || w.read("bin") != "\x00\x01\x02" || w.read("sub/new \"quoted\"\n.txt") != "new\n" {
		t.Error("the files are not as they were made")
	}
	if staged := w.run(w.root, "diff", "--cached", "--name-only"); staged != "" {
		t.Errorf("staged: %s", staged)
	}
	// Now every one of them is changed.
	if c, err := w.git.Changed(ctx, w.root, paths); err != nil || len(c) != len(paths) {
		t.Errorf("%q, %v", c, err)
	}
}

func TestApplyIsWholeOrNothing(t *testing.T) {
	w := newWorld(t)
	patch, _, _ := w.patch(func() {
		w.write("a.txt", "one\nTWO\nthree\n")
		w.write("dir/b.txt", "B\n")
	})
	w.write("dir/b.txt", "something else\n")
	err := w.git.Apply(t.Context(), w.root, strings.NewReader(string(patch)), false)
	if api.KindOf(err) != api.KindConflict || w.read("a.txt") != "one\ntwo\nthree\n" {
		t.Errorf("%v; a.txt is %q", err, w.read("a.txt"))
	}
}

// TestApplyStaysInside: a patch is a stranger's. The control is a patch of the same
// make with a harmless name.
func TestApplyStaysInside(t *testing.T) {
	w := newWorld(t)
	if err := os.Symlink(w.home, filepath.Join(w.root, "link")); err != nil {
		t.Fatal(err)
	}
	w.commit("a link")
	file := func(name string) string {
		return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+evil\n"
	}
	for _, name := range []string{"../evil", "dir/../../evil", "link/evil", ".git/evil", ".GIT/evil", "dir/.git/evil"} {
		err := w.git.Apply(t.Context(), w.root, strings.NewReader(file(name)), false)
		if err == nil {
			t.Errorf("%s was applied", name)
		}
	}
	swap := "diff --git a/s b/s\nnew file mode 120000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+" + w.home + "\n\\ No newline at end of file\n" + file("s/evil")
	if err := w.git.Apply(t.Context(), w.root, strings.NewReader(swap), false); err == nil {
		t.Error("a link and a file behind it were applied")
	}
	for _, path := range []string{filepath.Join(w.home, "evil"), filepath.Join(w.root, ".git/evil")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	if err := w.git.Apply(t.Context(), w.root, strings.NewReader(file("dir/fine")), false); err != nil || w.read("dir/fine") != "evil\n" {
		t.Errorf("the control: %v", err)
	}
}

func TestImport(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, commit, base := w.patch(func() { w.write("a.txt", "TWO\n") })
	w.run(w.root, "update-ref", "refs/heads/hortus/x", commit)
	bundle := filepath.Join(w.home, "b")
	w.run(w.root, "bundle", "create", "-q", bundle, base+"..refs/heads/hortus/x")
	w.run(w.root, "update-ref", "-d", "refs/heads/hortus/x")
	w.write("a.txt", "mine\n")
	if err := w.git.Import(ctx, w.root, bundle, "hortus/4f2a", commit); err != nil {
		t.Fatal(err)
	}
	if got := w.run(w.root, "rev-parse", "refs/heads/hortus/4f2a"); got != commit || w.read("a.txt") != "mine\n" {
		t.Errorf("%s; a.txt is %q", got, w.read("a.txt"))
	}
	if err := w.git.Import(ctx, w.root, bundle, "hortus/4f2a", commit); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := w.git.Import(ctx, w.root, bundle, "main", commit); api.KindOf(err) != api.KindExists {
		t.Errorf("over another branch: %v", err)
	}
	for _, name := range []string{"-f", "a..b", "x y", "HEAD:", "@{-1}", "a\nb", "refs/../x"} {
		if err := w.git.Import(ctx, w.root, bundle, name, commit); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := w.git.Import(ctx, w.root, bundle, "other", base); api.KindOf(err) != api.KindInvalid {
		t.Errorf("another commit: %v", err)
	}
	stranger := filepath.Join(w.home, "stranger")
	w.run(w.home, "init", "-q", stranger)
	if err := w.git.Import(ctx, stranger, bundle, "x", commit); api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "git fetch") {
		t.Errorf("without what it builds on: %v (%s)", err, api.HintOf(err))
	}
	if err := os.WriteFile(bundle, []byte("# v2 git bundle\nnonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.git.Import(ctx, w.root, bundle, "y", commit); api.KindOf(err) != api.KindInvalid {
		t.Errorf("nonsense: %v", err)
	}
}

// TestOutputIsBounded: what a program prints without an end is not kept.
func TestOutputIsBounded(t *testing.T) {
	script := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nhead -c 40000000 /dev/zero\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if v, err := checkout.New(script, os.Environ()).Setting(t.Context(), "", "x"); api.KindOf(err) != api.KindExhausted {
		t.Errorf("%d bytes, %v", len(v), err)
	}
}

// TestFindRunsNoStrangersProgram: a checkout that was unpacked from anywhere names
// programs in its own configuration. The control is git itself, which runs them.
func TestFindRunsNoStrangersProgram(t *testing.T) {
	for _, attack := range []string{"core.fsmonitor", "filter.x.clean"} {
		w := newWorld(t)
		w.write(".gitattributes", "*.txt filter=x\n")
		w.commit("attributes")
		mark := filepath.Join(w.home, "ran")
		script := filepath.Join(w.home, "script")
		if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+mark+"\ncat\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.run(w.root, "config", attack, script)
		w.write("a.txt", "changed, and longer\n")
		tree, err := w.git.Find(t.Context(), w.root)
		if err != nil || (tree.Dirty < 0) != (attack == "filter.x.clean") {
			t.Errorf("%s: %+v, %v", attack, tree, err)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: the program ran", attack)
		}
		w.write("a.txt", "changed once more, so that git looks\n")
		w.run(w.root, "status")
		w.run(w.root, "diff")
		if _, err := os.Stat(mark); err != nil {
			t.Errorf("%s: the control did not run it either: %v", attack, err)
		}
	}
}
