package prebuild

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/connected"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/gittest"
)

// world has a real database, a real cache of repositories and a clock of its own.
type world struct {
	*Schedule
	t     *testing.T
	rows  *database.DB
	all   *connected.Repositories
	src   string
	now   time.Time
	owner api.OwnerID

	// prepared are the commits that were prepared; fail is the result of the next ones.
	prepared []string
	fail     error
	busy     bool
	leaving  bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), src: gittest.NewCheckout(t, map[string]string{"a": "1"})}
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w.rows = db
	w.start()
	return w
}

// start begins the life of a daemon.
func (w *world) start() {
	w.owner = api.NewOwnerID()
	if err := w.rows.InsertOwner(w.t.Context(), store.Owner{ID: w.owner, Host: "here", LockPath: "/l" + string(w.owner), StartedAt: w.now}); err != nil {
		w.t.Fatal(err)
	}
	c, err := cache.Open(cache.Config{Dir: filepath.Join(gittest.RealPath(w.t, w.t.TempDir()), "cache")})
	if err != nil {
		w.t.Fatal(err)
	}
	clock := func() time.Time { return w.now }
	w.all = connected.New(connected.Config{Cache: c, Rows: w.rows, Owner: w.owner, Now: clock, Source: func(_ context.Context, _, url string) (git.Source, error) { return git.Source{URL: url}, nil }})
	w.Schedule = newSchedule(Config{
		Repositories: w.all, Owner: w.owner, Now: clock,
		Prepare: func(_ context.Context, r api.Repository, started func(api.TaskID)) (string, error) {
			started("t7777777777777777777")
			w.now = w.now.Add(time.Minute) // it takes its time
			if w.fail != nil {
				return "", w.fail
			}
			w.prepared = append(w.prepared, r.Commit)
			return r.Commit, nil
		},
		Busy:    func(context.Context, api.Repository) (bool, error) { return w.busy, nil },
		Leaving: func() bool { return w.leaving },
	})
}

// steps runs what is due, and returns how long it is until the next.
func (w *world) steps() time.Duration {
	w.t.Helper()
	for {
		at := w.now
		next, err := w.step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		switch {
		case next.IsZero():
			return 0
		case next.After(at) || w.leaving:
			return next.Sub(at)
		}
	}
}

func (w *world) push(text string) string {
	w.t.Helper()
	gittest.WriteFiles(w.t, w.src, map[string]string{"a": text})
	gittest.Git(w.t, w.src, "commit", "-qam", text)
	return gittest.Git(w.t, w.src, "rev-parse", "HEAD")
}

