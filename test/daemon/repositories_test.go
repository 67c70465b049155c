package daemon

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/gittest"
	"hortus.dev/test/world"
)

// gitServer serves a repository with one commit over http.
type gitServer struct {
	url, head string
	// fetches counts the requests for objects.
	fetches atomic.Int64
}

// newGitServer starts one. before is called for each request.
func newGitServer(t *testing.T, before func()) *gitServer {
	t.Helper()
	work := gittest.NewCheckout(t, map[string]string{"a": "1\n"})
	s := &gitServer{head: gittest.Git(t, work, "rev-parse", "HEAD")}
	git := gittest.NewServer(t, map[string]string{"web.git": work})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before()
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		text := raw
		if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			text, _ = io.ReadAll(z)
		}
		if bytes.Contains(text, []byte("command=fetch")) {
			s.fetches.Add(1)
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/web.git"
	return s
}

// TestRepositoryOutlivesADaemon kills a daemon with SIGKILL during a clone. The next one says so,
// fetches it, and keeps it until it is removed.
func TestRepositoryOutlivesADaemon(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	begun, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s := newGitServer(t, func() {
		first.Do(func() {
			close(begun)
			<-release
		})
	})
	url, head := s.url, s.head

	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	info := world.Must(c.Info(ctx))(t)
	added := make(chan error, 1)
	go func() {
		_, err := c.Repositories.Add(ctx, api.AddRepository{URL: url}, nil)
		added <- err
	}()
	<-begun
	world.OK(t, syscall.Kill(info.PID, syscall.SIGKILL))
	if err := <-added; api.KindOf(err) != api.KindUnavailable {
		t.Errorf("the client of a killed daemon: %v", err)
	}
	close(release)

	c = world.Connect(t, dir)
	row, err := c.Repositories.Get(ctx, "web")
	if err != nil || row.State != api.RepositoryFailed || row.Error == nil || !strings.Contains(row.Error.Message, "ended during the fetch") || row.Error.Hint != "hortus repo sync web" {
		t.Fatalf("%+v, %v", row, err)
	}
	if row, err = c.Repositories.Sync(ctx, "web", nil); err != nil || row.State != api.RepositoryReady || row.Commit != head || row.Error != nil {
		t.Errorf("%+v, %v", row, err)
	}
	copies := func() int {
		t.Helper()
		all := world.Must(filepath.Glob(filepath.Join(dir, "repositories", "*.git")))(t)
		return len(all)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "repositories", "*.new")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	collectAll(t, c)
	if n := copies(); n != 1 {
		t.Errorf("%d copies after a collection", n)
	}
	if row, err = c.Repositories.Remove(ctx, "web"); err != nil || row.State != api.RepositoryRemoved {
		t.Errorf("%+v, %v", row, err)
	}
	if n := copies(); n != 1 {
		t.Errorf("%d copies after the removal", n)
	}
	if _, err := c.Repositories.Get(ctx, "web"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("after the removal: %v", err)
	}
	collectAll(t, c)
	if n := copies(); n != 0 {
		t.Errorf("%d copies after a collection", n)
	}
}

// TestTasksShareAFetch: twenty tasks want a repository that the daemon does not have. It is
// requested once and written once, and each task says where its files came from.
func TestTasksShareAFetch(t *testing.T) {
	t.Parallel()
	const tasks = 20
	ctx := t.Context()
	s := newGitServer(t, func() {})
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	req := api.CreateTask{Request: "prepare", Repo: &api.RepoTask{URL: s.url, PrepareOnly: true, Author: api.Identity{Name: "a", Email: "a@example.org"}}}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range tasks {
		wg.Go(func() {
			task, err := c.Tasks.Create(ctx, req)
			if err != nil {
				t.Error(err)
				return
			}
			tiers := tiersOf(t, c, task.ID)
			mu.Lock()
			defer mu.Unlock()
			for _, e := range tiers {
				if e.Commit != s.head || len(e.Key) != 64 || e.Part != "repository" {
					t.Errorf("%+v", e)
				}
				seen[e.Tier+map[bool]string{true: " hit", false: " miss"}[e.Hit]]++
			}
		})
	}
	wg.Wait()
	if n := s.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
	if seen["packed hit"] != tasks-1 || seen["packed miss"] != 1 || seen["raw miss"]+seen["raw hit"] != 1 || seen["cold hit"] != seen["raw miss"] {
		t.Errorf("%v", seen)
	}
	t.Logf("%d fetches, %v", s.fetches.Load(), seen)
}

// tiersOf waits until a task that succeeds has ended and returns its lookups.
func tiersOf(t *testing.T, c *client.Client, id api.TaskID) (out []api.TierEvent) {
	for e, err := range c.Tasks.Events(t.Context(), id, 0) {
		if err != nil {
			t.Error(err)
			return out
		}
		var tier api.TierEvent
		if e.Type == api.EventTier && json.Unmarshal(e.Data, &tier) == nil {
			out = append(out, tier)
		}
	}
	if task, err := c.Tasks.Get(t.Context(), string(id)); err != nil || task.Outcome != api.OutcomeVerified {
		t.Errorf("%+v, %v", task, err)
	}
	return out
}

// TestSettingsOfARepository: the saved gate is that of the account's tasks on the repository that name none. A fetch that runs meanwhile
// does not undo it, and a secret that is not there changes nothing.
func TestSettingsOfARepository(t *testing.T) {
	w := newTown(t)
	ctx := t.Context()
	s := newGitServer(t, func() {})
	admin := w.As(w.operator)
	row := world.Must(admin.Repositories.Add(ctx, api.AddRepository{URL: s.url}, nil))(t)
	verify, none := "make check", "nope"
	if row = world.Must(admin.Repositories.Settings(ctx, "web", api.RepositorySettings{Verify: &verify}))(t); row.Verify != verify {
		t.Errorf("%+v", row)
	}
	if row = world.Must(admin.Repositories.Sync(ctx, "web", nil))(t); row.Verify != verify {
		t.Errorf("after a fetch: %+v", row)
	}
	if _, err := admin.Repositories.Settings(ctx, "web", api.RepositorySettings{Secret: &none}); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("an unknown secret: %v", err)
	}
	found := world.Must(admin.Repositories.Detected(ctx, "web"))(t)
	if found.Commit != s.head || found.NoGate == "" || found.Policy.Branch != "hortus/*" {
		t.Errorf("%+v", found)
	}
	gate := func(c *client.Client, verify string) string {
		t.Helper()
		task := world.Must(c.Tasks.Create(ctx, api.CreateTask{Request: "x", Repo: &api.RepoTask{URL: s.url, Verify: verify, GateOnly: true, Author: api.Identity{Name: "A", Email: "a@example.org"}}}))(t)
		world.Must(c.Tasks.Cancel(ctx, task.ID))(t)
		return task.Create.Repo.Verify
	}
	other := w.Key("other", api.RoleAdmin)
	for name, c := range map[string]struct {
		client *client.Client
		verify string
		want   string
	}{
		"its account":              {admin, "", verify},
		"its account, another one": {admin, "true", "true"},
		"the operator":             {w.Client, "", ""},
		"another account":          {w.As(other), "", ""},
	} {
		if got := gate(c.client, c.verify); got != c.want {
			t.Errorf("%s: the gate is %q, want %q", name, got, c.want)
		}
	}
}
