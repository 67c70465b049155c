package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// keeper plays a daemon with connected repositories.
type keeper struct {
	rows  []api.Repository
	added api.AddRepository
	// synced is the body of the last fetch.
	synced api.SyncRepository
	tasks  []api.CreateTask
	fail   *api.Error // of a fetch
}

func (k *keeper) start(t *testing.T) app.Connect {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	one := func(w http.ResponseWriter, r *http.Request, do func(*api.Repository)) {
		for i := range k.rows {
			if row := &k.rows[i]; row.Name == r.PathValue("id") || string(row.ID) == r.PathValue("id") {
				do(row)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		reply(w, api.Error{Kind: api.KindNotFound, Message: "unknown repository " + r.PathValue("id")})
	}
	fetch := func(w http.ResponseWriter, row api.Repository) {
		reply(w, api.RepositoryLine{Type: api.LineStep, Progress: "Receiving objects: 50% (1/2)" + evil})
		if k.fail != nil {
			reply(w, api.RepositoryLine{Type: api.LineError, Error: new(api.ProblemOf(k.fail, 0))})
			return
		}
		reply(w, api.RepositoryLine{Type: api.LineDone, Repository: &row})
	}
	mux.HandleFunc("POST /v1/repositories", func(w http.ResponseWriter, r *http.Request) {
		_ = func() error { k.added = api.AddRepository{}; return json.NewDecoder(r.Body).Decode(&k.added) }()
		fetch(w, k.rows[0])
	})
	mux.HandleFunc("GET /v1/repositories", func(w http.ResponseWriter, r *http.Request) { reply(w, k.rows) })
	mux.HandleFunc("GET /v1/repositories/{id}", func(w http.ResponseWriter, r *http.Request) {
		one(w, r, func(row *api.Repository) { reply(w, row) })
	})
	mux.HandleFunc("DELETE /v1/repositories/{id}", func(w http.ResponseWriter, r *http.Request) {
		one(w, r, func(row *api.Repository) { reply(w, row) })
	})
	mux.HandleFunc("PUT /v1/repositories/{id}/schedule", func(w http.ResponseWriter, r *http.Request) {
		var in api.RepositorySchedule
		_ = json.NewDecoder(r.Body).Decode(&in)
		one(w, r, func(row *api.Repository) { row.PrepareEveryMS = in.PrepareEveryMS; reply(w, row) })
	})
	mux.HandleFunc("POST /v1/repositories/{id}/sync", func(w http.ResponseWriter, r *http.Request) {
		k.synced = api.SyncRepository{}
		_ = json.NewDecoder(r.Body).Decode(&k.synced) // may be empty
		one(w, r, func(row *api.Repository) {
			next := *row
			next.Commit, next.Objects = strings.Repeat("2", 40), 3
			fetch(w, next)
		})
	})
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		var req api.CreateTask
		_ = json.NewDecoder(r.Body).Decode(&req)
		k.tasks = append(k.tasks, req)
		reply(w, api.Task{ID: "t4f2a000000000000000", Create: req})
	})
	return serving(t, mux)
}

func newKeeper() *keeper {
	return &keeper{rows: []api.Repository{{
		ID: api.NewRepositoryID(), Name: "web", State: api.RepositoryReady, URL: "https://host/o/web", Branch: "main", Commit: strings.Repeat("1", 40), Subject: "A" + evil,
		Bytes: 2 << 20, Objects: 7, FetchMS: 1200, Submodules: 2, LFSFiles: 1, LFSBytes: 3 << 20,
	}}}
}

