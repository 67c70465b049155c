package cache

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/checkout"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
)

// trap makes a checkout whose configuration and hooks run a program wherever git
// lets them, and gives the file that the program writes.
func trap(t *testing.T) (src, marker string) {
	t.Helper()
	src = gittest.NewCheckout(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n", ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n"})
	aside := gittest.RealPath(t, t.TempDir())
	marker = filepath.Join(aside, "ran")
	evil := filepath.Join(aside, "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho \"$0 $*\" >> "+marker+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(src, ".git", "hooks")
	os.MkdirAll(hooks, 0o755)
	for _, h := range []string{"pre-commit", "post-checkout", "post-index-change", "reference-transaction", "pre-push", "pre-receive", "update", "post-receive", "post-update", "push-to-checkout", "pre-auto-gc", "applypatch-msg", "pre-applypatch", "post-applypatch", "fsmonitor-watchman", "post-merge", "proc-receive"} {
		if err := os.Symlink(evil, filepath.Join(hooks, h)); err != nil {
			t.Fatal(err)
		}
	}
	more := filepath.Join(aside, "more.config")
	gittest.WriteFiles(t, aside, map[string]string{"more.config": "[core]\n\tfsmonitor = " + evil + "\n\tpager = " + evil + "\n"})
	f, err := os.OpenFile(filepath.Join(src, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintf(f, `[core]
	fsmonitor = %[1]s
	sshCommand = %[1]s
	askPass = %[1]s
	editor = %[1]s
	pager = %[1]s
	gitProxy = %[1]s
	alternateRefsCommand = %[1]s
	hooksPath = %[2]s
	untrackedCache = true
[uploadpack]
	packObjectsHook = %[1]s
[filter "evil"]
	clean = %[1]s
	smudge = %[1]s
	process = %[1]s
	required = true
[diff]
	external = %[1]s
[diff "evil"]
	textconv = %[1]s
	command = %[1]s
[merge "evil"]
	driver = %[1]s
[credential]
	helper = !%[1]s
[gpg]
	program = %[1]s
[commit]
	gpgSign = true
[receive]
	autogc = true
[gc]
	auto = 1
	recentObjectsHook = %[1]s
[alias]
	fetch = !%[1]s
	upload-pack = !%[1]s
[protocol "ext"]
	allow = always
[remote "origin"]
	url = ext::%[1]s
	uploadpack = %[1]s
	receivepack = %[1]s
	promisor = true
[include]
	path = %[3]s
[trailer "x"]
	command = %[1]s
`, evil, hooks, more)
	return src, marker
}

// TestHostileCheckout does everything that can be done with a checkout to one that
// is a trap.
func TestHostileCheckout(t *testing.T) {
	src, marker := trap(t)
	quiet := func(what string) {
		t.Helper()
		if b, err := os.ReadFile(marker); err == nil {
			t.Errorf("%s ran %s", what, b)
			os.Remove(marker)
		}
	}
	r, base, to := change(t, src, file("a.txt", "changed\n"), file("c.txt", "new\n"))
	quiet("Fetch and Commit")
	if _, err := r.Checkout(gittest.Context(t), to, filepath.Join(t.TempDir(), "w"), CheckoutOptions{}); err != nil {
		t.Error(err)
	}
	quiet("Checkout")
	// A changed time makes git compare contents, which is when a filter would run.
	now := base.Time
	os.Chtimes(filepath.Join(src, "b.txt"), now, now)
	if _, err := (checkout.User{}).Toplevel(gittest.Context(t), src); err != nil {
		t.Error(err)
	}
	quiet("Toplevel")
	if got, err := (checkout.User{}).Changed(gittest.Context(t), src, []string{"b.txt", "a.txt"}); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := (checkout.User{}).Commit(gittest.Context(t), src, "main"); err != nil || got != base.Hash {
		t.Errorf("%q, %v", got, err)
	}
	quiet("Changed and Commit")
	if got, err := (checkout.User{}).Setting(gittest.Context(t), src, "alias.fetch"); err != nil || got == "" {
		t.Errorf("the trap's own configuration was not read: %q, %v", got, err)
	}
	if got, err := (checkout.User{}).Remote(gittest.Context(t), src, "origin"); err != nil || !strings.HasPrefix(got, "ext::") {
		t.Errorf("%q, %v", got, err)
	}
	quiet("Setting and Remote")
	patch, err := r.Diff(gittest.Context(t), base.Hash, to, DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "b.bundle")
	f, err := os.Create(bundle)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Bundle(gittest.Context(t), f, "b", base.Hash); err != nil {
		t.Error(err)
	}
	f.Close()
	if err := (checkout.User{}).Import(gittest.Context(t), src, bundle, "b", to); err != nil {
		t.Error(err)
	}
	quiet("Import")
	if _, err := r.Push(gittest.Context(t), PushRequest{Source: git.Source{URL: src}, Commit: to, Branch: "pushed"}); err != nil {
		t.Error(err)
	}
	quiet("Push")
	for _, opt := range []checkout.ApplyOptions{{Check: true}, {Index: true, Check: true}, {ThreeWay: true}} {
		if err := (checkout.User{}).Apply(gittest.Context(t), src, bytes.NewReader(patch), opt); err != nil {
			t.Error(err)
		}
		quiet(fmt.Sprintf("Apply %+v", opt))
	}

	// Controls: git as it is falls into each of them.
	for _, args := range [][]string{{"status"}, {"diff", "HEAD"}, {"update-ref", "refs/heads/z", base.Hash}, {"ls-remote", "origin"}, {"add", "b.txt"}} {
		gittest.TryGit(t, src, args...)
		if _, err := os.Stat(marker); err != nil {
			t.Errorf("control: git %v did not run it", args)
		}
		os.Remove(marker)
	}
	for _, args := range [][]string{{"push", src, to + ":refs/heads/z2"}} {
		gittest.TryGit(t, r.dir, args...)
		if _, err := os.Stat(marker); err != nil {
			t.Errorf("control: git %v did not run it", args)
		}
		os.Remove(marker)
	}
}

// TestHostileMissingObject: git fetches what is missing from where the
// configuration says, with whatever that runs.
func TestHostileMissingObject(t *testing.T) {
	src, marker := trap(t)
	blob := gittest.Git(t, src, "rev-parse", "HEAD:b.txt")
	os.Remove(marker)
	gittest.Git(t, src, "config", "extensions.partialClone", "origin")
	gittest.Git(t, src, "config", "core.repositoryFormatVersion", "1")
	if err := os.Remove(filepath.Join(src, ".git", "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	_, err := newCache(t).Fetch(gittest.Context(t), git.Source{URL: src}, nil)
	gittest.WantKind(t, err, api.KindUnsupported, "partial clone")
	if strings.Contains(err.Error(), ".work") {
		t.Errorf("the error speaks of the shadow: %v", err)
	}
	if b, err := os.ReadFile(marker); err == nil {
		t.Errorf("it ran %s", b)
	}
	gittest.TryGit(t, src, "cat-file", "-p", blob)
	if _, err := os.Stat(marker); err != nil {
		t.Error("control: git did not run it")
	}
}

func TestHostilePlaces(t *testing.T) {
	victim := gittest.NewCheckout(t, map[string]string{"secret": "x"})
	cases := map[string]struct {
		spoil func(src string) error
		kind  api.Kind
		text  string
	}{
		"alternates": {func(src string) error {
			return os.WriteFile(filepath.Join(src, ".git/objects/info/alternates"), []byte(victim+"/.git/objects\n"), 0o644)
		}, api.KindUnsupported, "another repository"},
		"objects are a link": {func(src string) error {
			os.RemoveAll(filepath.Join(src, ".git/objects"))
			return os.Symlink(victim+"/.git/objects", filepath.Join(src, ".git/objects"))
		}, api.KindNotFound, "objects"},
		".git names another": {func(src string) error {
			os.RemoveAll(filepath.Join(src, ".git"))
			return os.WriteFile(filepath.Join(src, ".git"), []byte("gitdir: "+victim+"/.git\n"), 0o644)
		}, api.KindDenied, "does not name it"},
		".git is a link": {func(src string) error {
			os.RemoveAll(filepath.Join(src, ".git"))
			return os.Symlink(victim+"/.git", filepath.Join(src, ".git"))
		}, api.KindUnsupported, ".git"},
		"configuration is a pipe": {func(src string) error {
			os.Remove(filepath.Join(src, ".git/config"))
			return exec.Command("mkfifo", filepath.Join(src, ".git/config")).Run()
		}, api.KindUnsupported, "regular file"},
		"HEAD is a link": {func(src string) error {
			os.Remove(filepath.Join(src, ".git/HEAD"))
			return os.Symlink("/etc/passwd", filepath.Join(src, ".git/HEAD"))
		}, api.KindUnsupported, "regular file"},
		"HEAD leads out": {func(src string) error {
			return os.WriteFile(filepath.Join(src, ".git/HEAD"), []byte("ref: refs/heads/../../../x\n"), 0o644)
		}, api.KindInvalid, "HEAD"},
		"configuration is broken": {func(src string) error {
			return os.WriteFile(filepath.Join(src, ".git/config"), []byte("[core\n"), 0o644)
		}, api.KindInvalid, "malformed"},
		"commondir": {func(src string) error {
			return os.WriteFile(filepath.Join(src, ".git/commondir"), []byte("/nonexistent\n"), 0o644)
		}, api.KindNotFound, "repository"},
		"reftable": {func(src string) error {
			return os.WriteFile(filepath.Join(src, ".git/config"), []byte("[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n"), 0o644)
		}, api.KindUnsupported, "reftable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src := gittest.NewCheckout(t, map[string]string{"a": "1"})
			fetch(t, newCache(t), src) // control
			if err := c.spoil(src); err != nil {
				t.Fatal(err)
			}
			_, err := newCache(t).Fetch(gittest.Context(t), git.Source{URL: src}, nil)
			gittest.WantKind(t, err, c.kind, c.text)
			got, err := checkout.User{}.Toplevel(gittest.Context(t), src)
			if name == "alternates" && err == nil { // no harm to who has it
				err = got.Borrows
			}
			gittest.WantKind(t, err, c.kind, c.text)
		})
	}
}

func TestSomebodyElses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	if out, err := exec.Command("chown", "-R", "4711", src).CombinedOutput(); err != nil {
		t.Skipf("%s", out)
	}
	c := newCache(t)
	_, err := c.Fetch(gittest.Context(t), git.Source{URL: src}, nil)
	gittest.WantKind(t, err, api.KindDenied, "another user (uid 4711)")
	_, err = checkout.User{}.Toplevel(gittest.Context(t), src)
	gittest.WantKind(t, err, api.KindDenied, "another user")
	gittest.WantKind(t, checkout.User{}.Apply(gittest.Context(t), src, strings.NewReader("x"), checkout.ApplyOptions{}), api.KindDenied, "another user")
	if _, err := c.Fetch(gittest.Context(t), git.Source{URL: src, Owners: []uint32{4711}}, nil); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestHostileObjects: what a server may not send, with git's own clone as control,
// which takes it.
func TestHostileObjects(t *testing.T) {
	who := "A <a@a> 1700000000 +0000"
	commitOf := func(tree, who string) string {
		return "tree " + tree + "\nauthor " + who + "\ncommitter " + who + "\n\nx\n"
	}
	for name, c := range map[string]struct {
		tree func(dir, blob string) string
		who  string
		ok   bool
	}{
		".git": {tree: func(dir, blob string) string {
			return gittest.TreeEntry("40000", ".git", gittest.WriteObject(t, dir, "tree", gittest.TreeEntry("100644", "config", blob)))
		}},
		"..":          {tree: func(dir, blob string) string { return gittest.TreeEntry("100644", "..", blob) }},
		".gItmodules": {tree: func(dir, blob string) string { return gittest.TreeEntry("120000", ".gitmodules", blob) }},
		"submodule url": {tree: func(dir, blob string) string {
			return gittest.TreeEntry("100644", ".gitmodules", gittest.WriteObject(t, dir, "blob", "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n"))
		}},
		"submodule name": {tree: func(dir, blob string) string {
			return gittest.TreeEntry("100644", ".gitmodules", gittest.WriteObject(t, dir, "blob", "[submodule \"../../x\"]\n\tpath = x\n\turl = https://example.org/x\n"))
		}},
		"a slash":      {tree: func(dir, blob string) string { return gittest.TreeEntry("100644", "a/b", blob) }},
		"no author":    {tree: func(dir, blob string) string { return gittest.TreeEntry("100644", "a", blob) }, who: "nobody"},
		"zero padding": {tree: func(dir, blob string) string { return gittest.TreeEntry("0100644", "a", blob) }, ok: true},
		"time zone":    {tree: func(dir, blob string) string { return gittest.TreeEntry("100644", "a", blob) }, who: "A <a@a> 1700000000 -7", ok: true},
		"no date":      {who: "A <a@a>", ok: true},
		"two mails":    {who: "A <a@a> <a@a> 1700000000 +0000", ok: true},
		"no blank":     {who: "A<a@a> 1700000000 +0000", ok: true},
		"no name":      {who: "<a@a> 1700000000 +0000", ok: true},
		"fine":         {tree: func(dir, blob string) string { return gittest.TreeEntry("100644", "a", blob) }, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.who == "" {
				c.who = who
			}
			if c.tree == nil {
				c.tree = func(dir, blob string) string { return gittest.TreeEntry("100644", "a", blob) }
			}
			src := gittest.NewCheckout(t, nil)
			tree := gittest.WriteObject(t, src, "tree", c.tree(src, gittest.WriteObject(t, src, "blob", "x")))
			bad := gittest.WriteObject(t, src, "commit", commitOf(tree, c.who))
			gittest.Git(t, src, "update-ref", "refs/heads/main", bad)
			cache := newCache(t)
			r, err := cache.Fetch(gittest.Context(t), git.Source{URL: src}, nil)
			if c.ok {
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.Resolve(gittest.Context(t), "main"); err != nil || got.Subject != "x" {
					t.Errorf("got %+v, %v", got, err)
				}
				if res, err := r.Commit(gittest.Context(t), request(bad, file("b", "b"))); err != nil || res.Hash == "" {
					t.Errorf("a commit on it: %+v, %v", res, err)
				}
				if _, err := r.Checkout(gittest.Context(t), bad, filepath.Join(t.TempDir(), "w"), CheckoutOptions{}); err != nil {
					t.Error(err)
				}
				return
			}
			gittest.WantKind(t, err, api.KindDenied, "")
			if left, _ := filepath.Glob(filepath.Join(cache.cfg.Dir, "*.git")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			gittest.Git(t, src, "clone", "-q", "--bare", src, filepath.Join(t.TempDir(), "control"))
		})
	}
}

// TestTreeWithoutEnd: a few small objects that are ten billion files.
func TestTreeWithoutEnd(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	sub := gittest.TreeEntry("100644", "f", gittest.WriteObject(t, src, "blob", "x"))
	for range 10 {
		hash, next := gittest.WriteObject(t, src, "tree", sub), ""
		for i := range 10 {
			next += gittest.TreeEntry("40000", fmt.Sprint("d", i), hash)
		}
		sub = next
	}
	who := "A <a@a> 1700000000 +0000"
	bad := gittest.WriteObject(t, src, "commit", "tree "+gittest.WriteObject(t, src, "tree", sub)+"\nauthor "+who+"\ncommitter "+who+"\n\nx\n")
	gittest.Git(t, src, "update-ref", "refs/heads/main", bad)
	r := fetch(t, newCache(t), src)
	dir := filepath.Join(t.TempDir(), "w")
	_, err := r.Checkout(gittest.Context(t), bad, dir, CheckoutOptions{MaxFiles: 1000})
	gittest.WantKind(t, err, api.KindExhausted, "1000 files")
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written")
	}
	_, err = r.Commit(gittest.Context(t), request(bad, file("x", "x")))
	gittest.WantKind(t, err, api.KindExhausted, "1000000 files")
}

// TestEnvironment: nothing of ours reaches git, whatever it is.
func TestEnvironment(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	evil := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho $* >> "+marker+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	gittest.WriteFiles(t, home, map[string]string{".gitconfig": "[core]\n\tfsmonitor = " + evil + "\n[url \"ext::" + evil + " \"]\n\tinsteadOf = /\n[protocol]\n\tallow = always\n"})
	for k, v := range map[string]string{"HOME": home, "GIT_CONFIG_GLOBAL": home + "/.gitconfig", "GIT_EXTERNAL_DIFF": evil, "GIT_SSH_COMMAND": evil, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": evil,
		"GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent", "GIT_TEMPLATE_DIR": home, "GIT_TRACE": marker, "GIT_WORK_TREE": "/nonexistent", "GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='" + evil + "'"} {
		t.Setenv(k, v)
	}
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	r := fetch(t, newCache(t), src)
	if _, err := r.Checkout(gittest.Context(t), head(t, r).Hash, filepath.Join(gittest.RealPath(t, t.TempDir()), "w"), CheckoutOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := (checkout.User{}).Toplevel(gittest.Context(t), src); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(marker); err == nil {
		t.Errorf("it ran %s", b)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience.Of(time.Minute))
	defer stop()
	exec.CommandContext(ctx, "git", "--git-dir="+src+"/.git", "--work-tree="+src, "status").Run()
	if _, err := os.Stat(marker); err != nil {
		t.Error("control: git took nothing of the environment")
	}
}

// TestSSH: which program is run, with what; and that it is run for ssh alone.
func TestSSH(t *testing.T) {
	bin := t.TempDir()
	said := filepath.Join(bin, "said")
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\necho \"$SSH_AUTH_SOCK $*\" >> "+said+"\necho 'Host key verification failed.' >&2\nexit 255\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("SSH_AUTH_SOCK", "/agent")
	for _, url := range []string{"ssh://git@example.org:2222/o/r.git", "git@example.org:o/r.git"} {
		os.Remove(said)
		_, err := newCache(t).Fetch(gittest.Context(t), git.Source{URL: url}, nil)
		gittest.WantKind(t, err, api.KindDenied, "known_hosts")
		b, err := os.ReadFile(said)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/agent ", "BatchMode=yes", "StrictHostKeyChecking=yes", "git@example.org", "git-upload-pack 'o/r.git'"} {
			if !strings.Contains(strings.ReplaceAll(string(b), "'/o/", "'o/"), want) {
				t.Errorf("%s: ssh was run with %s, without %s", url, b, want)
			}
		}
	}
	os.Remove(said)
	fetch(t, newCache(t), gittest.NewCheckout(t, nil))
	if _, err := os.Stat(said); err == nil {
		t.Error("ssh was run for a path")
	}
}
