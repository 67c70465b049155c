package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/secret"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/store"
	"hortus.dev/test/world"
)

// town is a daemon with two tenants and their things.
type town struct {
	*world.World
	t *testing.T
	// secrets are those of the daemon, beside its own servers.
	secrets *secret.Secrets

	operator, alice, bob api.CreatedKey
	// Things of alice's, and of bob's; only their rows are there.
	alices, bobs things
}

type things struct {
	sandbox api.SandboxID
	task    api.TaskID
	snap    api.SnapshotID
	repo    api.RepositoryID
	work    api.WorkspaceID
	// lesson is the id of what a task taught.
	lesson string
	plan   api.PlanID
}

func newTown(t *testing.T) *town {
	t.Helper()
	t.Parallel()
	return newTownOf(t, daemon.Config{})
}

func newTownOf(t *testing.T, cfg daemon.Config) *town {
	t.Helper()
	w := &town{World: world.Open(t, world.Config{Config: cfg}), t: t}
	w.secrets = secret.New(secret.Config{Rows: w.DB})
	t.Cleanup(func() {
		if err := w.secrets.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.operator, w.alice, w.bob = w.Key("default", api.RoleAdmin), w.Key("alice", ""), w.Key("bob", "")
	// Their ids begin in the same way.
	w.alices = w.things("alice", "4f1")
	w.bobs = w.things("bob", "4f2")
	return w
}

// routes are those of the server's own table.
func routes() iter.Seq[httpapi.Route] { return httpapi.New(httpapi.Config{}).Routes() }

func (w *town) things(account, begins string) things {
	w.t.Helper()
	rest := begins + strings.Repeat("0", api.IDLen-1-len(begins))
	own := things{api.SandboxID("i" + rest), api.TaskID("t" + rest), api.SnapshotID("s" + rest), api.RepositoryID("r" + rest), api.WorkspaceID("w" + rest), "l" + rest, api.PlanID("p" + rest)}
	ctx, now := w.t.Context(), time.Now().UTC()
	w.learn(account, own)
	owners, err := w.DB.Owners(ctx)
	if err != nil || len(owners) == 0 {
		w.t.Fatal(owners, err)
	}
	doc := fmt.Appendf(nil, `{"id":%q,"state":"done","account":%q,"task":{"request":"of %s","repo":{"url":"https://example.org/r","author":{"name":"A","email":"a@example.org"}}}}`, own.plan, account, account)
	for _, err := range []error{
		w.DB.InsertPlan(ctx, store.Plan{ID: own.plan, Account: account, Repository: "r", Owner: owners[0].ID, Done: true, CreatedAt: now, EndedAt: now, Doc: doc}, 9),
		w.DB.InsertSandbox(ctx, api.Sandbox{ID: own.sandbox, State: api.SandboxEnded, Account: account, CreatedAt: now, EndedAt: now, Reason: "killed", Provision: &api.ProvisionRequest{TaskID: "own"}}),
		w.DB.InsertTask(ctx, api.Task{ID: own.task, State: api.TaskDone, Account: account, CreatedAt: now, EndedAt: now, Create: api.CreateTask{Request: "of " + account}}),
		w.DB.InsertSnapshot(ctx, api.Snapshot{ID: own.snap, State: api.SnapshotBroken, Kind: api.SnapshotFiles, Account: account, Sandbox: own.sandbox, CreatedAt: now, EndedAt: now}),
		w.DB.InsertRepository(ctx, api.Repository{ID: own.repo, State: api.RepositoryReady, Name: "web", URL: "https://example.org/" + account, Key: account, Account: account, CreatedAt: now}),
		w.secret(account, "of-"+account), w.secret(account, "token"), w.document(account, "", "of-"+account), w.document(account, "https://example.org/r", "of-"+account),
		w.DB.InsertWorkspace(ctx, api.Workspace{ID: own.work, State: api.WorkspaceIdle, Account: account, Name: "of-" + account, CreatedAt: now, Layers: []string{"sha256-" + strings.Repeat("a", 64)}}),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return own
}

// learn stores the lesson of an account, if it is not there.
func (w *town) learn(account string, own things) {
	w.t.Helper()
	if _, err := w.DB.PutLesson(w.t.Context(), api.Lesson{
		ID: own.lesson, Account: account, Scope: "language:python", Fingerprint: "f", Failure: "of " + account, Fix: "patch", Task: own.task, LearnedAt: time.Now(),
	}); err != nil {
		w.t.Fatal(err)
	}
}

// document stores a document of an account, and of a repository within it.
func (w *town) document(account, repository, name string) error {
	_, err := w.DB.PutDocument(w.t.Context(), api.StoredDocument{
		Account: account, Repository: repository, Name: name, Title: "of " + account, Text: "of " + account, WrittenAt: time.Now(),
	}, nil)
	return err
}

// pathOf fills the path of a route in. id goes where the thing's id is; a route about
// something that this test does not know fails it: say here what it is about.
func (w *town) pathOf(pattern, id string) (path, body string) {
	w.t.Helper()
	body = "{}"
	if strings.HasSuffix(pattern, "/process.Process/Start") || strings.HasSuffix(pattern, "/process.Process/Connect") {
		// One message in its envelope.
		const message = `{"process":{"cmd":"true"}}`
		body = "\x00\x00\x00\x00" + string(rune(len(message))) + message
	}
	switch {
	case strings.HasSuffix(pattern, "/ports/{port}"):
		body = ""
	case strings.HasSuffix(pattern, "/execute"):
		body = `{"code":"1"}`
	case strings.HasSuffix(pattern, "/egress/rules"):
		body = `{"rules":[{"action":"deny","host":"example.org"}]}`
	}
	if strings.HasSuffix(pattern, "/envd/") {
		pattern += "health"
	}
	parts := strings.Split(pattern, "/")
	for i, p := range parts {
		if !strings.HasPrefix(p, "{") {
			continue
		}
		switch name := strings.Trim(p, "{}"); {
		case i == 3 && name == "id":
			parts[i] = id
		case name == "n", name == "round", name == "attempt":
			parts[i] = "1"
		case name == "stream":
			parts[i] = "stdout"
		case name == "which":
			parts[i] = "gate"
		case name == "token":
			parts[i] = strings.Repeat("0", 64)
		case name == "context": // of a code interpreter
			parts[i] = "python"
		case name == "order":
			parts[i] = "restart"
		case name == "exec":
			parts[i] = string(api.NewExecID())
		case name == "ask":
			parts[i] = strings.Repeat("0", 16)
		case name == "port":
			parts[i] = "8080"
		case name == "key": // of a session
			parts[i] = id
		case name == "name" && (parts[2] == "secrets" || parts[2] == "documents"):
			parts[i] = id
		case name == "name" && parts[2] == "sandboxes": // a secret of the sandbox
			parts[i] = "crm"
		case name == "tag": // of a template
			parts[i] = "v1"
		case name == "name": // of an image, which belongs to no account
			parts[i] = "docker.io%2Flibrary%2Fpython:3.12"
		default:
			w.t.Fatalf("this test does not know what %s of %s is", p, pattern)
		}
	}
	return strings.Join(parts, "/"), body
}

// idOf returns the id that a pattern is about, of some things.
func idOf(t *testing.T, pattern string, of things) (id, never string) {
	t.Helper()
	switch strings.Split(pattern, "/")[2] {
	case "sandboxes", "provision":
		return string(of.sandbox), string(api.NewSandboxID())
	case "tasks", "runs":
		return string(of.task), string(api.NewTaskID())
	case "snapshots", "templates":
		return string(of.snap), string(api.NewSnapshotID())
	case "repositories", "hooks":
		return string(of.repo), string(api.NewRepositoryID())
	case "lessons":
		return of.lesson, api.NewLessonID()
	case "plans":
		return string(of.plan), string(api.NewPlanID())
	case "workspaces":
		return string(of.work), string(api.NewWorkspaceID())
	}
	t.Fatalf("this test does not know what the id in %s is of", pattern)
	return "", ""
}

// TestEveryRouteAsksWho walks the server's own table: a route that is added later is
// tried too.
func TestEveryRouteAsksWho(t *testing.T) {
	w := newTown(t)
	almost := []byte(w.alice.Secret)
	if almost[len(almost)-1]++; almost[len(almost)-1] > 'f' || almost[len(almost)-1] == '9'+1 {
		almost[len(almost)-1] = '0'
	}
	for rt := range routes() {
		what := rt.Method + " " + rt.Pattern
		path, body := w.pathOf(rt.Pattern, "k7777777777777777777")
		for name, headers := range map[string][]string{
			"no key":        nil,
			"a wrong key":   {"X-API-KEY", "e2b_" + strings.Repeat("0", 40)},
			"almost a key":  {"X-API-KEY", string(almost)},
			"no such form":  {"Authorization", "Bearer hunter2"},
			"its hint":      {"X-API-KEY", w.alice.Hint},
			"its id":        {"X-API-KEY", string(w.alice.ID)},
			"an empty one":  {"X-API-KEY", ""},
			"two keys":      {"X-API-KEY", w.alice.Secret, "X-API-KEY", w.bob.Secret},
			"in two places": {"X-API-KEY", w.alice.Secret, "Authorization", "Bearer " + w.alice.Secret},
			"as a cookie":   {"Cookie", "X-API-KEY=" + w.alice.Secret},
		} {
			if rt.Open && (name == "no key" || name == "as a cookie") {
				continue
			}
			status, answer := w.Call(rt.Method, path, body, headers...)
			if status != http.StatusUnauthorized || !strings.Contains(answer, "unauthenticated") {
				t.Errorf("%s with %s: %d %.200s", what, name, status, answer)
			}
		}
		// In the address it is no key at all: addresses are logged.
		if status, _ := w.Call(rt.Method, path+"?api_key="+w.alice.Secret+"&X-API-KEY="+w.alice.Secret, body); !rt.Open && status != http.StatusUnauthorized {
			t.Errorf("%s takes a key from the address: %d", what, status)
		}
		if rt.Role != api.RoleAdmin {
			continue
		}
		if status, answer := w.Call(rt.Method, path, body, "X-API-KEY", w.alice.Secret); status != http.StatusForbidden || !strings.Contains(answer, "denied") {
			t.Errorf("%s lets a user in: %d %.200s", what, status, answer)
		}
	}
}

// TestAnotherAccountsThingsDoNotExist tries every route that is about one thing, with
// another account's id, and wants what an id gets that never was, word for word.
func TestAnotherAccountsThingsDoNotExist(t *testing.T) {
	w := newTown(t)
	tried := 0
	for rt := range routes() {
		if rt.Role != api.RoleUser || !strings.Contains(rt.Pattern, "{id}") {
			continue
		}
		tried++
		what := rt.Method + " " + rt.Pattern
		of := func(id, key string) (int, string) {
			path, body := w.pathOf(rt.Pattern, id)
			headers := []string{"X-API-KEY", key}
			if strings.Contains(rt.Pattern, "{id}/files") {
				path += "?path=f"
			}
			if strings.HasSuffix(rt.Pattern, "/files/move") {
				path += "&to=g"
			}
			if strings.Contains(rt.Pattern, "process.Process") {
				headers = append(headers, "Content-Type", "application/connect+json")
			}
			if strings.HasSuffix(rt.Pattern, "/ports/{port}") {
				headers = append(headers, "Connection", "Upgrade", "Upgrade", "hortus-port")
			}
			status, answer := w.Call(rt.Method, path, body, headers...)
			return status, strings.ReplaceAll(answer, id, "ID")
		}
		theirs, never := idOf(t, rt.Pattern, w.alices)
		status, answer := of(theirs, w.bob.Secret)
		if !strings.Contains(answer, "not_found") || !strings.Contains(answer, "unknown ") {
			t.Errorf("%s of another: %d %.200s", what, status, answer)
		}
		if s, a := of(never, w.bob.Secret); s != status || a != answer {
			t.Errorf("%s tells another's id (%d %.200s) from one that never was (%d %.200s)", what, status, answer, s, a)
		}
		// By the beginning: no more is told, and nothing is ambiguous.
		sp, ap := of(theirs[:5], w.bob.Secret)
		if s, a := of("zzzzz", w.bob.Secret); s != sp || a != ap || !strings.Contains(ap, "not_found") {
			t.Errorf("%s tells another's beginning (%d %.200s) from one that never was (%d %.200s)", what, sp, ap, s, a)
		}
		for _, id := range []string{theirs[:len(theirs)-1], theirs + "0", strings.ToUpper(theirs), "..%2f" + theirs, theirs + "%00"} {
			if status, answer := of(id, w.bob.Secret); status < 400 && !strings.Contains(answer, "error") {
				t.Errorf("%s with %q: %d %.200s", what, id, status, answer)
			}
		}
		// The control: for its owner, and for the operator, it is there.
		for name, key := range map[string]string{"its owner": w.alice.Secret, "the operator": w.operator.Secret} {
			w.learn("alice", w.alices) // its owner has removed it
			if _, a := of(theirs, key); a == answer {
				t.Errorf("%s does not exist for %s either: %.200s", what, name, a)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d routes were tried", tried)
	}
}

// TestAnotherAccountsWorkstreamsAreNotListed: who changes files of a repository is a matter of its account, also if another one names the
// same repository.
func TestAnotherAccountsWorkstreamsAreNotListed(t *testing.T) {
	w := newTown(t)
	owners, err := w.DB.Owners(t.Context())
	if err != nil || len(owners) == 0 {
		t.Fatal(owners, err)
	}
	now := time.Now().UTC()
	plan, task := api.NewPlanID(), api.NewTaskID()
	repository := api.RepoTask{URL: "https://example.org/r", Author: api.Identity{Name: "A", Email: "a@example.org"}}
	doc := fmt.Appendf(nil, `{"id":%q,"state":"queued","account":"alice","createdAt":%q,"task":{"request":"of alice","repo":{"url":"https://example.org/r"}}}`, plan, now.Format(time.RFC3339))
	for _, err := range []error{
		w.DB.InsertPlan(t.Context(), store.Plan{ID: plan, Account: "alice", Repository: "r", Owner: owners[0].ID, CreatedAt: now, Doc: doc}, 9),
		w.DB.InsertTask(t.Context(), api.Task{ID: task, State: api.TaskPending, Account: "alice", CreatedAt: now, Owner: owners[0].ID, Create: api.CreateTask{Request: "of alice", Repo: &repository}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/v1/workstreams", "/v1/workstreams?repository=https://example.org/r"} {
		if status, answer := w.Call("GET", path, "", "X-API-KEY", w.bob.Secret); status != http.StatusOK || strings.TrimSpace(answer) != "[]" {
			t.Errorf("%s for another account: %d %s", path, status, answer)
		}
		// The control: its own account sees them.
		if status, answer := w.Call("GET", path, "", "X-API-KEY", w.alice.Secret); status != http.StatusOK || !strings.Contains(answer, string(task)) || path == "/v1/workstreams" && !strings.Contains(answer, string(plan)) {
			t.Errorf("%s for the account: %d %s", path, status, answer)
		}
	}
}

// TestAnotherAccountsDocumentsDoNotExist names another account's documents, and wants what a name gets that never was, word
// for word.
func TestAnotherAccountsDocumentsDoNotExist(t *testing.T) {
	w := newTown(t)
	tried := 0
	for rt := range routes() {
		if !strings.HasPrefix(rt.Pattern, "/v1/documents/{name}") {
			continue
		}
		for _, repository := range []string{"", "https://example.org/r"} {
			tried++
			what := rt.Method + " " + rt.Pattern + " of " + repository
			of := func(name, key string) (int, string) {
				path, body := w.pathOf(rt.Pattern, name)
				if rt.Method == "PUT" {
					body = `{"text":"x","ifVersion":1,"repository":"` + repository + `"}`
				} else if repository != "" {
					path += "?repository=" + repository
				}
				status, answer := w.Call(rt.Method, path, body, "X-API-KEY", key)
				return status, strings.ReplaceAll(answer, name, "NAME")
			}
			status, answer := of("of-alice", w.bob.Secret)
			if s, a := of("of-nobody", w.bob.Secret); s != status || a != answer || status < 400 {
				t.Errorf("%s tells another's name (%d %.200s) from one that never was (%d %.200s)", what, status, answer, s, a)
			}
			if s, a := of("of-alice", w.operator.Secret); s != status || a != answer { // an admin has those of the own account too
				t.Errorf("%s for an admin: %d %.200s", what, s, a)
			}
			if s, a := of("of-alice", w.alice.Secret); s != http.StatusOK { // the control
				t.Errorf("%s for its owner: %d %.200s", what, s, a)
			}
			if err := w.document("alice", repository, "of-alice"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if tried != 8 {
		t.Errorf("%d routes were tried", tried)
	}
}

// TestPrefixIsOnesOwn resolves what is ambiguous for all together.
func TestPrefixIsOnesOwn(t *testing.T) {
	w := newTown(t)
	for what, id := range map[string]string{"sandboxes": string(w.bobs.sandbox), "tasks": string(w.bobs.task), "snapshots": string(w.bobs.snap), "repositories": string(w.bobs.repo), "workspaces": string(w.bobs.work)} {
		for _, prefix := range []string{"4f", id[:3], id[:4]} {
			status, answer := w.Call("GET", "/v1/"+what+"/"+prefix, "", "X-API-KEY", w.bob.Secret)
			var row struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal([]byte(answer), &row); status != http.StatusOK || err != nil || row.ID != id {
				t.Errorf("%s %s: %d %.200s", what, prefix, status, answer)
			}
		}
		if status, answer := w.Call("GET", "/v1/"+what+"/4f", "", "X-API-KEY", w.operator.Secret); status != http.StatusBadRequest || !strings.Contains(answer, "ambiguous") {
			t.Errorf("%s for the operator: %d %.200s", what, status, answer)
		}
	}
}

// TestListsAreOnesOwn reads every list, and everything else without an id, and finds
// nothing of another's in it.
func TestListsAreOnesOwn(t *testing.T) {
	w := newTown(t)
	lists := 0
	for rt := range routes() {
		if rt.Method != http.MethodGet || strings.Contains(rt.Pattern, "{") || rt.Role != api.RoleUser {
			continue
		}
		path, _ := w.pathOf(rt.Pattern, "")
		for _, query := range []string{"", "?all=1"} {
			_, answer := w.Call(rt.Method, path+query, "", "X-API-KEY", w.bob.Secret)
			for _, theirs := range []string{string(w.alices.sandbox), string(w.alices.task), string(w.alices.snap), string(w.alices.work), "of alice", "of-alice"} {
				if strings.Contains(answer, theirs) {
					t.Errorf("%s%s shows %s: %.300s", rt.Pattern, query, theirs, answer)
				}
			}
			if strings.Contains(answer, string(w.bobs.sandbox)) || strings.Contains(answer, string(w.bobs.task)) || strings.Contains(answer, string(w.bobs.snap)) {
				lists++ // the control: one's own is there
			}
		}
	}
	if lists < 3 {
		t.Errorf("one's own things were found %d times only", lists)
	}
	info := world.Must(w.Client.Info(t.Context()))(t)
	owner := string(info.Owner)
	status, answer := w.Call("GET", "/v1/info", "", "X-API-KEY", w.bob.Secret)
	if status != http.StatusOK || strings.Contains(answer, string(w.Dir)) || strings.Contains(answer, owner) {
		t.Errorf("a user is told about the daemon: %d %s", status, answer)
	}
}

// TestNothingOfAnothersIsUsed names another account's things in requests for new ones.
func TestNothingOfAnothersIsUsed(t *testing.T) {
	w := newTown(t)
	for name, c := range map[string]struct{ path, body, theirs, never string }{
		"a template":    {"/v1/sandboxes", `{"template":"ID"}`, string(w.alices.snap), string(api.NewSnapshotID())},
		"a task":        {"/v1/sandboxes", `{"task":"ID"}`, string(w.alices.task), string(api.NewTaskID())},
		"a workspace":   {"/v1/sandboxes", `{"workspace":"ID"}`, string(w.alices.work), string(api.NewWorkspaceID())},
		"a workspace 2": {"/v1/sandboxes", `{"workspace":"ID"}`, "of-alice", "of-nobody"},
		"a replay":      {"/v1/tasks", `{"replay":{"task":"ID","attempt":1}}`, string(w.alices.task), string(api.NewTaskID())},
		"a template 2":  {"/v1/templates", `{"name":"mine","from":"ID"}`, string(w.alices.snap), string(api.NewSnapshotID())},
		"a template 3":  {"/v1/templates/build", `{"name":"mine","dockerfile":"FROM ID\nRUN true"}`, string(w.alices.snap), string(api.NewSnapshotID())},
		"a template 4":  {"/v1/templates/build", `{"name":"mine","dockerfile":"FROM host\nCOPY --from=ID /a /b"}`, string(w.alices.snap), string(api.NewSnapshotID())},
	} {
		ask := func(id string) (int, string) {
			status, answer := w.Call("POST", c.path, strings.ReplaceAll(c.body, "ID", id), "X-API-KEY", w.bob.Secret)
			return status, strings.ReplaceAll(answer, id, "ID")
		}
		status, answer := ask(c.theirs)
		if s, a := ask(c.never); s != status || a != answer || !strings.Contains(answer, "not_found") {
			t.Errorf("%s: another's is %d %.200s, none %d %.200s", name, status, answer, s, a)
		}
	}
}

// TestTagsAreOnesOwn names another account's template by its tags. The control is its owner.
func TestTagsAreOnesOwn(t *testing.T) {
	w := newTown(t)
	insert := func(account string, names ...string) api.SnapshotID {
		s := api.Snapshot{
			ID: api.NewSnapshotID(), State: api.SnapshotReady, Kind: api.SnapshotFiles, Account: account, Sandbox: api.NewSandboxID(), CreatedAt: time.Now().UTC(),
		}
		s.SetNames(names)
		if err := w.DB.InsertSnapshot(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	theirs, shared := insert("alice", "plans", "plans:v1"), insert("", "tools:v1")
	one := func(key api.CreatedKey, method, path, body string) (int, string) {
		return w.Call(method, path, body, "X-API-KEY", key.Secret)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/snapshots/NAME", ""}, {"GET", "/v1/snapshots/NAME:v1", ""}, {"GET", "/v1/snapshots/NAME:default", ""},
		{"POST", "/v1/snapshots/NAME:v1/tags", `{"tags":["mine"]}`}, {"DELETE", "/v1/snapshots/NAME:v1/tags/v1", ""},
		{"DELETE", "/v1/snapshots/NAME:v1", ""}, {"POST", "/v1/sandboxes", `{"template":"NAME:v1"}`},
		{"POST", "/v1/templates", `{"name":"mine","from":"NAME:v1"}`},
		{"POST", "/v1/templates/build", `{"name":"mine","dockerfile":"FROM NAME:v1\nRUN true"}`},
		{"GET", "/templates/NAME/tags", ""}, {"GET", "/templates/aliases/NAME:v1", ""}, {"DELETE", "/templates/NAME", ""}, {"DELETE", "/templates/NAME:v1", ""},
		{"POST", "/templates/tags", `{"target":"NAME:v1","tags":["mine"]}`}, {"DELETE", "/templates/tags", `{"name":"NAME","tags":["v1"]}`},
		{"POST", "/v2/sandboxes", `{"templateID":"NAME:v1"}`},
	} {
		ask := func(name string) (int, string) {
			status, answer := one(w.bob, c.method, strings.ReplaceAll(c.path, "NAME", name), strings.ReplaceAll(c.body, "NAME", name))
			return status, strings.ReplaceAll(answer, name, "NAME")
		}
		status, answer := ask("plans")
		if s, a := ask("never"); s != status || a != answer || !strings.Contains(answer, "not_found") {
			t.Errorf("%s %s: another's is %d %.200s, none %d %.200s", c.method, c.path, status, answer, s, a)
		}
	}
	for _, path := range []string{"/v1/templates", "/v1/snapshots"} {
		if _, answer := one(w.bob, "GET", path, ""); strings.Contains(answer, "plans") || !strings.Contains(answer, "tools:v1") {
			t.Errorf("%s: %.400s", path, answer)
		}
	}
	// What is for everybody can be seen, and not changed.
	for method, c := range map[string]struct{ path, body string }{"POST": {"/v1/snapshots/tools:v1/tags", `{"tags":["v2"]}`}, "DELETE": {"/v1/snapshots/tools:v1/tags/v1", ""}} {
		if status, answer := one(w.bob, method, c.path, c.body); status != http.StatusForbidden || !strings.Contains(answer, "operator") {
			t.Errorf("%s %s: %d %.200s", method, c.path, status, answer)
		}
	}
	if status, answer := one(w.bob, "DELETE", "/templates/tags", `{"name":"tools","tags":["v1"]}`); status != http.StatusForbidden {
		t.Errorf("of E2B's API: %d %.200s", status, answer)
	}
	// A name of one's own takes nothing from anybody.
	own := insert("bob", "plans")
	if status, answer := one(w.bob, "POST", "/v1/snapshots/plans/tags", `{"tags":["v1"]}`); status != http.StatusOK || !strings.Contains(answer, string(own)) {
		t.Errorf("one's own: %d %.200s", status, answer)
	}
	for id, want := range map[api.SnapshotID]string{theirs: "plans plans:v1", own: "plans plans:v1", shared: "tools:v1"} {
		if s, err := w.DB.Snapshot(t.Context(), id); err != nil || strings.Join(s.Names(), " ") != want || s.State != api.SnapshotReady {
			t.Errorf("%s is %q, %s, %v; want %q", id, s.Names(), s.State, err, want)
		}
	}
	// The control.
	if status, answer := one(w.alice, "POST", "/v1/snapshots/plans:v1/tags", `{"tags":["v2"]}`); status != http.StatusOK || !strings.Contains(answer, "plans:v2") {
		t.Errorf("the owner: %d %.200s", status, answer)
	}
	if status, answer := one(w.alice, "DELETE", "/v1/snapshots/plans:v2/tags/v1", ""); status != http.StatusOK || strings.Contains(answer, "plans:v1") {
		t.Errorf("the owner: %d %.200s", status, answer)
	}
}

// TestUsersReachNothingOfTheHost requests what only the operator may.
func TestUsersReachNothingOfTheHost(t *testing.T) {
	w := newTown(t)
	for name, c := range map[string]struct {
		path, body string
		admins     bool // an admin's key is refused as well
	}{
		"no walls":               {"/v1/sandboxes", `{"isolation":"process"}`, false},
		"no walls, in a task":    {"/v1/tasks", `{"request":"x","sandbox":{"isolation":"process"}}`, false},
		"no walls, in templates": {"/v1/templates", `{"name":"t","isolation":"process"}`, false},
		"no walls, in builds":    {"/v1/templates/build", `{"name":"t","dockerfile":"FROM host\nRUN true","isolation":"process"}`, false},
		"a recording":            {"/v1/tasks", `{"request":"x","record":"/tmp/hortus-never"}`, true},
		"a file as a model":      {"/v1/tasks", `{"request":"x","model":"replay:/etc/passwd"}`, true},
		"a file as one of them":  {"/v1/tasks", `{"request":"x","models":{"coder":"replay:/etc/passwd"}}`, true},
		"a directory":            {"/v1/tasks", `{"request":"x","repo":{"url":"/root/secret","author":{"name":"a","email":"a@b"}}}`, true},
		"a directory as a URL":   {"/v1/tasks", `{"request":"x","repo":{"url":"file:///root","author":{"name":"a","email":"a@b"}}}`, true},
		"the operator's forges":  {"/v1/tasks", `{"request":"x","repo":{"url":"https://example.invalid/x","author":{"name":"a","email":"a@b"}}}`, false},
	} {
		keys := map[string]string{"a user": w.bob.Secret}
		if c.admins {
			keys["an admin"] = w.operator.Secret
		}
		for who, key := range keys {
			if status, answer := w.Call("POST", c.path, c.body, "X-API-KEY", key); status != http.StatusForbidden || !strings.Contains(answer, "denied") {
				t.Errorf("%s for %s: %d %.300s", name, who, status, answer)
			}
		}
	}
}

// TestRevokedKeyIsNotKnown uses a key, revokes it, and uses it again.
func TestRevokedKeyIsNotKnown(t *testing.T) {
	w := newTown(t)
	if status, answer := w.Call("GET", "/v1/sandboxes", "", "Authorization", "bearer "+w.bob.Secret); status != http.StatusOK {
		t.Fatalf("a bearer's key: %d %s", status, answer)
	}
	if status, answer := w.Call("DELETE", "/v1/keys/"+string(w.bob.ID), "", "X-API-KEY", w.operator.Secret); status != http.StatusOK {
		t.Fatalf("revoke: %d %s", status, answer)
	}
	status, answer := w.Call("GET", "/v1/sandboxes", "", "X-API-KEY", w.bob.Secret)
	if s, a := w.Call("GET", "/v1/sandboxes", "", "X-API-KEY", "e2b_"+strings.Repeat("0", 40)); status != http.StatusUnauthorized || s != status || a != answer {
		t.Errorf("revoked: %d %s; never made: %d %s", status, answer, s, a)
	}
}
