package e2b_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/server/e2b"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
)

// TestMain lets the test binary be the guest too.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == birth.Argv0 {
		os.Exit(guest.Main())
	}
	os.Exit(reaper.Run(m.Run))
}

type templates struct{}

func (templates) Layers(_ context.Context, name string) ([]layer.Digest, error) {
	if name != api.HostTemplate {
		return nil, api.Errorf(api.KindNotFound, "template %q not found", name)
	}
	return nil, nil
}

func (templates) Shows(layer.Digest) (bool, error) { return false, nil }

// accounts is what stands between the server and the manager, as small as it can be: it
// knows three keys, has what is made belong to who made it, and hides what does not.
type accounts struct {
	*manager.Planner
	*manager.Creator
	*manager.Sandboxes
	*manager.Guests
	*manager.Saver
	*manager.Pauser
	*manager.Forker
	*manager.Templates
}

const keyA, keyB, keyAdmin = "e2b_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "e2b_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "e2b_cccccccccccccccccccccccccccccccccccccccc"

func (accounts) Authenticate(_ context.Context, key string) (api.Principal, error) {
	switch key {
	case keyA:
		return api.Principal{Account: "a", Role: api.RoleUser}, nil
	case keyB:
		return api.Principal{Account: "b", Role: api.RoleUser}, nil
	case keyAdmin:
		return api.Operator(), nil
	}
	return api.Principal{}, api.Errorf(api.KindUnauthenticated, "the API key is not known")
}

func (a accounts) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	req.Account = api.PrincipalOf(ctx).Account
	return a.Creator.Create(ctx, req)
}

func (a accounts) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	s, err := a.Sandboxes.Get(ctx, id)
	if err == nil && !api.PrincipalOf(ctx).May(s.Account) {
		return api.Sandbox{}, api.Errorf(api.KindNotFound, "sandbox %s not found", id)
	}
	return s, err
}

// The lists come in pages of two, so that every test walks them.

func (a accounts) Page(ctx context.Context, all bool, p api.PageRequest) ([]api.Sandbox, string, error) {
	list, err := a.Sandboxes.List(ctx, all)
	list = slices.DeleteFunc(list, func(s api.Sandbox) bool { return !api.PrincipalOf(ctx).May(s.Account) })
	return twoOf(list, p, err)
}

func (a accounts) ExecPage(ctx context.Context, id api.SandboxID, p api.PageRequest) ([]api.Exec, string, error) {
	list, err := a.Guests.Execs(ctx, id)
	return twoOf(list, p, err)
}

func (a accounts) SnapshotPage(ctx context.Context, all bool, p api.PageRequest) ([]api.Snapshot, string, error) {
	list, err := a.Saver.Snapshots(ctx, all)
	return twoOf(list, p, err)
}

// twoOf returns the two rows of a list that its cursor counts to.
func twoOf[T any](list []T, p api.PageRequest, err error) ([]T, string, error) {
	at, _ := strconv.Atoi(p.Cursor)
	if at = min(at, len(list)); at+2 >= len(list) {
		return list[at:], "", err
	}
	return list[at : at+2], strconv.Itoa(at + 2), err
}

type tokens struct{}

func (tokens) Envd(id string) string    { return "envd" + id }
func (tokens) Traffic(id string) string { return "traffic" + id }

// world is the server before a real manager on the process backend.
type world struct {
	*manager.Manager
	srv *httptest.Server
}

func newWorld(t *testing.T, change func(*e2b.Config)) *world {
	t.Helper()
	dir := t.TempDir()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.New(process.Config{Dir: filepath.Join(dir, "run"), Guest: self, Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	log := event.NewLog(event.Config{Store: db})
	m := manager.New(manager.Config{Owner: owner, Backends: []sandbox.Backend{b}, Templates: templates{}, Isolation: "process", Rows: db, Log: log})
	a := accounts{m.Planner, m.Creator, m.Sandboxes, m.Guests, m.Saver, m.Pauser, m.Forker, m.Templates}
	cfg := e2b.Config{Sandboxes: a, Snapshots: a, Keys: a, Tokens: tokens{}}
	if change != nil {
		change(&cfg)
	}
	w := &world{Manager: m, srv: httptest.NewServer(e2b.New(cfg))}
	t.Cleanup(func() {
		w.srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		log.Close()
		db.Close()
		self.Close()
	})
	return w
}

// reply is an answer, with its body once as text and once as JSON.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request as an SDK would, with a body of unknown length.
func (w *world) ask(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = struct{ io.Reader }{strings.NewReader(body)} // chunked
	}
	req, err := http.NewRequestWithContext(t.Context(), method, w.srv.URL+path, in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", keyA)
	for i := 0; i < len(header); i += 2 {
		req.Header.Del(header[i])
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{resp.StatusCode, resp.Header, string(b)}
	// What holds for every answer: an error has its code within, and an empty one is
	// marked as such.
	if r.status >= 400 {
		var e struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(b, &e); err != nil || e.Code != r.status || e.Message == "" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: the error %d is %q (%s)", method, path, r.status, b, r.header.Get("Content-Type"))
		}
	}
	if len(b) == 0 && r.status != http.StatusNoContent {
		t.Errorf("%s %s: an empty answer is %d", method, path, r.status)
	}
	return r
}

// make makes a sandbox and gives its id.
func (w *world) make(t *testing.T, body string) string {
	t.Helper()
	r := w.ask(t, "POST", "/v2/sandboxes", body)
	var s struct{ SandboxID string }
	if err := json.Unmarshal([]byte(r.body), &s); err != nil || r.status != http.StatusCreated || !api.SandboxID(s.SandboxID).Valid() {
		t.Fatalf("create: %d %s", r.status, r.body)
	}
	return s.SandboxID
}

var timeForm = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// golden compares an answer with what it must be, ids and times aside.
func golden(t *testing.T, r reply, status int, ids map[string]string, want string) {
	t.Helper()
	got := r.body
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		got = strings.ReplaceAll(got, id, ids[id])
	}
	got = timeForm.ReplaceAllString(got, `"TIME"`)
	got = regexp.MustCompile(`"(localhost|127\.0\.0\.1):\d+"`).ReplaceAllString(got, `"$1:PORT"`)
	if r.status != status || squeeze(t, got) != squeeze(t, want) {
		t.Errorf("got %d %s\nwant %d %s", r.status, squeeze(t, got), status, squeeze(t, want))
	}
}

// squeeze writes JSON in one way.
func squeeze(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