func TestRepoCommands(t *testing.T) {
	p := newPerson(t)
	k := newKeeper()
	connect := k.start(t)
	for _, c := range []struct {
		args        []string
		code        int
		stdout, err []string
	}{
		{[]string{"add", "https://host/o/web@main"}, 0, []string{"web\n"}, []string{"web is connected: main at 111111111111, A", "7 objects in 1.2s, 2 MiB", "2 submodules are not fetched", "1 file is a Git LFS pointer: its content (3 MiB)", "hortus task --repo web"}},
		{[]string{"add", p.root}, 0, []string{"web\n"}, nil},
		{[]string{"add", "https://host/o/web@main", "--branch", "dev"}, 2, nil, []string{"two branches"}},
		{[]string{"add", "https://user:secret@host/o/web"}, 2, nil, []string{"contains a password"}},
		{[]string{"add", filepath.Join(p.home, "none")}, 2, nil, []string{"neither a directory nor a URL"}},
		{[]string{"ls"}, 0, []string{"NAME", "web   ready  main    111111111111  2 MiB  never", "https://host/o/web"}, nil},
		{[]string{"show", "web"}, 0, []string{"2 submodules", "Git LFS", "main"}, nil},
		{[]string{"show", "wbe"}, 4, nil, []string{"unknown repository wbe", "hortus repo ls"}},
		{[]string{"sync"}, 0, nil, []string{"web: 3 objects in 1.2s, main at 222222222222", "it was at 111111111111"}},
		{[]string{"sync", "web", "--quiet"}, 0, nil, nil},
		{[]string{"rm", "web"}, 0, nil, []string{"web is disconnected; its cached copy (2 MiB) is kept"}},
		{[]string{"rm", "../x"}, 2, nil, []string{"neither the name nor the ID"}},
	} {
		code, stdout, stderr := runIn(t, p.vars, connect, "", nil, append([]string{"repo"}, c.args...)...)
		if (code == 0) != (c.code == 0) || strings.Contains(stdout+stderr, "\x1b]") || strings.Contains(stderr, "secret") {
			t.Errorf("%v: code %d\n%s\n%s", c.args, code, stdout, stderr)
		}
		for _, want := range c.stdout {
			if !strings.Contains(stdout, want) {
				t.Errorf("%v: no %q in stdout:\n%s", c.args, want, stdout)
			}
		}
		for _, want := range c.err {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: no %q in stderr:\n%s", c.args, want, stderr)
			}
		}
		if c.code == 0 && c.args[len(c.args)-1] == "--quiet" && stdout+stderr != "" {
			t.Errorf("%v: %q %q", c.args, stdout, stderr)
		}
	}
	if k.added.URL != p.root || k.added.Branch != "" {
		t.Errorf("asked for %+v", k.added)
	}
	k.fail = &api.Error{Kind: api.KindDenied, Message: "no access", Hint: "set a token"}
	if code, _, stderr := runIn(t, p.vars, connect, "", nil, "repo", "sync", "web"); code == 0 || !strings.Contains(stderr, "no access") || !strings.Contains(stderr, "set a token") {
		t.Errorf("%d %s", code, stderr)
	}
	k.rows = append(k.rows, api.Repository{ID: api.NewRepositoryID(), Name: "two"})
	if code, _, stderr := runIn(t, p.vars, connect, "", nil, "repo", "sync"); code == 0 || !strings.Contains(stderr, "web: failed: no access") || !strings.Contains(stderr, "two: failed: no access") || !strings.Contains(stderr, "2 of 2 repositories") {
		t.Errorf("%d %s", code, stderr)
	}
	k.rows = nil
	if code, stdout, stderr := runIn(t, p.vars, connect, "", nil, "repo", "ls"); code != 0 || stdout != "" || !strings.Contains(stderr, "hortus repo add") {
		t.Errorf("%d %q %s", code, stdout, stderr)
	}
}

// TestTaskOnANamedRepository: the name of a connected repository stands for its address, unless
// there is a directory of that name.
func TestTaskOnANamedRepository(t *testing.T) {
	p := newPerson(t)
	k := newKeeper()
	connect := k.start(t)
	for _, c := range []struct{ repo, url, ref, says string }{
		{"web", "https://host/o/web", "main", ""},
		{"web@v1", "https://host/o/web", "v1", ""},
		{string(k.rows[0].ID), "https://host/o/web", "main", ""},
		{"wbe", "", "", "neither a directory nor a connected repository"},
		{"web@", "", "", "is missing"},
	} {
		k.tasks = nil
		_, _, stderr := runIn(t, p.vars, connect, "", nil, "task", "--detach", "--repo", c.repo, "--author", "A <a@b>", "fix it")
		switch {
		case c.url == "" && (len(k.tasks) != 0 || !strings.Contains(stderr, c.says)):
			t.Errorf("%s: %+v, %s", c.repo, k.tasks, stderr)
		case c.url != "" && (len(k.tasks) != 1 || k.tasks[0].Repo.URL != c.url || k.tasks[0].Repo.Ref != c.ref):
			t.Errorf("%s: %+v, %s", c.repo, k.tasks, stderr)
		}
	}
}

