package cache

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
)

func newCache(t testing.TB, with ...func(*Config)) *Cache {
	t.Helper()
	cfg := Config{Dir: filepath.Join(gittest.RealPath(t, t.TempDir()), "cache")}
	for _, f := range with {
		f(&cfg)
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fetch(t testing.TB, c *Cache, url string) *Repo {
	t.Helper()
	r, err := c.Fetch(gittest.Context(t), git.Source{URL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func head(t testing.TB, r *Repo) Commit {
	t.Helper()
	c, err := r.Resolve(gittest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(path, text string) Change {
	return Change{Path: path, Mode: Regular, Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func link(path, to string) Change {
	c := file(path, to)
	c.Mode = Symlink
	return c
}

func request(parent string, changes ...Change) CommitRequest {
	id := Identity{"An Agent", "agent@example.org"}
	return CommitRequest{Parent: parent, Changes: changes, Author: id, Committer: id, Message: "Change it", When: time.Unix(1700000001, 0)}
}

// change commits to a checkout's commit in a cache, and gives the repository and the
// commit, on the branch b.
func change(t *testing.T, src string, changes ...Change) (*Repo, Commit, string) {
	t.Helper()
	r := fetch(t, newCache(t), src)
	base := head(t, r)
	res, err := r.Commit(gittest.Context(t), request(base.Hash, changes...))
	if err != nil || len(res.Refused) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := r.SetBranch(gittest.Context(t), "b", res.Hash); err != nil {
		t.Fatal(err)
	}
	return r, base, res.Hash
}
