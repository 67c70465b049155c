package checkout

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/test/gittest"
)

func newCache(t testing.TB, with ...func(*cache.Config)) *cache.Cache {
	t.Helper()
	cfg := cache.Config{Dir: filepath.Join(gittest.RealPath(t, t.TempDir()), "cache")}
	for _, f := range with {
		f(&cfg)
	}
	c, err := cache.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fetch(t testing.TB, c *cache.Cache, url string) *cache.Repo {
	t.Helper()
	r, err := c.Fetch(gittest.Context(t), git.Source{URL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func head(t testing.TB, r *cache.Repo) cache.Commit {
	t.Helper()
	c, err := r.Resolve(gittest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(path, text string) cache.Change {
	return cache.Change{Path: path, Mode: cache.Regular, Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func link(path, to string) cache.Change {
	c := file(path, to)
	c.Mode = cache.Symlink
	return c
}

func request(parent string, changes ...cache.Change) cache.CommitRequest {
	id := cache.Identity{Name: "An Agent", Email: "agent@example.org"}
	return cache.CommitRequest{Parent: parent, Changes: changes, Author: id, Committer: id, Message: "Change it", When: time.Unix(1700000001, 0)}
}

// change commits to a checkout's commit in a cache, and gives the repository and the
// commit, on the branch b.
func change(t *testing.T, src string, changes ...cache.Change) (*cache.Repo, cache.Commit, string) {
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

// treeOf returns the tree of a commit on the branch b, which it fetches into src.
func treeOf(t *testing.T, src string, r *cache.Repo, commit string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tree.bundle")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.Bundle(gittest.Context(t), f, "b", ""); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, src, "fetch", "-q", "--no-write-fetch-head", name, "refs/heads/b")
	return gittest.Git(t, src, "rev-parse", commit+"^{tree}")
}
