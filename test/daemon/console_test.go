package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/server/envd"
	"hortus.dev/internal/server/front"
	"hortus.dev/internal/server/signin"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

// browser is a browser that is signed in.
type browser struct {
	t       *testing.T
	url     string
	headers []string
}

// signIn signs in with a key.
func (w *town) signIn(key string) browser {
	w.t.Helper()
	b := browser{t: w.t, url: w.URL}
	resp := b.send("POST", signin.Path, `{"key":"`+key+`"}`)
	s := world.Into[signin.Session](w.t, resp, http.StatusOK)
	cookie := resp.Cookies()[0]
	b.headers = []string{"Cookie", cookie.Name + "=" + cookie.Value, signin.Header, s.Page}
	return b
}

// send sends a request as a page of the console does, changed by headers; "" removes one.
func (b browser) send(method, path, body string, headers ...string) *http.Response {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience.Of(time.Minute))
	b.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Origin", b.url)
	for _, all := range [][]string{b.headers, headers} {
		for i := 0; i < len(all); i += 2 {
			if all[i] == "Host" {
				r.Host = all[i+1]
			} else if r.Header.Set(all[i], all[i+1]); all[i+1] == "" {
				r.Header.Del(all[i])
			}
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (b browser) status(method, path, body string, headers ...string) int {
	b.t.Helper()
	return b.send(method, path, body, headers...).StatusCode
}

// TestSessionHasTheRightsOfItsKey compares a browser with the key that it was signed in with, and ends it with the key.
func TestSessionHasTheRightsOfItsKey(t *testing.T) {
	w := newTown(t)
	alice, bob, operator := w.signIn(w.alice.Secret), w.signIn(w.bob.Secret), w.signIn(w.operator.Secret)
	tried := 0
	for rt := range routes() {
		if rt.Method != http.MethodGet || strings.Contains(rt.Pattern, "{") || rt.Pattern == "/v1/watch" {
			continue
		}
		tried++
		for name, who := range map[string]struct {
			b   browser
			key string
		}{"alice": {alice, w.alice.Secret}, "operator": {operator, w.operator.Secret}} {
			want, _ := w.Call(rt.Method, rt.Pattern, "", "X-API-KEY", who.key)
			if got := who.b.status(rt.Method, rt.Pattern, ""); got != want {
				t.Errorf("%s as %s: %d, with the key %d", rt.Pattern, name, got, want)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d routes were tried", tried)
	}
	mine := "/v1/tasks/" + string(w.alices.task)
	if a, b := alice.status("GET", mine, ""), bob.status("GET", mine, ""); a != http.StatusOK || b != http.StatusNotFound {
		t.Errorf("alice's task is %d for her, %d for bob", a, b)
	}
	// An API key that is in the request too is the one that counts.
	if got := alice.status("GET", mine, "", "X-API-Key", w.bob.Secret); got != http.StatusNotFound {
		t.Errorf("with bob's key: %d", got)
	}
	// Servers for programs know no sessions.
	for _, path := range []string{"/mcp", "/sandboxes", "/metrics"} {
		if got := operator.status("POST", path, "{}"); got < 400 {
			t.Errorf("%s: %d", path, got)
		}
	}
	if _, err := w.Client.Keys.Revoke(t.Context(), string(w.alice.ID)); err != nil {
		t.Fatal(err)
	}
	if a, b := alice.status("GET", "/v1/tasks", ""), bob.status("GET", "/v1/tasks", ""); a != http.StatusUnauthorized || b != http.StatusOK {
		t.Errorf("after alice's key was revoked: %d for her, %d for bob", a, b)
	}
	if got := bob.status("DELETE", signin.Path, ""); got != http.StatusNoContent {
		t.Errorf("sign-out: %d", got)
	}
	if got := bob.status("GET", "/v1/tasks", ""); got != http.StatusUnauthorized {
		t.Errorf("after the sign-out: %d", got)
	}
}

// TestForeignPagesCannotUseASession sends what pages of other origins could send with the cookie, to a daemon that serves.
func TestForeignPagesCannotUseASession(t *testing.T) {
	w := newTown(t)
	b := w.signIn(w.alice.Secret)
	u, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	path := "/v1/tasks/" + string(w.alices.task) + "/applied"
	control := b.status("POST", path, "")
	if control == http.StatusForbidden || control == http.StatusUnauthorized {
		t.Fatalf("the control: %d", control)
	}
	for name, headers := range map[string][]string{
		"CSRF":            {"Origin", "https://evil.example"},
		"CSRF, no origin": {"Origin", ""},
		"CSRF, same site": {"Sec-Fetch-Site", "same-site"},
		"other port":      {"Origin", "http://127.0.0.1:1"},
		"rebinding":       {"Host", "evil.example:" + u.Port(), "Origin", "http://evil.example:" + u.Port()},
	} {
		if got := b.status("POST", path, "", headers...); got != http.StatusForbidden {
			t.Errorf("%s: %d", name, got)
		}
	}
	for name, headers := range map[string][]string{"cookie alone": {signin.Header, ""}, "storage alone": {"Cookie", ""}} {
		if got := b.status("POST", path, "", headers...); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, got)
		}
	}
	// The page itself: in no frame, and not under a name that an attacker has made resolve to this machine.
	page := b.send("GET", "/", "", "Accept", "text/html", "Origin", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if h := page.Header; page.StatusCode != http.StatusOK || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" {
		t.Errorf("a link of another site: %d %v", page.StatusCode, h)
	}
	if got := b.status("GET", "/", "", "Accept", "text/html", "Host", "evil.example"); got != http.StatusForbidden {
		t.Errorf("rebinding: %d", got)
	}
	if got := b.status("GET", "/", "", "Accept", "*/*"); got != http.StatusUnauthorized {
		t.Errorf("GET / of a program: %d", got)
	}
}

// TestSessionReachesNoProgram sends a session to a program in a sandbox, which a page could with headers that name the port.
func TestSessionReachesNoProgram(t *testing.T) {
	w := newTown(t)
	row := tokens(w.World)
	var got *http.Request
	program := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	defer program.Close()
	plane := envd.New(envd.Config{Sandboxes: portOnly{id: w.bobs.sandbox, addr: program.Listener.Addr().String()}, Tokens: row})
	b := w.signIn(w.bob.Secret)
	for name, sessions := range map[string]front.Sessions{"guarded": signin.New(signin.Config{}), "control": nil} {
		f := &front.Front{Rest: soon, Authenticate: authenticate(w), Sessions: sessions, Servers: []front.Server{{Takes: envd.Claims, Handler: plane, AnyOrigin: true}}}
		server := httptest.NewServer(f)
		defer server.Close()
		other := b
		other.url = server.URL
		got = nil
		other.send("GET", "/", "", "E2b-Sandbox-Id", string(w.bobs.sandbox), "E2b-Sandbox-Port", "3000")
		if got == nil {
			t.Fatalf("%s: the program got no request", name)
		}
		seen := got.Header.Get("Cookie") != "" || got.Header.Get(signin.Header) != ""
		if seen != (name == "control") {
			t.Errorf("%s: the program sees %v", name, got.Header)
		}
	}
}

// watch is a connection to GET /v1/watch.
type watch struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (b browser) watch(streams ...string) watch {
	b.t.Helper()
	resp := b.send("GET", "/v1/watch?"+url.Values{"stream": streams}.Encode(), "")
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("watch: %d %s", resp.StatusCode, world.Text(b.t, resp))
	}
	return watch{b.t, bufio.NewScanner(resp.Body)}
}

// until reads messages until a condition holds, and gives them.
func (w watch) until(last func(api.Watched) bool) (all []api.Watched) {
	w.t.Helper()
	for w.lines.Scan() {
		data, ok := strings.CutPrefix(w.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m api.Watched
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			w.t.Fatal(err)
		}
		if all = append(all, m); last(m) {
			return all
		}
	}
	w.t.Fatalf("the stream ended after %+v", all)
	return nil
}

func anything(m api.Watched) bool { return m.Any }

// TestWatch follows streams of two sandboxes over one connection, resumes by number, and shows nothing of another account.
func TestWatch(t *testing.T) {
	w := newTown(t)
	w.Isolates(t, "container")
	alice := world.Must(client.Remote(w.URL, w.alice.Secret))(t)
	defer alice.Close()
	a, b := w.signIn(w.alice.Secret), w.signIn(w.bob.Secret)
	theirs, changes := b.watch(), a.watch()
	theirs.until(anything)
	changes.until(anything)

	box := world.Must(alice.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container"}))(t)
	before := world.Must(box.Info(t.Context()))(t)
	stream := "sandbox/" + string(box.ID())
	changes.until(func(m api.Watched) bool { return len(m.Changed) == 1 && m.Changed[0].ID == string(box.ID()) })

	running := func(m api.Watched) bool { return m.Event != nil && strings.Contains(string(m.Event.Data), `"running"`) }
	all := a.watch(stream + "/0").until(running)
	last := all[len(all)-1].Event.Seq
	resumed := a.watch(fmt.Sprintf("%s/%d", stream, last))
	resumed.until(anything)
	// To look at a sandbox does not extend its life.
	for _, path := range []string{"", "/stats", "/execs", "/files/list?path=."} {
		resp := a.send("GET", "/v1/sandboxes/"+string(box.ID())+path, "")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if after := world.Must(box.Info(t.Context()))(t); !after.ExpiresAt.Equal(before.ExpiresAt) {
		t.Errorf("the deadline moved from %s to %s", before.ExpiresAt, after.ExpiresAt)
	}

	for range 2 {
		world.Must(box.SetTTL(t.Context(), time.Hour))(t)
	}
	updates := 0
	more := resumed.until(func(m api.Watched) bool {
		if m.Event != nil && m.Event.Type == api.EventUpdated {
			updates++
		}
		return updates == 2
	})
	for i, m := range more {
		if m.Event != nil {
			if last++; m.Event.Seq != last {
				t.Errorf("message %d has event %d, want %d", i, m.Event.Seq, last)
			}
		}
	}

	// The start and the end of a command are notices, not events.
	commands := func(m api.Watched) bool {
		return slices.Contains(m.Changed, api.Stream{Kind: api.StreamCommands, ID: string(box.ID())})
	}
	x := world.Must(box.CreateExec(t.Context(), api.ExecRequest{Args: []string{"sleep", "1000"}}))(t)
	changes.until(commands)
	world.Must(box.KillExec(t.Context(), x.ID))(t)
	changes.until(func(m api.Watched) bool {
		return commands(m) && world.Must(box.Exec(t.Context(), x.ID))(t).State != api.ExecRunning
	})
	world.Must(box.SetTTL(t.Context(), 2*time.Hour))(t)
	stored := world.Must(w.DB.ReadEvents(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(box.ID())}, last, 100))(t)
	if len(stored) != 1 || stored[0].Type != api.EventUpdated {
		t.Errorf("a command stored events: %+v", stored)
	}

	for name, query := range map[string]string{"another's": stream + "/0", "one that never was": "sandbox/" + string(api.NewSandboxID()) + "/0"} {
		if got := b.status("GET", "/v1/watch?stream="+query, ""); got != http.StatusNotFound {
			t.Errorf("%s: %d", name, got)
		}
	}
	for _, query := range []string{"x", "task//0", "task/t/x", "task/t/-1", "unknown/t/0", "commands/" + string(box.ID()) + "/0", strings.Repeat("task/t/0&stream=", 20)} {
		if got := a.status("GET", "/v1/watch?stream="+query, ""); got < 400 {
			t.Errorf("%s: %d", query, got)
		}
	}
	// Bob is told of his own only: the first change that he sees is his.
	bobs := world.Must(client.Remote(w.URL, w.bob.Secret))(t)
	defer bobs.Close()
	own := world.Must(bobs.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container"}))(t)
	seen := theirs.until(func(m api.Watched) bool { return len(m.Changed) > 0 })
	if len(seen) != 1 || len(seen[0].Changed) != 1 || seen[0].Changed[0].ID != string(own.ID()) {
		t.Errorf("bob is told of %+v", seen)
	}
}

// TestConsoleOnDemand opens the console of a daemon that has no TCP listener.
func TestConsoleOnDemand(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{Config: daemon.Config{}, NoListener: true})
	if info := world.Must(w.Client.Info(t.Context()))(t); info.URL != "" {
		t.Fatalf("the daemon listens at %s", info.URL)
	}
	link := world.Must(w.Client.Console(t.Context()))(t)
	again := world.Must(w.Client.Console(t.Context()))(t)
	at, ticket, _ := strings.Cut(link.URL, "/#/sign-in/")
	if !strings.HasPrefix(at, "http://127.0.0.1:") || ticket == "" || !strings.HasPrefix(again.URL, at+"/") || again.URL == link.URL {
		t.Fatal(link, again)
	}
	b := browser{t: t, url: at}
	resp := b.send("POST", signin.Path, `{"ticket":"`+ticket+`"}`)
	s := world.Into[signin.Session](t, resp, http.StatusOK)
	b.headers = []string{"Cookie", resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value, signin.Header, s.Page}
	if got := b.status("GET", "/v1/sandboxes", ""); got != http.StatusOK || s.Role != api.RoleAdmin {
		t.Errorf("%d %+v", got, s)
	}
	if got := b.status("POST", signin.Path, `{"ticket":"`+ticket+`"}`); got != http.StatusUnauthorized {
		t.Errorf("the ticket works twice: %d", got)
	}
	// The rights are those of a key, not those of the socket.
	if got := b.status("POST", "/v1/tasks", `{"request":"x","model":"replay:/etc/passwd"}`); got != http.StatusForbidden {
		t.Errorf("a file of the host as a model: %d", got)
	}
	// What the command line began is there and can be continued, on a directory too, which no key can begin with.
	dir := gittest.NewCheckout(t, map[string]string{"a.txt": "a\n"})
	create := plan.Create{Approve: true, Items: []plan.Item{{ID: "a", Request: "Change a.txt", Touches: []string{"a.txt"}}},
		Task: api.CreateTask{Request: "x", Model: "offline", Repo: &api.RepoTask{URL: dir, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}}}
	p := world.Must(w.Client.Plans.Create(t.Context(), create))(t)
	for e, err := range w.Client.Plans.Events(t.Context(), p.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == plan.EventState && strings.Contains(string(e.Data), string(plan.Proposed)) {
			break
		}
	}
	if list := world.Into[[]plan.Plan](t, b.send("GET", "/v1/plans", ""), http.StatusOK); len(list) != 1 || list[0].ID != p.ID {
		t.Errorf("plans in the browser: %d", len(list))
	}
	if got := b.status("POST", "/v1/plans/"+string(p.ID)+"/edit", `{"items":[{"id":"a","request":"Change a.txt again","touches":["a.txt"]}]}`); got != http.StatusOK {
		t.Errorf("an edit in the browser: %d", got)
	}
	if got := b.status("POST", "/v1/plans", string(world.Must(json.Marshal(create))(t))); got != http.StatusForbidden {
		t.Errorf("a plan on a directory in the browser: %d", got)
	}
	if got := b.status("POST", "/v1/plans/"+string(p.ID)+"/cancel", ""); got != http.StatusOK {
		t.Errorf("its cancellation: %d", got)
	}
	if got := (browser{t: t, url: at}).status("GET", "/v1/sandboxes", ""); got != http.StatusUnauthorized {
		t.Errorf("without a session: %d", got)
	}
	keys := world.Must(w.Client.Keys.List(t.Context(), false))(t)
	if len(keys) != 1 || keys[0].ID != s.Key {
		t.Fatalf("%+v", keys)
	}
	if _, err := w.Client.Keys.Revoke(t.Context(), string(s.Key)); err != nil {
		t.Fatal(err)
	}
	if got := b.status("GET", "/v1/sandboxes", ""); got != http.StatusUnauthorized {
		t.Errorf("after its key was revoked: %d", got)
	}
}

// TestTerminalOverHTTP types into a terminal, and sets its size.
func TestTerminalOverHTTP(t *testing.T) {
	w := newTown(t)
	w.Isolates(t, "container")
	box := world.Must(w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container"}))(t)
	b := w.signIn(w.operator.Secret)
	execs := "/v1/sandboxes/" + string(box.ID()) + "/execs"
	shell := world.Into[api.Exec](t, b.send("POST", execs, `{"args":["sh"],"pty":{"cols":80,"rows":24}}`), http.StatusCreated)
	pipe := world.Into[api.Exec](t, b.send("POST", execs, `{"args":["cat"],"stdin":true}`), http.StatusCreated)
	one := execs + "/" + string(shell.ID)
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{one + "/size", `{"cols":101,"rows":33}`, http.StatusNoContent},
		{one + "/size", `{"cols":0,"rows":33}`, http.StatusBadRequest},
		{execs + "/" + string(pipe.ID) + "/size", `{"cols":80,"rows":24}`, http.StatusBadRequest},
		{one + "/stdin?pty=true", "", http.StatusNoContent},
		{one + "/stdin?pty=true&close=true", "x", http.StatusBadRequest},
		{one + "/stdin", "x", http.StatusBadRequest},
		{execs + "/" + string(pipe.ID) + "/stdin?pty=true", "x", http.StatusBadRequest},
		{one + "/stdin?pty=true", strings.Repeat("x", 65<<10), http.StatusBadRequest},
		{one + "/stdin?pty=true", "stty size; exit 7\n", http.StatusNoContent},
	} {
		if resp := b.send("POST", c.path, c.body); resp.StatusCode != c.want {
			t.Errorf("%s, %.30q: %d %s", c.path, c.body, resp.StatusCode, world.Text(t, resp))
		}
	}
	stdout, stderr, exit, gaps := output(t, world.Events(t, b.send("GET", one+"/output", "").Body, -1))
	if exit.Exit.Code != 7 || gaps != 0 || !strings.Contains(stdout, "33 101") {
		t.Errorf("%q %q %+v", stdout, stderr, exit)
	}
}
