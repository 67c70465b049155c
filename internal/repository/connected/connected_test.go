package connected

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/gittest"
)

type world struct {
	*Repositories
	rows  *database.DB
	cache *cache.Cache
}

func open(t *testing.T, owner api.OwnerID) world {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/l", StartedAt: api.Event{}.At.AddDate(2000, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	c, err := cache.Open(cache.Config{Dir: filepath.Join(gittest.RealPath(t, t.TempDir()), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	return world{New(Config{Cache: c, Rows: db, Owner: owner, Source: func(_ context.Context, _, url string) (git.Source, error) { return git.Source{URL: url}, nil }}), db, c}
}

func TestLifeOfARepository(t *testing.T) {
	ctx := gittest.Context(t)
	w := open(t, api.NewOwnerID())
	src := filepath.Join(gittest.RealPath(t, t.TempDir()), "My App.git")
	gittest.Git(t, t.TempDir(), "clone", "-q", gittest.NewCheckout(t, map[string]string{"a": "1"}), src)
	var lines int
	r, err := w.Add(ctx, api.AddRepository{URL: src, Account: "acme"}, func(string) { lines++ })
	if err != nil {
		t.Fatal(err)
	}
	first := gittest.Git(t, src, "rev-parse", "HEAD")
	if r.State != api.RepositoryReady || r.Name != "my-app" || r.Commit != first || r.Subject != "first" || r.Bytes == 0 || r.Objects != 3 || r.FetchedAt.IsZero() || len(r.Key) != 64 || r.Error != nil || lines == 0 {
		t.Errorf("%+v, %d lines", r, lines)
	}
	_, err = w.Add(ctx, api.AddRepository{URL: src, Name: "other", Account: "acme"}, nil)
	gittest.WantKind(t, err, api.KindExists, "connected already as my-app")
	_, err = w.Add(ctx, api.AddRepository{URL: src, Branch: "main", Name: "my-app", Account: "acme"}, nil)
	gittest.WantKind(t, err, api.KindExists, "named my-app")
	// Another branch and another account are others.
	b, err := w.Add(ctx, api.AddRepository{URL: src, Branch: "main", Name: "main-only", Account: "acme"}, nil)
	if err != nil || b.Key == r.Key || b.Objects != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := w.Add(ctx, api.AddRepository{URL: src, Account: "other"}, nil); err != nil {
		t.Error(err)
	}

	gittest.WriteFiles(t, src, map[string]string{"a": "2"})
	gittest.Git(t, src, "commit", "-qam", "second")
	if r, err = w.Sync(ctx, r.ID, nil); err != nil || r.Commit == first || r.Objects != 3 || r.State != api.RepositoryReady {
		t.Errorf("%+v, %v", r, err)
	}
	kept, err := w.Kept(ctx)
	if err != nil || len(kept) != 1 {
		t.Errorf("kept: %v, %v", kept, err)
	}

	// A failed fetch keeps what there is, and says why.
	gittest.Git(t, src, "branch", "-m", "main", "trunk")
	if _, err := w.Sync(ctx, b.ID, nil); api.KindOf(err) != api.KindNotFound {
		t.Errorf("got %v", err)
	}
	if b, err = w.Get(ctx, b.ID); err != nil || b.State != api.RepositoryFailed || b.Error == nil || b.Commit != first && b.Commit == "" {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = w.Remove(ctx, b.ID); err != nil || b.State != api.RepositoryRemoved || b.EndedAt.IsZero() {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := w.Remove(ctx, b.ID); err != nil {
		t.Errorf("once more: %v", err)
	}
	_, err = w.Sync(ctx, b.ID, nil)
	gittest.WantKind(t, err, api.KindConflict, "not connected any more")
	_, err = w.Named(ctx, "acme", "main-only")
	gittest.WantKind(t, err, api.KindNotFound, "unknown repository")
	if got, err := w.Named(ctx, "acme", "my-app"); err != nil || got.ID != r.ID {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = w.Named(ctx, "", "my-app")
	gittest.WantKind(t, err, api.KindNotFound, "")
}

func TestAddRefuses(t *testing.T) {
	ctx := gittest.Context(t)
	w := open(t, api.NewOwnerID())
	src := gittest.NewCheckout(t, nil)
	for name, c := range map[string]struct {
		req  api.AddRepository
		kind api.Kind
		text string
	}{
		"nothing":    {api.AddRepository{}, api.KindInvalid, "missing"},
		"a password": {api.AddRepository{URL: "https://u:s3cret@example.org/r"}, api.KindInvalid, "password"},
		"ext":        {api.AddRepository{URL: "ext::sh -c x"}, api.KindInvalid, ""},
		"an option":  {api.AddRepository{URL: "--upload-pack=x"}, api.KindInvalid, "-"},
		"a name":     {api.AddRepository{URL: src, Name: "A b"}, api.KindInvalid, "valid name"},
		"a path":     {api.AddRepository{URL: src, Name: "../x"}, api.KindInvalid, "valid name"},
		"a revision": {api.AddRepository{URL: src, Branch: "main~1"}, api.KindInvalid, "not the name"},
		"no branch":  {api.AddRepository{URL: src, Branch: "nope", Name: "x"}, api.KindNotFound, "nope"},
		"none there": {api.AddRepository{URL: filepath.Join(src, "none")}, api.KindNotFound, ""},
	} {
		_, err := w.Add(ctx, c.req, nil)
		if api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := w.rows.ListRepositories(ctx); err != nil || len(all) != 0 {
		t.Errorf("something is connected: %+v, %v", all, err)
	}
	_, err := New(Config{Rows: w.rows}).Add(ctx, api.AddRepository{URL: src}, nil)
	gittest.WantKind(t, err, api.KindUnsupported, "git is not installed")
}

func TestRecover(t *testing.T) {
	ctx := gittest.Context(t)
	dead := api.NewOwnerID()
	w := open(t, dead)
	r, err := w.Add(ctx, api.AddRepository{URL: gittest.NewCheckout(t, nil), Name: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.rows.ChangeRepository(ctx, r.ID, func(r *api.Repository) error { r.State = api.RepositoryFetching; return nil }); err != nil {
		t.Fatal(err)
	}
	next := New(Config{Cache: w.cache, Rows: w.rows, Owner: api.NewOwnerID(), Source: w.cfg.Source})
	if n, err := next.Recover(ctx, func(api.OwnerID) bool { return false }); n != 0 || err != nil {
		t.Errorf("a living owner's: %d, %v", n, err)
	}
	if n, err := next.Recover(ctx, func(id api.OwnerID) bool { return id == dead }); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if r, err = next.Get(ctx, r.ID); err != nil || r.State != api.RepositoryFailed || r.Commit == "" || !strings.Contains(r.Error.Message, "during the fetch") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPreparationOutlivesAFetch: a request and a schedule that come while a fetch runs are in the
// row afterwards.
func TestPreparationOutlivesAFetch(t *testing.T) {
	ctx := gittest.Context(t)
	w := open(t, api.NewOwnerID())
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	r, err := w.Add(ctx, api.AddRepository{URL: src, Name: "x"}, nil)
	if err != nil || r.Preparation != nil {
		t.Fatal(r.Preparation, err)
	}
	gittest.WriteFiles(t, src, map[string]string{"a": "2"})
	gittest.Git(t, src, "commit", "-qam", "second")
	lines := 0
	r, err = w.Sync(ctx, r.ID, func(string) {
		if lines++; lines > 1 {
			return
		}
		if _, err := w.Prepare(ctx, r.ID); err != nil {
			t.Error(err)
		}
		if _, err := w.Schedule(ctx, r.ID, api.RepositorySchedule{PrepareEveryMS: 60_000}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || lines == 0 {
		t.Fatalf("%d lines, %v", lines, err)
	}
	if r, err = w.Get(ctx, r.ID); err != nil || r.State != api.RepositoryReady || r.Preparation == nil || !r.Preparation.Requested || r.Preparation.NextAt.IsZero() || r.PrepareEveryMS != 60_000 {
		t.Errorf("%+v, %+v, %v", r, r.Preparation, err)
	}
	select {
	case <-w.Changed():
	default:
		t.Error("nobody is told")
	}
	for _, ms := range []int64{-1, 59_999, api.MaxPrepareEvery.Milliseconds() + 1} {
		_, err := w.Schedule(ctx, r.ID, api.RepositorySchedule{PrepareEveryMS: ms})
		gittest.WantKind(t, err, api.KindInvalid, "between a minute and a year")
		_, err = w.Add(ctx, api.AddRepository{URL: src, Name: "y", Branch: "main", PrepareEveryMS: ms}, nil)
		gittest.WantKind(t, err, api.KindInvalid, "between a minute and a year")
	}
	if _, err := w.Remove(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.Prepare(ctx, r.ID)
	gittest.WantKind(t, err, api.KindConflict, "not connected any more")
}

// branches are policies that note which branches they are asked about.
type branches struct {
	all  []string
	head string
}

func (*branches) Admit(api.RepositoryPolicy) error { return nil }

func (b *branches) Explain(_ context.Context, _ api.Repository, all []string, head string, _ bool) (api.RepositoryPolicyState, error) {
	b.all, b.head = all, head
	return api.RepositoryPolicyState{}, nil
}

// TestPolicyOnAnotherHost: hosts that share rows have copies of their own. The policy of a repository is about the branches that any of them fetched.
func TestPolicyOnAnotherHost(t *testing.T) {
	ctx := gittest.Context(t)
	here := open(t, api.NewOwnerID())
	there := world{rows: here.rows}
	cfg := here.cfg
	cfg.Owner = api.NewOwnerID()
	var err error
	if there.cache, err = cache.Open(cache.Config{Dir: filepath.Join(gittest.RealPath(t, t.TempDir()), "cache")}); err != nil {
		t.Fatal(err)
	}
	var asked branches
	cfg.Cache, cfg.Policies = there.cache, &asked
	there.Repositories = New(cfg)

	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	gittest.Git(t, src, "branch", "next")
	r, err := here.Add(ctx, api.AddRepository{URL: src, Name: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := there.Policy(ctx, r.ID); err != nil || len(asked.all) != 2 || asked.head == "" {
		t.Errorf("without a copy: %+v, %v", asked, err)
	}
	gittest.WriteFiles(t, src, map[string]string{"a": "2"})
	gittest.Git(t, src, "commit", "-qam", "second")
	gittest.Git(t, src, "branch", "late")
	if _, err := here.Sync(ctx, r.ID, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := there.SetPolicy(ctx, r.ID, api.SetRepositoryPolicy{Policy: api.RepositoryPolicy{Target: "late"}}); err != nil || len(asked.all) != 3 {
		t.Errorf("with an older copy: %+v, %v", asked, err)
	}
	_, err = there.SetPolicy(ctx, r.ID, api.SetRepositoryPolicy{Policy: api.RepositoryPolicy{Target: "never"}})
	gittest.WantKind(t, err, api.KindNotFound, "no branch")
}

func TestNames(t *testing.T) {
	for url, want := range map[string]string{
		"https://example.org/o/Web.App.git": "web.app", "git@example.org:o/r": "r", "git@example.org:r.git": "r", "/home/x/My Repo/": "my-repo",
		"ssh://example.org/~u/" + strings.Repeat("x", 100): strings.Repeat("x", 63), "https://example.org/.git": "", "https://example.org/ü": "", "https://example.org/.-_": "",
	} {
		if got := nameOf(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	key := func(url, branch string) string {
		r, err := git.ParseRemote(url, false)
		if err != nil {
			t.Fatal(err)
		}
		return r.BranchKey(branch)
	}
	if key("https://example.org/o/r", "") != key("https://EXAMPLE.org:443/o/r/", "") {
		t.Error("two spellings have two keys")
	}
	seen := map[string]bool{}
	for _, k := range []string{key("https://example.org/o/r", ""), key("https://example.org/o/r", "main"), key("https://example.org/o/rmain", ""), key("ssh://example.org/o/r", "")} {
		if seen[k] {
			t.Error("two repositories have one key")
		}
		seen[k] = true
	}
}
