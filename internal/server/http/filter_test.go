package http

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// sandboxes plays sandboxes that are listed.
type pagedSandboxes struct {
	Sandboxes
	rows []api.Sandbox
}

func (b pagedSandboxes) Page(_ context.Context, all bool, p api.PageRequest) ([]api.Sandbox, string, error) {
	var list []api.Sandbox
	for _, s := range b.rows {
		if all || !s.State.Final() {
			list = append(list, s)
		}
	}
	at, _ := strconv.Atoi(p.Cursor)
	end := min(at+p.Limit, len(list))
	if end == len(list) {
		return list[at:], "", nil
	}
	return list[at:end], strconv.Itoa(end), nil
}

func (b pagedSandboxes) Get(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	for _, s := range b.rows {
		if s.ID == id {
			return s, nil
		}
	}
	return api.Sandbox{}, api.Errorf(api.KindNotFound, "unknown sandbox %s", id)
}

// TestForksOf: a list of forks has those of every generation that live, also below a fork that has ended or is not stored.
func TestForksOf(t *testing.T) {
	root, ended, gone := api.NewSandboxID(), api.NewSandboxID(), api.NewSandboxID()
	row := func(parent api.SandboxID, state api.SandboxState) api.Sandbox {
		return api.Sandbox{ID: api.NewSandboxID(), Parent: parent, State: state}
	}
	child, below, stranger, lost := row(root, api.SandboxRunning), row(ended, api.SandboxPaused), row("", api.SandboxRunning), row(gone, api.SandboxRunning)
	b := pagedSandboxes{rows: []api.Sandbox{
		child, below, stranger, lost, row(root, api.SandboxEnded), {ID: ended, Parent: root, State: api.SandboxEnded}, {ID: root, State: api.SandboxRunning},
	}}
	d := New(Config{Sandboxes: b})
	for of, want := range map[api.SandboxID][]api.SandboxID{root: {child.ID, below.ID}, ended: {below.ID}, child.ID: nil, "x": nil} {
		r := httptest.NewRequest(http.MethodGet, "/v1/sandboxes?forksOf="+string(of), nil)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
		var got []api.Sandbox
		if of == "x" {
			if w.Code != http.StatusBadRequest {
				t.Errorf("a malformed id: %d %s", w.Code, w.Body)
			}
			continue
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(s api.Sandbox, id api.SandboxID) bool { return s.ID == id }) {
			t.Errorf("forks of %s: %+v, want %v", of, got, want)
		}
	}
}

