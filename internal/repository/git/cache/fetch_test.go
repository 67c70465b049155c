package cache

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/checkout"
	"hortus.dev/test/gittest"
)

func TestFetchAndResolve(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\n"})
	first := gittest.Git(t, src, "rev-parse", "HEAD")
	gittest.Git(t, src, "tag", "-a", "-m", "a tag", "v1")
	gittest.Git(t, src, "checkout", "-q", "-b", "feature/x")
	gittest.WriteFiles(t, src, map[string]string{"b.txt": "two\n"})
	gittest.Git(t, src, "add", "-A")
	gittest.Git(t, src, "commit", "-q", "-m", "second\n\nbody")
	second := gittest.Git(t, src, "rev-parse", "HEAD")
	gittest.Git(t, src, "checkout", "-q", "main")

	c := newCache(t)
	var lines []string
	r, err := c.Fetch(gittest.Context(t), git.Source{URL: src}, func(l string) { lines = append(lines, l) })
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) == 0 {
		t.Error("no progress was told")
	}
	for _, tc := range []struct{ ref, hash, branch string }{
		{"", first, "main"}, {"main", first, "main"}, {"refs/heads/main", first, "main"}, {"feature/x", second, "feature/x"},
		{"v1", first, ""}, {"refs/tags/v1", first, ""}, {first, first, ""}, {second[:8], second, ""},
	} {
		got, err := r.Resolve(gittest.Context(t), tc.ref)
		if err != nil || got.Hash != tc.hash || got.Branch != tc.branch {
			t.Errorf("Resolve(%q) = %+v, %v; want %s on %q", tc.ref, got, err, tc.hash, tc.branch)
		}
	}
	if got, _ := r.Resolve(gittest.Context(t), second); got.Subject != "second" || got.Time.Unix() != 1700000000 || got.Tree != gittest.Git(t, src, "rev-parse", second+"^{tree}") {
		t.Errorf("got %+v", got)
	}
	for _, ref := range []string{"nope", "deadbeef", "refs/heads/v1"} {
		_, err := r.Resolve(gittest.Context(t), ref)
		gittest.WantKind(t, err, api.KindNotFound, ref)
	}
	for _, ref := range []string{"main~1", "--all", "main@{1}", ":/first", "HEAD", "a..b", "x^{tree}", "a b"} {
		_, err := r.Resolve(gittest.Context(t), ref)
		gittest.WantKind(t, err, api.KindInvalid, "is not the name")
	}

	// What goes away there goes away here, and a branch may become a directory.
	gittest.Git(t, src, "branch", "-D", "feature/x")
	gittest.Git(t, src, "branch", "feature")
	fetch(t, c, src)
	_, err = r.Resolve(gittest.Context(t), "feature/x")
	gittest.WantKind(t, err, api.KindNotFound, "feature/x")
	if got, err := r.Resolve(gittest.Context(t), "feature"); err != nil || got.Hash != first {
		t.Errorf("got %+v, %v", got, err)
	}

	// A HEAD that is no branch.
	gittest.Git(t, src, "checkout", "-q", "--detach", second)
	fetch(t, c, src)
	if got := head(t, r); got.Hash != second || got.Branch != "" {
		t.Errorf("a detached HEAD is %+v", got)
	}
	gittest.Git(t, src, "checkout", "-q", "main")
	fetch(t, c, "file://"+src)
	if got := head(t, r); got.Hash != first || got.Branch != "main" {
		t.Errorf("HEAD is %+v", got)
	}
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 { // home, the repository, its lock
		t.Errorf("the cache holds %v", entries)
	}
}

