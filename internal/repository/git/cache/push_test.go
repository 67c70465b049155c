package cache

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/checkout"
	"hortus.dev/test/gittest"
)

func TestPushToPath(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	r, base, to := change(t, src, file("a", "2"))
	q := PushRequest{Source: git.Source{URL: src}, Commit: to, Branch: "hortus/x"}
	if got, err := r.Push(gittest.Context(t), q); err != nil || !got.Created {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := r.Push(gittest.Context(t), q); err != nil || !got.UpToDate {
		t.Errorf("%+v, %v", got, err)
	}
	gittest.Git(t, src, "fsck")
	q.Branch = "main"
	q.Expect = base.Hash
	_, err := r.Push(gittest.Context(t), q)
	gittest.WantKind(t, err, api.KindConflict, "checked out")
	gittest.Git(t, src, "update-ref", "refs/heads/hortus/x", base.Hash)
	q.Branch, q.Expect = "hortus/x", ""
	_, err = r.Push(gittest.Context(t), q)
	gittest.WantKind(t, err, api.KindConflict, "another client")
	q.Expect = base.Hash
	if got, err := r.Push(gittest.Context(t), q); err != nil || got.Created {
		t.Errorf("%+v, %v", got, err)
	}
	bare := filepath.Join(gittest.RealPath(t, t.TempDir()), "bare.git")
	gittest.Git(t, src, "clone", "-q", "--bare", src, bare)
	if got, err := r.Push(gittest.Context(t), PushRequest{Source: git.Source{URL: bare}, Commit: to, Branch: "y"}); err != nil || !got.Created {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestShallowCheckout goes all the way with what a CI has: a clone of depth 1.
func TestShallowCheckout(t *testing.T) {
	full := gittest.NewCheckout(t, map[string]string{"a": "1"})
	gittest.WriteFiles(t, full, map[string]string{"a": "2"})
	gittest.Git(t, full, "commit", "-qam", "second")
	src := filepath.Join(gittest.RealPath(t, t.TempDir()), "clone")
	gittest.Git(t, full, "clone", "-q", "--depth=1", "file://"+full, src)
	r, base, to := change(t, src, file("a", "3"))
	bundle := filepath.Join(t.TempDir(), "b.bundle")
	f, err := os.Create(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.Bundle(gittest.Context(t), f, "b", base.Hash); err != nil {
		t.Fatal(err)
	}
	if err := (checkout.User{}).Import(gittest.Context(t), src, bundle, "b", to); err != nil {
		t.Error(err)
	}
	if _, err := r.Push(gittest.Context(t), PushRequest{Source: git.Source{URL: src}, Commit: to, Branch: "c"}); err != nil {
		t.Error(err)
	}
	s := newServer(t, true)
	url, dir := s.bare(t, full, "a.git")
	if _, err := r.Push(gittest.Context(t), PushRequest{Source: git.Source{URL: url}, Commit: to, Branch: "d"}); err != nil {
		t.Error(err)
	}
	for _, ref := range []string{"b", "c"} {
		if got := gittest.Git(t, src, "rev-parse", ref); got != to {
			t.Errorf("%s is at %s", ref, got)
		}
	}
	if got := gittest.Git(t, dir, "rev-list", "--count", "d"); got != "3" {
		t.Errorf("%s commits were pushed to", got)
	}
	gittest.Git(t, src, "fsck")
}