// TestLineage: a list by lineage has the first sandbox, its forks, and what was restored.
func TestLineage(t *testing.T) {
	root, stranger := api.NewSandboxID(), api.NewSandboxID()
	fork, restored := api.Sandbox{ID: api.NewSandboxID(), Parent: root, Lineage: root}, api.Sandbox{ID: api.NewSandboxID(), Snapshot: "s1", Lineage: root}
	d := New(Config{Sandboxes: pagedSandboxes{rows: []api.Sandbox{restored, {ID: stranger, Lineage: stranger}, fork, {ID: root}}}}) // the first is of an older build
	for query, want := range map[string]string{
		string(root): fmt.Sprint([]api.SandboxID{restored.ID, fork.ID, root}), string(stranger): fmt.Sprint([]api.SandboxID{stranger}), string(fork.ID): "[]", "x": "invalid",
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/sandboxes?lineage="+query, nil)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
		got := "invalid"
		if w.Code != http.StatusBadRequest {
			var rows []api.Sandbox
			if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil {
				t.Fatal(err)
			}
			ids := []api.SandboxID{}
			for _, s := range rows {
				ids = append(ids, s.ID)
			}
			got = fmt.Sprint(ids)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestFilters: a filtered list has full pages, and each row that matches once.
func TestFilters(t *testing.T) {
	b := pagedSandboxes{}
	for i := range 12 {
		s := api.Sandbox{ID: api.SandboxID(fmt.Sprint(i)), State: api.SandboxRunning, Labels: map[string]string{"team": "a", "n": fmt.Sprint(i % 2)}}
		switch i % 3 {
		case 1:
			s.State = api.SandboxPaused
		case 2:
			s.State, s.Labels = api.SandboxEnded, nil
		}
		b.rows = append(b.rows, s)
	}
	d := New(Config{Sandboxes: b})
	list := func(query string) (ids []string, status int, text string) {
		for cursor := ""; ; {
			r := httptest.NewRequest(http.MethodGet, "/v1/sandboxes?limit=2"+query+cursor, nil)
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
			n := 0
			for part := range strings.SplitSeq(w.Body.String(), `{"id":"`) {
				if id, _, ok := strings.Cut(part, `"`); ok && !strings.HasPrefix(part, "[") && w.Code == 200 {
					ids = append(ids, id)
					n++
				}
			}
			next := w.Header().Get(headerNext)
			if next == "" {
				return ids, w.Code, w.Body.String()
			}
			if n != 2 {
				t.Errorf("%s: a page has %d rows", query, n)
			}
			cursor = "&cursor=" + next
		}
	}
	for query, want := range map[string]string{
		"&state=paused":           "[1 4 7 10]",
		"&state=paused&label=n=1": "[1 7]",
		"&state=paused&state=running&label=n=0&label=team=a": "[0 4 6 10]",
		"&state=ended":  "[2 5 8 11]",
		"&label=team=b": "[]",
	} {
		if got, status, text := list(query); status != http.StatusOK || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s (%d %s)", query, got, want, status, text)
		}
	}
	for query, says := range map[string]string{"&state=asleep": "unknown state", "&label=n": "name=value"} {
		if _, status, text := list(query); status != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

// listedTasks plays tasks that are listed, in one page.
type listedTasks struct {
	Tasks
	tasks []api.Task
}

func (l listedTasks) Page(context.Context, bool, api.PageRequest) ([]api.Task, string, error) {
	return l.tasks, "", nil
}

// listedSessions plays sessions that are listed.
type listedSessions struct {
	Sessions
	sessions []session.Session
}

func (l listedSessions) List(_ context.Context, all bool, _ int) (out []session.Session, err error) {
	for _, s := range l.sessions {
		if all || s.State != session.Closed {
			out = append(out, s)
		}
	}
	return out, nil
}

// TestFiltersOfTasks: lists of tasks, runs and sessions have what matches, and refuse what they do not know.
func TestFiltersOfTasks(t *testing.T) {
	d := New(Config{
		Tasks: listedTasks{tasks: []api.Task{
			{ID: "t1", State: api.TaskRunning}, {ID: "t2", State: api.TaskDone, Outcome: api.OutcomeVerified}, {ID: "t3", State: api.TaskDone, Outcome: api.OutcomeNeedsHuman},
		}},
		Sessions: listedSessions{sessions: []session.Session{{Key: "k1", State: session.Warm}, {Key: "k2", State: session.Stored}, {Key: "k3", State: session.Closed}}},
	})
	for target, want := range map[string]string{
		"/v1/tasks?state=running":                        "t1",
		"/v1/tasks?outcome=verified&outcome=needs_human": "t2 t3",
		"/v1/tasks?state=running&outcome=verified":       "",
		"/v1/runs?state=done&outcome=needs_human":        "t3",
		"/v1/sessions?state=warm":                        "k1",
		"/v1/sessions?state=closed":                      "k3",
		"/v1/sessions":                                   "k1 k2",
		"/v1/tasks?state=asleep":                         "400 unknown state",
		"/v1/runs?outcome=fine":                          "400 unknown outcome",
		"/v1/sessions?state=asleep":                      "400 unknown state",
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
		if says, ok := strings.CutPrefix(want, "400 "); ok {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: %d %s", target, w.Code, w.Body)
			}
			continue
		}
		var rows []struct{ ID, Key string }
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil {
			t.Errorf("%s: %d %v", target, w.Code, err)
		}
		var got []string
		for _, row := range rows {
			got = append(got, cmp.Or(row.Key, row.ID))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", target, got, want)
		}
	}
}

// TestEveryPostAndItsKey: no POST ignores an Idempotency-Key: it keeps the answer, or refuses the key.
func TestEveryPostAndItsKey(t *testing.T) {
	d := New(Config{})
	for rt := range d.Routes() {
		if rt.Method != http.MethodPost || rt.Creates {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(rt.Pattern)
		for _, p := range rt.all() {
			if p.Required {
				path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + p.Name + "=x"
			}
		}
		r := httptest.NewRequest(http.MethodPost, path, nil)
		r.Header.Set(headerKey, "k")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), headerKey) {
			t.Errorf("%s: %d %s", rt.Name, w.Code, w.Body)
		}
	}
}