func TestFetchSpecialRepositories(t *testing.T) {
	c := newCache(t)
	t.Run("empty", func(t *testing.T) {
		src := gittest.RealPath(t, t.TempDir())
		gittest.Git(t, src, "init", "-q", "--bare", "--template=")
		r := fetch(t, c, src)
		_, err := r.Resolve(gittest.Context(t), "")
		gittest.WantKind(t, err, api.KindNotFound, "HEAD")
	})
	t.Run("emptied", func(t *testing.T) {
		src := gittest.NewCheckout(t, nil)
		r := fetch(t, c, src)
		head(t, r)
		gittest.Git(t, src, "checkout", "-q", "--orphan", "other")
		gittest.Git(t, src, "branch", "-D", "main")
		fetch(t, c, src)
		for _, ref := range []string{"", "main"} {
			_, err := r.Resolve(gittest.Context(t), ref)
			gittest.WantKind(t, err, api.KindNotFound, "")
		}
	})
	t.Run("shallow", func(t *testing.T) {
		full := gittest.NewCheckout(t, map[string]string{"a": "1"})
		gittest.WriteFiles(t, full, map[string]string{"a": "2"})
		gittest.Git(t, full, "commit", "-qam", "second")
		src := filepath.Join(gittest.RealPath(t, t.TempDir()), "clone")
		gittest.Git(t, full, "clone", "-q", "--depth=1", "file://"+full, src)
		r := fetch(t, c, src)
		dir := filepath.Join(t.TempDir(), "w")
		if _, err := r.Checkout(gittest.Context(t), head(t, r).Hash, dir, CheckoutOptions{}); err != nil {
			t.Fatal(err)
		}
		if out := gittest.Git(t, dir, "status", "--porcelain"); out != "" {
			t.Errorf("status: %s", out)
		}
	})
	t.Run("shallow, later", func(t *testing.T) {
		full := gittest.NewCheckout(t, map[string]string{"a": "1"})
		src := filepath.Join(gittest.RealPath(t, t.TempDir()), "clone")
		gittest.Git(t, full, "clone", "-q", "--depth=1", "file://"+full, src)
		s := newServer(t, true)
		url, _ := s.bare(t, full, "full.git")
		first := head(t, fetch(t, c, src)).Hash
		for i := range 3 {
			gittest.WriteFiles(t, full, map[string]string{"a": strings.Repeat("x", i+2)})
			gittest.Git(t, full, "commit", "-qam", "next")
		}
		gittest.Git(t, src, "fetch", "-q", "--depth=1", "origin", "main")
		gittest.Git(t, src, "reset", "-q", "--hard", "FETCH_HEAD")
		r := fetch(t, c, src)
		if got := head(t, r).Hash; got == first || got != gittest.Git(t, full, "rev-parse", "HEAD") {
			t.Errorf("HEAD is %s", got)
		}
		if _, err := r.Checkout(gittest.Context(t), head(t, r).Hash, filepath.Join(t.TempDir(), "w"), CheckoutOptions{}); err != nil {
			t.Error(err)
		}
		// A server with a shallow repository.
		shallow := filepath.Join(s.root, "shallow.git")
		gittest.Git(t, full, "clone", "-q", "--bare", "--depth=1", "file://"+full, shallow)
		other := strings.Replace(url, "full.git", "shallow.git", 1)
		if got := head(t, fetch(t, c, other)).Hash; got != gittest.Git(t, full, "rev-parse", "HEAD") {
			t.Errorf("by http: HEAD is %s", got)
		}
	})
	t.Run("partial", func(t *testing.T) {
		full := gittest.NewCheckout(t, map[string]string{"a": "1"})
		gittest.WriteFiles(t, full, map[string]string{"a": "2"})
		gittest.Git(t, full, "commit", "-qam", "second")
		gittest.Git(t, full, "config", "uploadpack.allowFilter", "true")
		src := filepath.Join(gittest.RealPath(t, t.TempDir()), "clone")
		gittest.Git(t, full, "clone", "-q", "--filter=blob:none", "file://"+full, src)
		_, err := c.Fetch(gittest.Context(t), git.Source{URL: src}, nil)
		gittest.WantKind(t, err, api.KindUnsupported, "partial clone")
		// What completes it, as the hint says.
		if out, err := gittest.TryGit(t, src, "fetch", "-q", "--refetch", "--no-filter"); err != nil {
			t.Logf("this git cannot complete a partial clone: %s", out)
			return
		}
		if got := head(t, fetch(t, c, src)).Hash; got != gittest.Git(t, full, "rev-parse", "HEAD") {
			t.Errorf("HEAD is %s", got)
		}
	})
	t.Run("sha256", func(t *testing.T) {
		src := gittest.RealPath(t, t.TempDir())
		gittest.Git(t, src, "init", "-q", "-b", "main", "--object-format=sha256", "--template=")
		gittest.WriteFiles(t, src, map[string]string{"a": "1"})
		gittest.Git(t, src, "add", "-A")
		gittest.Git(t, src, "commit", "-qm", "first")
		r := fetch(t, c, src)
		h := head(t, r)
		if len(h.Hash) != 64 {
			t.Fatalf("got %+v", h)
		}
		res, err := r.Commit(gittest.Context(t), request(h.Hash, file("b", "2")))
		if err != nil || len(res.Hash) != 64 {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := r.Checkout(gittest.Context(t), res.Hash, filepath.Join(t.TempDir(), "w"), CheckoutOptions{Depth: 1}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("linked work tree", func(t *testing.T) {
		src := gittest.NewCheckout(t, map[string]string{"a": "1"})
		linked := filepath.Join(gittest.RealPath(t, t.TempDir()), "linked")
		gittest.Git(t, src, "worktree", "add", "-q", "-b", "side", linked)
		if got := head(t, fetch(t, c, linked)); got.Branch != "side" {
			t.Errorf("got %+v", got)
		}
		if got, err := (checkout.User{}).Toplevel(gittest.Context(t), linked); err != nil || got.Branch != "side" || got.Root != linked {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("submodule", func(t *testing.T) {
		inner, outer := gittest.NewCheckout(t, map[string]string{"a": "1"}), gittest.NewCheckout(t, map[string]string{"b": "1"})
		gittest.Git(t, outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub")
		gittest.Git(t, outer, "commit", "-qm", "with it")
		if got := head(t, fetch(t, c, filepath.Join(outer, "sub"))); got.Branch != "main" {
			t.Errorf("got %+v", got)
		}
		r := fetch(t, c, outer)
		res, err := r.Checkout(gittest.Context(t), head(t, r).Hash, filepath.Join(t.TempDir(), "w"), CheckoutOptions{})
		if err != nil || len(res.Submodules) != 1 || res.Submodules[0].Path != "sub" {
			t.Errorf("got %+v, %v", res, err)
		}
	})
}

func TestFetchRefusesSources(t *testing.T) {
	c := newCache(t)
	plain := gittest.RealPath(t, t.TempDir())
	for _, tc := range []struct {
		url  string
		kind api.Kind
		text string
	}{
		{"", api.KindInvalid, "the repository is missing"},
		{"relative/path", api.KindInvalid, "absolute path"},
		{plain, api.KindNotFound, "git init"},
		{plain + "/nothing", api.KindNotFound, ""},
		{"ext::sh -c touch% /tmp/x", api.KindInvalid, ""},
		{"--upload-pack=touch /tmp/x", api.KindInvalid, "-"},
		{"ssh://-oProxyCommand=x/y", api.KindInvalid, "host"},
		{"-oProxyCommand=x:y", api.KindInvalid, ""},
		{"git://example.org/x", api.KindInvalid, "unsupported address"},
		{"http://192.0.2.1/x.git", api.KindDenied, "https"},
		{"https://user:secret@example.org/x", api.KindInvalid, "password"},
		{"https://user@example.org/x", api.KindInvalid, "user name"},
		{"file://elsewhere/x", api.KindInvalid, "absolute"},
		{"https://example.org/x?service=y", api.KindInvalid, "?"},
	} {
		_, err := c.Fetch(gittest.Context(t), git.Source{URL: tc.url}, nil)
		gittest.WantKind(t, err, tc.kind, tc.text)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", tc.url, err)
		}
	}
	src := gittest.NewCheckout(t, nil)
	_, err := c.Fetch(gittest.Context(t), git.Source{URL: src, Auth: &git.Auth{Token: "x"}}, nil)
	gittest.WantKind(t, err, api.KindInvalid, "https only")
}

func TestFetchesAtOnce(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "cache")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := Open(Config{Dir: dir}) // as another process would
			if err != nil {
				t.Error(err)
				return
			}
			r, err := c.Fetch(gittest.Context(t), git.Source{URL: src}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := r.Resolve(gittest.Context(t), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestFetchBounds(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": strings.Repeat("x", 100)})
	gittest.Git(t, src, "branch", "b1")
	gittest.Git(t, src, "branch", "b2")
	_, err := newCache(t, func(c *Config) { c.MaxRefs = 2 }).Fetch(gittest.Context(t), git.Source{URL: src}, nil)
	gittest.WantKind(t, err, api.KindExhausted, "more than 2 branches")
	small := newCache(t, func(c *Config) { c.MaxBytes = 100 })
	_, err = small.Fetch(gittest.Context(t), git.Source{URL: src}, nil)
	gittest.WantKind(t, err, api.KindExhausted, "limit of 100 bytes")
	if left, _ := filepath.Glob(filepath.Join(small.cfg.Dir, "*.git")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
