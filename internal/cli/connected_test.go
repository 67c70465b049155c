package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// keeper plays a daemon with connected repositories.
type keeper struct {
	rows  []api.Repository
	added api.AddRepository
	tasks []api.CreateTask
	fail  *api.Error // of a fetch
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
		reply(w, api.RepositoryLine{Progress: "Receiving objects: 50% (1/2)" + evil})
		if k.fail != nil {
			reply(w, api.RepositoryLine{Error: k.fail})
			return
		}
		reply(w, api.RepositoryLine{Repository: &row})
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
	mux.HandleFunc("POST /v1/repositories/{id}/sync", func(w http.ResponseWriter, r *http.Request) {
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
