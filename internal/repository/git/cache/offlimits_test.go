package cache

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/test/gittest"
)

// everything returns the content of every object of a repository, in packs and loose, whether
// something refers to it or not.
func everything(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("git", "-C", dir, "cat-file", "--batch-all-objects", "--batch", "--unordered")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func filePolicy(t *testing.T, offLimits ...string) *filerule.Policy {
	t.Helper()
	p, err := filerule.Compile(api.FilePolicy{OffLimits: offLimits})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOffLimits looks for the contents of files that are off limits in a checkout: they are in no
// commit of the history, by no way that git knows. Without the policy each is found.
func TestOffLimits(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{
		".env": "SECRET-first\n", "secrets/id_rsa": "SECRET-key\n", "a.txt": "one\n", "with space/.env": "SECRET-space\n", "ü/.env": "SECRET-quoted\n",
		"docs/.env.example": "NAME=example\n", ".gitignore": "*.log\n",
	})
	if err := os.Symlink("secrets/id_rsa", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	commit := func(message string) {
		gittest.Git(t, src, "add", "-A")
		gittest.Git(t, src, "commit", "-qm", message)
	}
	commit("a link")
	gittest.WriteFiles(t, src, map[string]string{".env": "SECRET-second\n", "a.txt": "two\n", "old.key": "SECRET-deleted\n", "was-visible.txt": "SECRET-renamed\n"})
	commit("second")
	gittest.Git(t, src, "rm", "-q", "old.key")
	gittest.Git(t, src, "mv", "was-visible.txt", "now.key")
	commit("third")
	gittest.Git(t, src, "checkout", "-q", "-b", "side", "HEAD~1")
	gittest.WriteFiles(t, src, map[string]string{"side/.env": "SECRET-side\n", "side.txt": "side\n"})
	commit("side")
	gittest.Git(t, src, "checkout", "-q", "-")
	gittest.Git(t, src, "merge", "-q", "--no-ff", "-m", "merge\n\nM 100644 0000000000000000000000000000000000000000 .env\n", "side")
	gittest.Git(t, src, "rm", "-qr", "--cached", "side/.env")
	os.RemoveAll(filepath.Join(src, "side"))
	gittest.WriteFiles(t, src, map[string]string{".env": "SECRET-last\n", "copy.txt": "SECRET-copied\n", "copied.key": "SECRET-copied\n"})
	commit("last")
	r := fetch(t, newCache(t), src)
	h := head(t, r)
	secrets := []string{"first", "second", "last", "key", "space", "quoted", "deleted", "side"}
	policy := filePolicy(t, ".env*", "!.env.example", "id_rsa", "*.key")

	for _, depth := range []int{0, 2} {
		dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "w")
		res, err := r.Checkout(gittest.Context(t), h.Hash, dir, CheckoutOptions{Branch: "main", Depth: depth, Files: policy})
		if err != nil {
			t.Fatal(err)
		}
		if res.OffLimits != 6 || res.Files != 6 {
			t.Errorf("depth %d: %+v", depth, res)
		}
		objects := everything(t, dir)
		for _, s := range secrets {
			if strings.Contains(objects, "SECRET-"+s+"\n") {
				t.Errorf("depth %d: the content %q is in the repository", depth, s)
			}
		}
		if !strings.Contains(objects, "SECRET-copied") {
			t.Error("a file that is visible lacks its content")
		}
		for _, gone := range []string{".env", "secrets", "now.key", "copied.key", "with space", "ü", ".git/objects/info/alternates", ".git/shallow"} {
			if _, err := os.Lstat(filepath.Join(dir, gone)); err == nil {
				t.Errorf("depth %d: %s is there", depth, gone)
			}
		}
		if got := gittest.Git(t, dir, "log", "--all", "--name-only", "--format="); strings.Contains(strings.ReplaceAll(got, ".env.example", ""), ".env") || strings.Contains(got, "id_rsa") {
			t.Errorf("depth %d: names in the history:\n%s", depth, got)
		}
		gittest.Git(t, dir, "log", "-p", "-m", "--all")
		gittest.Git(t, dir, "fsck", "--strict")
		if out := gittest.Git(t, dir, "status", "--porcelain=v1", "--branch"); out != "## main" {
			t.Errorf("depth %d: status: %s", depth, out)
		}
		if depth == 0 {
			if got, want := gittest.Git(t, dir, "log", "--format=%an %ae %at %ct %s"), gittest.Git(t, src, "log", "--format=%an %ae %at %ct %s"); got != want {
				t.Errorf("the history is\n%s\nwant\n%s", got, want)
			}
		}
		// A branch can still be worked on.
		gittest.WriteFiles(t, dir, map[string]string{"new": "x"})
		gittest.Git(t, dir, "add", "-A")
		gittest.Git(t, dir, "commit", "-qm", "more")
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
			t.Errorf("depth %d: there are %d files beside the checkout", depth, len(left))
		}
	}

	// The control: without the policy all are there.
	dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "w")
	if _, err := r.Checkout(gittest.Context(t), h.Hash, dir, CheckoutOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := everything(t, dir)
	for _, s := range append(secrets, "copied", "renamed") {
		if !strings.Contains(objects, "SECRET-"+s+"\n") {
			t.Errorf("without a policy the content %q is missing: the test proves nothing", s)
		}
	}
	if got := gittest.Git(t, dir, "rev-parse", "HEAD"); got != h.Hash {
		t.Errorf("without a policy the commit is %s", got)
	}
}

func TestOffLimitsOfNothing(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1\n", "d/b": "2\n"})
	r := fetch(t, newCache(t), src)
	h := head(t, r)
	check := func(p *filerule.Policy, files int, same bool) {
		t.Helper()
		dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "w")
		res, err := r.Checkout(gittest.Context(t), h.Hash, dir, CheckoutOptions{Files: p})
		if err != nil || res.Files != files || res.OffLimits != 2-files {
			t.Fatalf("%+v, %v", res, err)
		}
		if got := gittest.Git(t, dir, "rev-parse", "HEAD"); (got == h.Hash) != same {
			t.Errorf("commit %s of %s", got, h.Hash)
		}
	}
	check(filePolicy(t, "*.key"), 2, true)
	check(filePolicy(t, "**", "!**"), 2, true)
	check(filePolicy(t, "d"), 1, false)
	check(filePolicy(t, "**"), 0, false)
}