// TestPreparedAhead: the commands that set a schedule or request a preparation, and what ls and show
// say of each state.
func TestPreparedAhead(t *testing.T) {
	p := newPerson(t)
	k := newKeeper()
	connect := k.start(t)
	repo := func(args ...string) (int, string, string) {
		t.Helper()
		return runIn(t, p.vars, connect, "", nil, append([]string{"repo"}, args...)...)
	}
	for _, c := range []struct {
		args []string
		ms   int64
		says string
	}{
		{[]string{"set", "web", "--prepare-every", "6h"}, 6 * 3600_000, "web is prepared every 6h, while"},
		{[]string{"set", "web", "--prepare-every", "2d"}, 48 * 3600_000, "web is prepared every 48h, while"},
		{[]string{"set", "web", "--prepare-every", "90m"}, 90 * 60_000, "web is prepared every 1h30m, while"},
		{[]string{"set", "web", "--prepare-every", "never"}, 0, "not prepared by itself"},
	} {
		if code, _, stderr := repo(c.args...); code != 0 || k.rows[0].PrepareEveryMS != c.ms || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: %d, %d ms, %s", c.args, code, k.rows[0].PrepareEveryMS, stderr)
		}
	}
	for _, args := range [][]string{
		{"set", "web", "--prepare-every", "59s"}, {"set", "web", "--prepare-every", "1ns"}, {"set", "web", "--prepare-every", "-1h"}, {"set", "web", "--prepare-every", "often"},
		{"set", "web", "--prepare-every", "400d"}, {"set", "web"}, {"add", "https://host/o/web", "--prepare-every", "0s"},
	} {
		if code, _, stderr := repo(args...); code != 2 {
			t.Errorf("%v: %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := repo("add", "https://host/o/web", "--prepare-every", "90m"); code != 0 || k.added.PrepareEveryMS != 90*60_000 {
		t.Errorf("%d, %+v, %s", code, k.added, stderr)
	}
	if code, _, stderr := repo("sync", "web", "--prepare"); code != 0 || !k.synced.Prepare || !strings.Contains(stderr, "web is prepared in the background") {
		t.Errorf("%d, %+v, %s", code, k.synced, stderr)
	}
	if code, _, stderr := repo("sync", "web"); code != 0 || k.synced.Prepare || strings.Contains(stderr, "background") {
		t.Errorf("%d, %+v, %s", code, k.synced, stderr)
	}
	ago := time.Now().Add(-2*time.Hour - time.Second)
	next := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		p    api.Preparation
		want []string
	}{
		"done":      {api.Preparation{Commit: strings.Repeat("a", 40), PreparedAt: ago, EndedAt: ago, NextAt: next, Task: "t1"}, []string{"prepared 2h", "ago at aaaaaaa"}},
		"failed":    {api.Preparation{EndedAt: ago, Failures: 1, NextAt: next, Error: &api.Error{Message: "step install: exit 1" + evil}}, []string{"failed 2h", "step install: exit 1", "; next at " + next.Format("2006")}},
		"no next":   {api.Preparation{EndedAt: ago, Failures: 1, Error: &api.Error{Message: "exit 1"}}, []string{"failed 2h"}},
		"running":   {api.Preparation{Running: true, StartedAt: ago}, []string{"running, started 2h"}},
		"requested": {api.Preparation{Requested: true, PreparedAt: ago}, []string{"requested"}},
		"waiting":   {api.Preparation{NextAt: next}, []string{"waiting"}},
	} {
		k.rows[0].Preparation, k.rows[0].PrepareEveryMS = &c.p, 3600_000
		_, list, _ := repo("ls")
		_, show, _ := repo("show", "web")
		for _, want := range c.want {
			if !strings.Contains(list, want) || !strings.Contains(show, want) || strings.Contains(list+show, "\x1b]") {
				t.Errorf("%s: no %q in\n%s\n%s", name, want, list, show)
			}
		}
		if !strings.Contains(show, "prepare every") {
			t.Errorf("%s: %s", name, show)
		}
	}
}
