package cache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
)

// pair returns two repositories of a cache as members.
func pair(t *testing.T, c *Cache) []Member {
	t.Helper()
	lib := fetch(t, c, gittest.NewCheckout(t, map[string]string{"lib.txt": "lib\n", "sub/x.txt": "x\n", ".gitignore": "*.log\n"}))
	web := fetch(t, c, gittest.NewCheckout(t, map[string]string{"web.txt": "web\n"}))
	return []Member{{"lib", lib, head(t, lib).Hash}, {"web", web, head(t, web).Hash}}
}

func combine(t *testing.T, c *Cache, members []Member) (*Repo, Commit) {
	t.Helper()
	r, at, err := c.Combine(gittest.Context(t), members)
	if err != nil {
		t.Fatal(err)
	}
	return r, at
}

func TestCombine(t *testing.T) {
	c := newCache(t)
	members := pair(t, c)
	if _, err := c.FindCombined(members); api.KindOf(err) != api.KindNotFound {
		t.Errorf("found before it was combined: %v", err)
	}
	all, base := combine(t, c, members)
	if again, same := combine(t, c, members); again.dir != all.dir || same.Hash != base.Hash {
		t.Errorf("combined again: %s and %s", same.Hash, base.Hash)
	}
	if found, err := c.FindCombined(members); err != nil || found.dir != all.dir {
		t.Errorf("find: %v", err)
	}
	files, err := all.Files(gittest.Context(t), base.Hash)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "lib/.gitignore lib/lib.txt lib/sub/x.txt web/web.txt" {
		t.Errorf("files %s", got)
	}
	q := request(base.Hash, file("lib/lib.txt", "changed\n"), file("lib/new.txt", "new\n"), file("lib/a.log", "log\n"), link("lib/in", "sub/x.txt"),
		file("README", "top\n"), file("other/x", "x"), link("lib/out", "../web/web.txt"))
	q.Dirs = []string{"lib", "web"}
	res, err := all.Commit(gittest.Context(t), q)
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{}
	for _, s := range res.Refused {
		refused[s.Path] = s.Why
	}
	if len(refused) != 3 || refused["lib/out"] != "the link leads out of the tree" || refused["README"] != "it is in none of the repositories" || refused["other/x"] == "" {
		t.Errorf("refused %v", refused)
	}
	if len(res.Ignored) != 1 || res.Ignored[0] != "lib/a.log" {
		t.Errorf("ignored %v", res.Ignored)
	}
	// The result of one member is a commit on its own commit; the other has none.
	lib := members[0]
	own := request(lib.Commit)
	part, err := lib.Repo.CommitTree(gittest.Context(t), all, res.Hash, "lib", own)
	if err != nil || part.Empty {
		t.Fatalf("%+v, %v", part, err)
	}
	if err := lib.Repo.SetBranch(gittest.Context(t), "hortus/t1", part.Hash); err != nil {
		t.Fatal(err)
	}
	stats, err := lib.Repo.Stat(gittest.Context(t), lib.Commit, part.Hash)
	if err != nil || len(stats) != 3 || stats[0].Path != "in" || stats[1].Path != "lib.txt" || stats[2].Path != "new.txt" {
		t.Errorf("changes %+v, %v", stats, err)
	}
	gittest.Git(t, lib.Repo.dir, "fsck", "--strict")
	none, err := members[1].Repo.CommitTree(gittest.Context(t), all, res.Hash, "web", request(members[1].Commit))
	if err != nil || !none.Empty || none.Hash != "" {
		t.Errorf("the other member: %+v, %v", none, err)
	}
	// A member stands without the combined repository.
	if err := c.Remove(gittest.Context(t), all.Name()); err != nil {
		t.Fatal(err)
	}
	if b, err := lib.Repo.ReadFile(gittest.Context(t), part.Hash, "new.txt", 100); err != nil || string(b) != "new\n" {
		t.Errorf("read %q, %v", b, err)
	}
	gittest.Git(t, lib.Repo.dir, "fsck", "--strict")
}

// Everything of a member may be deleted.
func TestCombineDeletesAll(t *testing.T) {
	c := newCache(t)
	members := pair(t, c)
	all, base := combine(t, c, members)
	q := request(base.Hash, Change{Path: "web/web.txt", Delete: true})
	q.Dirs = []string{"lib", "web"}
	res, err := all.Commit(gittest.Context(t), q)
	if err != nil || len(res.Refused) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	part, err := members[1].Repo.CommitTree(gittest.Context(t), all, res.Hash, "web", request(members[1].Commit))
	if err != nil || part.Empty {
		t.Fatalf("%+v, %v", part, err)
	}
	if files, err := members[1].Repo.Files(gittest.Context(t), part.Hash); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// A member that was removed from the cache and fetched again is read where it is now.
func TestCombineAfterRemove(t *testing.T) {
	c := newCache(t)
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "a\n"})
	members := append(pair(t, c)[:1], Member{Dir: "app", Repo: fetch(t, c, src)})
	members[1].Commit = head(t, members[1].Repo).Hash
	_, base := combine(t, c, members)
	if err := c.Remove(gittest.Context(t), members[1].Repo.Name()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Combine(gittest.Context(t), members); err == nil {
		t.Error("combined without a member")
	}
	members[1].Repo = fetch(t, c, src)
	all, again := combine(t, c, members)
	if again.Hash != base.Hash {
		t.Errorf("%s, then %s", base.Hash, again.Hash)
	}
	if b, err := all.ReadFile(gittest.Context(t), again.Hash, "app/a.txt", 10); err != nil || string(b) != "a\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestCombineRefuses(t *testing.T) {
	c := newCache(t)
	members := pair(t, c)
	for name, change := range map[string]func([]Member) []Member{
		"one member":         func(m []Member) []Member { return m[:1] },
		"the same directory": func(m []Member) []Member { m[1].Dir = "lib"; return m },
		"two names":          func(m []Member) []Member { m[1].Dir = "a/b"; return m },
		"dots":               func(m []Member) []Member { m[1].Dir = ".."; return m },
		"git's directory":    func(m []Member) []Member { m[1].Dir = ".git"; return m },
		"an option":          func(m []Member) []Member { m[1].Dir = "-x"; return m },
		"an unknown commit":  func(m []Member) []Member { m[1].Commit = strings.Repeat("1", 40); return m },
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := c.Combine(gittest.Context(t), change(append([]Member(nil), members...))); err == nil {
				t.Error("no error")
			}
		})
	}
	combine(t, c, members) // the control
	big := filepath.Join(t.TempDir(), "big")
	gittest.Git(t, t.TempDir(), "init", "-q", "--object-format=sha256", big)
	if err := os.WriteFile(filepath.Join(big, "x"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, big, "add", "x")
	gittest.Git(t, big, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "x")
	other, err := c.Fetch(gittest.Context(t), git.Source{URL: gittest.RealPath(t, big)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Combine(gittest.Context(t), append(members[:1:1], Member{"big", other, head(t, other).Hash}))
	gittest.WantKind(t, err, api.KindUnsupported, "object formats")
}
