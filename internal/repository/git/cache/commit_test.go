package cache

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

func TestCommit(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\n", "dir/b.txt": "b\n", "dir/c.txt": "c\n", "lf.bat": "x\n", ".gitattributes": "*.bat eol=crlf\n*.up filter=upper\n"})
	c := newCache(t)
	r := fetch(t, c, src)
	base := head(t, r)
	exec := file("run.sh", "#!/bin/sh\n")
	exec.Mode = Executable
	q := request(base.Hash, file("a.txt", "two\n"), Change{Path: "dir/b.txt", Delete: true}, Change{Path: "dir/c.txt", Delete: true},
		file("dir", "a file now\n"), exec, link("to-a", "a.txt"), link("sub/up", "../a.txt"), file("crlf.bat", "y\r\n"), file("x.up", "kept"), file(":(top)odd name*", "odd"), file("-x", "dash"))
	q.Message = "Change it\x1b[31m\n\nWith a body.\n"
	q.Trailers = []string{"Hortus-Task: tsk_1"}
	res, err := r.Commit(gittest.Context(t), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Refused) > 0 || len(res.Ignored) > 0 || res.Empty {
		t.Fatalf("got %+v", res)
	}
	if err := r.SetBranch(gittest.Context(t), "hortus/t1", res.Hash); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Resolve(gittest.Context(t), "hortus/t1"); err != nil || got.Hash != res.Hash || got.Tree != res.Tree {
		t.Errorf("got %+v, %v", got, err)
	}
	if raw := gittest.Git(t, r.dir, "cat-file", "commit", res.Hash); !strings.HasSuffix(raw, "author An Agent <agent@example.org> 1700000001 +0000\ncommitter An Agent <agent@example.org> 1700000001 +0000\n\nChange it[31m\n\nWith a body.\n\nHortus-Task: tsk_1") {
		t.Errorf("the commit is\n%s", raw)
	}
	files, err := r.Files(gittest.Context(t), res.Hash)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Mode{}
	for _, e := range files {
		got[e.Path] = e.Mode
	}
	want := map[string]Mode{"a.txt": Regular, "dir": Regular, "run.sh": Executable, "to-a": Symlink, "sub/up": Symlink, "crlf.bat": Regular, "x.up": Regular, "lf.bat": Regular,
		".gitattributes": Regular, ":(top)odd name*": Regular, "-x": Regular}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the tree has %v", got)
	}
	for path, text := range map[string]string{"a.txt": "two\n", "crlf.bat": "y\r\n", "x.up": "kept", ":(top)odd name*": "odd", "-x": "dash"} {
		if b, err := r.ReadFile(gittest.Context(t), res.Hash, path, 100); err != nil || string(b) != text {
			t.Errorf("%s is %q, %v", path, b, err)
		}
	}
	for path, kind := range map[string]api.Kind{"nothing": api.KindNotFound, "to-a": api.KindInvalid, "sub": api.KindNotFound, "../x": api.KindInvalid, "a.txt/": api.KindInvalid} {
		_, err := r.ReadFile(gittest.Context(t), res.Hash, path, 100)
		gittest.WantKind(t, err, kind, "")
	}
	_, err = r.ReadFile(gittest.Context(t), res.Hash, "a.txt", 3)
	gittest.WantKind(t, err, api.KindExhausted, "4 bytes")

	// The same again changes nothing.
	res2, err := r.Commit(gittest.Context(t), request(res.Hash, file("a.txt", "two\n")))
	if err != nil || !res2.Empty || res2.Hash != "" {
		t.Errorf("got %+v, %v", res2, err)
	}
	// The pack is the only thing that came, and nothing is left of the way.
	if left, _ := filepath.Glob(r.base + ".w*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	gittest.Git(t, r.dir, "fsck", "--strict")
}