func (w *world) add(every time.Duration) api.Repository {
	w.t.Helper()
	r, err := w.all.Add(gittest.Context(w.t), api.AddRepository{URL: w.src, Name: "web", Account: "acme", PrepareEveryMS: every.Milliseconds()}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) get(id api.RepositoryID) api.Preparation {
	w.t.Helper()
	r, err := w.all.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.Preparation == nil {
		return api.Preparation{}
	}
	return *r.Preparation
}

func TestDue(t *testing.T) {
	w := newWorld(t)
	r := w.add(6 * time.Hour)
	// The first one is due at once; the next one an interval after its end.
	if wait := w.steps(); wait != 6*time.Hour || !slices.Equal(w.prepared, []string{r.Commit}) {
		t.Fatalf("wait %s, prepared %q", wait, w.prepared)
	}
	p := w.get(r.ID)
	if p.Commit != r.Commit || p.Running || p.Error != nil || p.Task == "" || !p.PreparedAt.Equal(w.now) || !p.NextAt.Equal(w.now.Add(6*time.Hour)) {
		t.Errorf("%+v", p)
	}
	second := w.push("2")
	w.now = w.now.Add(6*time.Hour - time.Second)
	if wait := w.steps(); wait != time.Second || len(w.prepared) != 1 {
		t.Errorf("before its time: wait %s, prepared %q", wait, w.prepared)
	}
	w.now = w.now.Add(time.Second)
	if wait := w.steps(); wait != 6*time.Hour || len(w.prepared) != 2 || w.prepared[1] != second {
		t.Errorf("wait %s, prepared %q", wait, w.prepared)
	}
	// Without a new commit nothing runs, until the last preparation is a day ago.
	for range 3 {
		w.now = w.now.Add(6 * time.Hour)
		w.steps()
	}
	if p = w.get(r.ID); len(w.prepared) != 2 || !p.EndedAt.Equal(w.now) || p.Commit != second {
		t.Errorf("prepared %q, %+v", w.prepared, p)
	}
	w.now = w.now.Add(6 * time.Hour)
	if w.steps(); len(w.prepared) != 3 {
		t.Errorf("after a day: %q", w.prepared)
	}
	// Without a schedule nothing is due, except on request.
	if _, err := w.all.Schedule(t.Context(), r.ID, api.RepositorySchedule{}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(48 * time.Hour)
	if wait := w.steps(); wait != 0 || len(w.prepared) != 3 {
		t.Errorf("wait %s, prepared %q", wait, w.prepared)
	}
	third := w.push("3")
	if _, err := w.all.Prepare(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if wait := w.steps(); wait != 0 || len(w.prepared) != 4 || w.prepared[3] != third {
		t.Errorf("on request: wait %s, prepared %q", wait, w.prepared)
	}
	if p = w.get(r.ID); p.Requested || p.Running || !p.NextAt.IsZero() {
		t.Errorf("%+v", p)
	}
	if _, err := w.all.Remove(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if wait := w.steps(); wait != 0 {
		t.Errorf("a removed one: wait %s", wait)
	}
}

func TestBackoff(t *testing.T) {
	w := newWorld(t)
	r := w.add(6 * time.Hour)
	w.fail = api.Errorf(api.KindInvalid, "step install: exit 1").WithHint("see the task")
	for i, want := range []time.Duration{12, 24, 24} {
		wait := w.steps()
		p := w.get(r.ID)
		if wait != want*time.Hour || p.Failures != i+1 || p.Error == nil || p.Error.Message != "step install: exit 1" || p.Error.Hint == "" || p.Commit != "" {
			t.Errorf("failure %d: wait %s, %+v, %+v", i+1, wait, p, p.Error)
		}
		w.now = w.now.Add(wait)
	}
	// A fetch that fails is a failure too.
	w.fail = nil
	gittest.Git(t, w.src, "update-ref", "-d", "refs/heads/main")
	if wait := w.steps(); wait != 24*time.Hour || w.get(r.ID).Failures != 4 || len(w.prepared) != 0 {
		t.Errorf("wait %s, %+v", wait, w.get(r.ID))
	}
	gittest.Git(t, w.src, "update-ref", "refs/heads/main", r.Commit)
	w.now = w.now.Add(24 * time.Hour)
	if wait := w.steps(); wait != 6*time.Hour || w.get(r.ID).Failures != 0 || w.get(r.ID).Error != nil || len(w.prepared) != 1 {
		t.Errorf("wait %s, %+v", wait, w.get(r.ID))
	}
	for _, c := range []struct {
		every time.Duration
		n     int
		want  time.Duration
	}{{time.Minute, 0, time.Minute}, {time.Minute, 3, 8 * time.Minute}, {time.Minute, 500, 24 * time.Hour}, {72 * time.Hour, 2, 72 * time.Hour}} {
		if got := interval(c.every, c.n); got != c.want {
			t.Errorf("%s after %d failures: %s, want %s", c.every, c.n, got, c.want)
		}
	}
}

// TestBusy: while somebody else prepares the repository, nothing runs.
func TestBusy(t *testing.T) {
	w := newWorld(t)
	r := w.add(time.Hour)
	w.busy = true
	if wait := w.steps(); wait != retryAfter || len(w.prepared) != 0 || w.get(r.ID).Running {
		t.Errorf("wait %s, prepared %q", wait, w.prepared)
	}
	w.busy = false
	if wait := w.steps(); wait != time.Hour || len(w.prepared) != 1 {
		t.Errorf("wait %s, prepared %q", wait, w.prepared)
	}
}

// TestCrash: a daemon ends during a preparation. The row says running, and the next daemon
// starts it again.
func TestCrash(t *testing.T) {
	w := newWorld(t)
	r := w.add(6 * time.Hour)
	w.leaving, w.fail = true, errors.New("the task is cancelled")
	w.steps()
	if p := w.get(r.ID); !p.Running || p.Owner != w.owner || p.Error != nil || p.Failures != 0 {
		t.Fatalf("%+v", p)
	}
	dead := w.owner
	w.start()
	w.leaving, w.fail = false, nil
	if wait := w.steps(); wait != 0 || len(w.prepared) != 0 {
		t.Errorf("the other daemon may live: wait %s, %q", wait, w.prepared)
	}
	if n, err := w.all.Recover(t.Context(), func(id api.OwnerID) bool { return id == dead }); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if p := w.get(r.ID); p.Running || !p.Requested {
		t.Errorf("%+v", p)
	}
	if wait := w.steps(); wait != 6*time.Hour || len(w.prepared) != 1 {
		t.Errorf("wait %s, prepared %q", wait, w.prepared)
	}
	// The end of one could not be recorded.
	if _, err := w.change(t.Context(), r.ID, func(_ *api.Repository, p *api.Preparation) { p.Running = true }); err != nil {
		t.Fatal(err)
	}
	if w.steps(); len(w.prepared) != 2 || w.get(r.ID).Running {
		t.Errorf("prepared %q, %+v", w.prepared, w.get(r.ID))
	}
}

// memory are repositories without a database.
type memory struct {
	row     api.Repository
	changed chan struct{}
}

func (m *memory) List(context.Context) ([]api.Repository, error) {
	return []api.Repository{m.row}, nil
}
func (m *memory) Sync(context.Context, api.RepositoryID, func(string)) (api.Repository, error) {
	m.row.Commit += "x" // always something new
	return m.row, nil
}
func (m *memory) Change(_ context.Context, _ api.RepositoryID, do func(*api.Repository)) (api.Repository, error) {
	do(&m.row)
	return m.row, nil
}
func (m *memory) Changed() <-chan struct{} { return m.changed }

// TestLoop: the goroutine sleeps until something is due or requested, and Close waits for it.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{row: api.Repository{ID: "r", PrepareEveryMS: time.Hour.Milliseconds(), Preparation: &api.Preparation{NextAt: time.Now().Add(time.Hour)}}, changed: make(chan struct{}, 1)}
		n := 0
		s := New(Config{Repositories: m, Owner: "o", Prepare: func(context.Context, api.Repository, func(api.TaskID)) (string, error) {
			n++
			return m.row.Commit, nil
		}})
		for i, c := range []struct {
			sleep time.Duration
			want  int
		}{{time.Hour - time.Second, 0}, {time.Second, 1}, {3 * time.Hour, 4}} {
			time.Sleep(c.sleep)
			synctest.Wait()
			if n != c.want {
				t.Errorf("%d: prepared %d times, want %d", i, n, c.want)
			}
		}
		p := *m.row.Preparation
		p.Requested = true
		m.row.Preparation = &p
		m.changed <- struct{}{}
		synctest.Wait()
		if n != 5 {
			t.Errorf("on request: prepared %d times", n)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