func TestCommitRefuses(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\n", "d/e": "e", "l": "x"})
	inner := gittest.NewCheckout(t, map[string]string{"a": "1"})
	gittest.Git(t, src, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub")
	gittest.Git(t, src, "commit", "-qm", "with it")
	r := fetch(t, newCache(t), src)
	base := head(t, r)
	lying := file("lying", "four")
	lying.Size = 3
	broken := file("broken", "x")
	broken.Open = func() (io.ReadCloser, error) { return nil, errors.New("gone away") }
	odd := file("odd", "x")
	odd.Mode = "040000"
	sub := file("sub", "x")
	sub.Mode = Submodule
	cases := []Change{
		file(".git/hooks/pre-commit", "x"), file(".GIT/config", "x"), file("d/.git", "x"), file("git~1/x", "x"), file("GIT~2", "x"), file(".git /x", "x"), file(".git./x", "x"),
		file(".git::$INDEX_ALLOCATION/x", "x"), file(".g\u200cit/x", "x"), file(".\u200dgit", "x"), file("\ufeff.git", "x"), file(".git\\x", "x"), file("a\\b", "x"),
		file("../x", "x"), file("x/../../y", "x"), file("./x", "x"), file("x//y", "x"), file("x/", "x"), file("/etc/passwd", "x"), file("", "x"), file("C:/x", "x"),
		file("a\nb", "x"), file("a\x00b", "x"), file("a\x1b[31m", "x"), file("a\xff", "x"), file("a\u202eb", "x"), file(strings.Repeat("x", 256), "x"), file(strings.Repeat("x/", 2100)+"x", "x"),
		link("l1", "/etc/passwd"), link("l2", "../x"), link("d/l3", "../../x"), link("l4", "d/../.."), link("l5", "x\x00y"), link("l6", ""), link("l7", "C:\\x"), link("l8", ".git/config"),
		link("loop", "loop"), link(".gitmodules", "x"), link("x/.GITATTRIBUTES", "x"), link("l9", strings.Repeat("x", 5000)),
		lying, broken, odd, sub, file("sub/x", "x"), file("a.txt/below", "x"), file("d", "x"), {Path: "nothing", Delete: true}, {Path: "sub", Delete: true}, file("large", strings.Repeat("x", 2000)),
	}
	ok := file("ok", "fine")
	twice := file("ok", "again")
	q := request(base.Hash, append(append([]Change{ok}, cases...), twice)...)
	q.Limits.FileBytes = 1000
	res, err := r.Commit(gittest.Context(t), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Refused) != len(cases)+1 {
		for _, c := range cases {
			if !slices.ContainsFunc(res.Refused, func(l Skipped) bool { return l.Path == strings.ToValidUTF8(c.Path, "?") || len(c.Path) > maxPath }) {
				t.Errorf("%q was not refused", c.Path)
			}
		}
		t.Errorf("%d were refused, want %d", len(res.Refused), len(cases)+1)
	}
	for _, l := range res.Refused {
		if l.Why == "" {
			t.Errorf("%q without a reason", l.Path)
		}
	}
	stats, err := r.Stat(gittest.Context(t), base.Hash, res.Hash)
	if err != nil || len(stats) != 1 || stats[0].Path != "ok" {
		t.Errorf("the commit changes %+v, %v", stats, err)
	}
	if b, _ := r.ReadFile(gittest.Context(t), res.Hash, "ok", 10); string(b) != "fine" {
		t.Errorf("ok is %q", b)
	}
	q = request(base.Hash, file("x", "1234567890"), file("y", "1234567890"))
	q.Limits.Bytes = 15
	if res, err = r.Commit(gittest.Context(t), q); err != nil || len(res.Refused) != 1 || res.Refused[0].Path != "y" {
		t.Errorf("got %+v, %v", res, err)
	}
	q.Limits = Limits{Files: 1}
	_, err = r.Commit(gittest.Context(t), q)
	gittest.WantKind(t, err, api.KindExhausted, "the maximum is 1")
}

// TestCommitLinksThroughLinks: a link that is fine by its letters and leads out by
// what it goes through.
func TestCommitLinksThroughLinks(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"p/q/r/x": "x"})
	if err := os.Symlink("/etc", filepath.Join(src, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../..", filepath.Join(src, "p/q/r/top")); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, src, "add", "-A")
	gittest.Git(t, src, "commit", "-qm", "links")
	r := fetch(t, newCache(t), src)
	res, err := r.Commit(gittest.Context(t), request(head(t, r).Hash, link("a", "p/q/r/top/../.."), link("b", "out/passwd"), link("c", "p/q/r/top/p"), link("d", "e/passwd"), link("e", "out")))
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, l := range res.Refused {
		refused = append(refused, l.Path)
	}
	if fmt.Sprint(refused) != "[a b d e]" {
		t.Errorf("refused %+v", res.Refused)
	}
}

func TestCommitIgnores(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{".gitignore": "*.log\n/build/\n!keep.log\n", "sub/.gitignore": "local\n", "a": "1"})
	gittest.WriteFiles(t, src, map[string]string{"tracked.log": "1"})
	gittest.Git(t, src, "add", "-f", "tracked.log")
	gittest.Git(t, src, "commit", "-qm", "second")
	r := fetch(t, newCache(t), src)
	base := head(t, r)
	q := request(base.Hash, file("tracked.log", "2"), file("new.log", "x"), file("keep.log", "x"), file("build/o/x.o", "x"), file("sub/build/y", "y"), file("sub/local", "x"), file("local", "x"),
		file("other/.gitignore", "secret\n"), file("other/secret", "x"), file("build/.gitignore", "!*\n"), file(":(glob)x.log", "x"))
	res, err := r.Commit(gittest.Context(t), q)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(res.Ignored)
	if fmt.Sprint(res.Ignored) != "[:(glob)x.log build/.gitignore build/o/x.o new.log other/secret sub/local]" || len(res.Refused) > 0 {
		t.Errorf("ignored %q, refused %+v", res.Ignored, res.Refused)
	}
	stats, err := r.Stat(gittest.Context(t), base.Hash, res.Hash)
	var paths []string
	for _, s := range stats {
		paths = append(paths, s.Path)
	}
	if fmt.Sprint(paths) != "[keep.log local other/.gitignore sub/build/y tracked.log]" || err != nil {
		t.Errorf("the commit changes %v, %v", paths, err)
	}
	// Ignored files do not count against the limit, and are not read.
	unread := file("many.log", "x")
	unread.Open = func() (io.ReadCloser, error) { t.Error("an ignored file was read"); return nil, io.EOF }
	q = request(base.Hash, unread, file("b", "x"))
	q.Limits.Files = 1
	if res, err := r.Commit(gittest.Context(t), q); err != nil || len(res.Ignored) != 1 || res.Empty {
		t.Errorf("got %+v, %v", res, err)
	}
	// Only ignored files: nothing to commit.
	if res, err := r.Commit(gittest.Context(t), request(base.Hash, file("x.log", "x"))); err != nil || !res.Empty {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestCommitIsChecked: what passes by its path and is refused by what it says, with
// nothing of it in the repository.
func TestCommitIsChecked(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	r := fetch(t, newCache(t), src)
	base := head(t, r)
	evil := "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch /tmp/pwned\n"
	before := gittest.Git(t, r.dir, "count-objects", "-v")
	_, err := r.Commit(gittest.Context(t), request(base.Hash, file(".gitmodules", evil)))
	gittest.WantKind(t, err, api.KindDenied, "gitmodules")
	if after := gittest.Git(t, r.dir, "count-objects", "-v"); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	fine := "[submodule \"x\"]\n\tpath = x\n\turl = https://example.org/x\n"
	if _, err := r.Commit(gittest.Context(t), request(base.Hash, file(".gitmodules", fine))); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestCommitRefusesRequests(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	r := fetch(t, newCache(t), src)
	base := head(t, r).Hash
	for name, spoil := range map[string]func(*CommitRequest){
		"parent":   func(q *CommitRequest) { q.Parent = "main" },
		"option":   func(q *CommitRequest) { q.Parent = "--all" },
		"author":   func(q *CommitRequest) { q.Author.Name = "x\ncommitter y <y@y>" },
		"mail":     func(q *CommitRequest) { q.Committer.Email = "x> <y" },
		"nobody":   func(q *CommitRequest) { q.Author = Identity{} },
		"message":  func(q *CommitRequest) { q.Message = " \x00\n" },
		"trailer":  func(q *CommitRequest) { q.Trailers = []string{"a: b\nc: d"} },
		"trailer2": func(q *CommitRequest) { q.Trailers = []string{"no trailer"} },
		"limit":    func(q *CommitRequest) { q.Limits.Files = -1 },
	} {
		q := request(base, file("x", "x"))
		spoil(&q)
		_, err := r.Commit(gittest.Context(t), q)
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := r.Commit(gittest.Context(t), request(strings.Repeat("0", 40), file("x", "x")))
	if err == nil {
		t.Error("a commit on nothing was made")
	}
	for _, name := range []string{"-x", "a..b", "a b", "refs/heads/x", "x.lock", "@{-1}", "", "a/", "HEAD"} {
		gittest.WantKind(t, r.SetBranch(gittest.Context(t), name, base), api.KindInvalid, "")
	}
	gittest.WantKind(t, r.SetBranch(gittest.Context(t), "x", strings.Repeat("1", 40)), api.KindNotFound, "")
}
