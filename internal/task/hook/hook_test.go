package hook_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task/hook"
	"hortus.dev/test/forgeserver"
)

// engine plays tasks: they run until the test ends them.
type engine struct {
	mu      sync.Mutex
	tasks   map[api.TaskID]api.Task
	done    map[api.TaskID]chan struct{}
	refuses error
}

func (e *engine) CheckItem(_ context.Context, create api.CreateTask) (api.CreateTask, error) {
	if create.Model == "unknown" {
		return create, api.Errorf(api.KindNotFound, "unknown model")
	}
	return create, nil
}

func (e *engine) CreateAs(ctx context.Context, id api.TaskID, req api.CreateTask) (api.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuses != nil {
		return api.Task{}, e.refuses
	}
	t := api.Task{ID: id, State: api.TaskRunning, Create: req, Account: api.PrincipalOf(ctx).Account}
	e.tasks[id], e.done[id] = t, make(chan struct{})
	return t, nil
}

func (e *engine) Wait(ctx context.Context, id api.TaskID) (api.Task, error) {
	e.mu.Lock()
	done := e.done[id]
	e.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return api.Task{}, ctx.Err()
		}
	}
	return e.Task(ctx, id)
}

func (e *engine) Task(_ context.Context, id api.TaskID) (api.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.tasks[id]
	if !ok {
		return t, api.Errorf(api.KindNotFound, "unknown task")
	}
	return t, nil
}

func (e *engine) all() (out []api.Task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tasks {
		out = append(out, t)
	}
	return out
}

// ends ends a task.
func (e *engine) ends(id api.TaskID, change func(*api.Task)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[id]
	t.State, t.Outcome = api.TaskDone, api.OutcomeVerified
	change(&t)
	e.tasks[id] = t
	close(e.done[id])
}

// rows are the connected repositories.
type rows struct{ db *database.DB }

func (r rows) Get(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return r.db.Repository(ctx, id)
}

func (r rows) Change(ctx context.Context, id api.RepositoryID, do func(*api.Repository)) (api.Repository, error) {
	return r.db.ChangeRepository(ctx, id, func(row *api.Repository) error { do(row); return nil })
}

// desk is a service with a forge double.
type desk struct {
	*hook.Service
	t      *testing.T
	kind   string
	db     *database.DB
	engine *engine
	forge  *forgeserver.Server
	row    api.Repository
	secret string
	now    time.Time
	hook   api.RepositoryHook
	cfg    hook.Config
}

const adminToken = "tok-admin-0123456789"

func newDesk(t *testing.T, kind string, change func(*api.RepositoryHook)) *desk {
	t.Helper()
	d := &desk{t: t, kind: kind, engine: &engine{tasks: map[api.TaskID]api.Task{}, done: map[api.TaskID]chan struct{}{}}, now: time.Now()}
	var err error
	if d.db, err = database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.db.Close() })
	if d.forge, err = forgeserver.New(forgeserver.Config{
		Kind: kind, Users: map[string]forgeserver.User{adminToken: {Login: "hortus-bot", Write: true, Admin: true}},
		Repositories: []*forgeserver.Repository{{Path: "garden/plot", Branch: func(string) (string, bool) { return "", false }, People: []forgeserver.Person{
			{Login: "mae", Permission: "write"}, {Login: "rob", Permission: "read"}, {Login: "robot", Permission: "write", Bot: true},
		}}},
	}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.forge)
	t.Cleanup(server.Close)
	d.forge.AddIssue(forgeserver.Issue{Repository: "garden/plot", Number: 7, Title: "Sums", Author: "ann"})
	d.row = api.Repository{ID: api.NewRepositoryID(), State: api.RepositoryReady, Name: "plot", Key: "k", URL: server.URL + "/garden/plot.git", Account: "team", CreatedAt: time.Now()}
	if err := d.db.InsertRepository(t.Context(), d.row); err != nil {
		t.Fatal(err)
	}
	secrets := secret.New(secret.Config{Rows: d.db})
	t.Cleanup(func() { secrets.Close(context.Background()) })
	log := event.NewLog(event.Config{Store: d.db})
	t.Cleanup(log.Close)
	locate := func(remote, kind string) (forge.Location, error) {
		return forge.Locate(remote, map[string]string{strings.TrimPrefix(server.URL, "http://"): kind})
	}
	d.cfg = hook.Config{
		Rows: d.db, Repositories: rows{d.db}, Secrets: secrets, Engine: d.engine, Task: d.engine.Task, Log: log, Locate: locate,
		Address: func() string { return "https://hortus.example" }, Now: func() time.Time { return d.now },
		Forge: func(ctx context.Context, remote string) (hook.Forge, error) {
			if api.PrincipalOf(ctx).Account != "team" {
				t.Errorf("the forge is opened for account %q", api.PrincipalOf(ctx).Account)
			}
			l, err := locate(remote, kind)
			if err != nil {
				return nil, err
			}
			return rest.New(rest.Config{Location: l, Token: adminToken, Tries: 1})
		},
	}
	d.start()
	d.hook = api.RepositoryHook{People: []string{"mae", "rob", "robot", "hortus-bot"}, Label: "hortus", Command: "/hortus", TasksPerDay: 5}
	if change != nil {
		change(&d.hook)
	}
	state, err := d.Set(t.Context(), d.row.ID, api.SetRepositoryHook{Hook: d.hook})
	if err != nil {
		t.Fatal(err)
	}
	if d.secret = state.Secret; d.secret == "" || state.URL != "https://hortus.example/v1/hooks/"+string(d.row.ID) || len(state.Steps) == 0 {
		t.Fatalf("%+v", state)
	}
	return d
}

// start opens the service, as a daemon does.
func (d *desk) start() {
	d.t.Helper()
	d.Service = hook.New(d.cfg)
	s := d.Service
	d.t.Cleanup(func() { s.Close(context.Background()) })
	if err := d.Recover(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// event is a comment of mae's, changed.
func (d *desk) event(change func(*forgeserver.Event)) forgeserver.Event {
	e := forgeserver.Event{Repository: "garden/plot", Issue: 7, Title: "Sums", Body: "2 + 3 is -1.", Author: "ann", Sender: "mae", Comment: 41, Text: "/hortus fix the sum", At: d.now}
	if change != nil {
		change(&e)
	}
	return e
}

func (d *desk) send(e forgeserver.Event) (api.HookAnswer, error) {
	return d.deliver(e.Delivery(d.kind, d.secret, false))
}

func (d *desk) deliver(v forgeserver.Delivery) (api.HookAnswer, error) {
	return d.Receive(d.t.Context(), d.row.ID, v.Header, v.Body)
}

// starts wants that an event starts a task.
func (d *desk) starts(e forgeserver.Event) api.Task {
	d.t.Helper()
	a, err := d.send(e)
	if err != nil || a.Task == "" || a.Reason != "" {
		d.t.Fatalf("%s: %+v, %v", e, a, err)
	}
	t, err := d.engine.Task(d.t.Context(), a.Task)
	if err != nil {
		d.t.Fatal(err)
	}
	return t
}

// comments waits for a number of comments of the bot.
func (d *desk) comments(n int) []forgeserver.IssueComment {
	d.t.Helper()
	for {
		all := d.forge.IssueComments("garden/plot", 7)
		if len(all) >= n {
			return all
		}
		select {
		case <-d.t.Context().Done():
			d.t.Fatalf("%d comments", len(all))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func forges(t *testing.T, run func(t *testing.T, kind string)) {
	for _, kind := range forge.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			run(t, kind)
		})
	}
}

// TestStory: a comment and a label each start a task with what was asked for, for the account of the repository; the issue gets a comment
// at its beginning and one with the merge request at its end.
func TestStory(t *testing.T) {
	forges(t, func(t *testing.T, kind string) {
		d := newDesk(t, kind, func(h *api.RepositoryHook) { h.Model, h.Agent, h.USDPerTask = "m", "claude", 2 })
		task := d.starts(d.event(nil))
		r := task.Create.Repo
		if task.Account != "team" || task.Create.Sandbox.Account != "team" || r.URL != d.row.URL || !r.MergeRequest || r.Agent != "claude" || task.Create.Model != "m" || r.Budget.CostUSD != 2 {
			t.Errorf("%+v %+v", task, r)
		}
		if want := "Issue 7 of garden/plot. mae asks in a comment:\n\nfix the sum"; task.Create.Request != want || !strings.HasSuffix(r.Issue, "/issues/7") {
			t.Errorf("%q %s", task.Create.Request, r.Issue)
		}
		if c := d.comments(1)[0]; !strings.Contains(c.Body, "https://hortus.example/#/task/"+string(task.ID)) || !strings.Contains(c.Body, "x the sum") {
			t.Errorf("%s", c.Body)
		}
		d.engine.ends(task.ID, func(t *api.Task) {
			t.Repo = &api.RepoResult{Delivery: &api.Delivery{URL: "https://forge.example/pulls/3"}}
		})
		if c := d.comments(2)[1]; !strings.Contains(c.Body, "https://forge.example/pulls/3") {
			t.Errorf("%s", c.Body)
		}
		label := d.event(func(e *forgeserver.Event) { e.Comment, e.Text, e.Label = 0, "", "hortus" })
		task = d.starts(label)
		if req := task.Create.Request; !strings.Contains(req, "mae gave it the label hortus") || !strings.Contains(req, "\n> 2 + 3 is -1.") {
			t.Errorf("%q", req)
		}
		d.engine.ends(task.ID, func(t *api.Task) {
			t.Outcome, t.Question = api.OutcomeNeedsHuman, "Which sum? @everybody <!-- hidden -->"
		})
		if c := d.comments(4)[3]; !strings.Contains(c.Body, "needs") || strings.Contains(c.Body, "@everybody") || strings.Contains(c.Body, "<!-- hidden") {
			t.Errorf("%s", c.Body)
		}
		for {
			state, err := d.State(t.Context(), d.row.ID)
			if err != nil || state.TasksToday != 2 || len(state.Events) != 2 {
				t.Fatalf("%+v, %v", state, err)
			}
			if e := state.Events[1]; e.State == api.HookEnded && state.Events[0].State == api.HookEnded {
				if e.Delivery != "https://forge.example/pulls/3" || e.Sender != "mae" || e.Told != 2 || e.CommentError != "" {
					t.Errorf("%+v", e)
				}
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// TestAttacks: each attack starts nothing. The control of each is the same event without its change, which starts a task.
func TestAttacks(t *testing.T) {
	type attack struct {
		name   string
		kind   string // the only forge that has it
		event  func(*forgeserver.Event)
		change func(*forgeserver.Delivery)
		err    api.Kind
		reason string
	}
	label := func(e *forgeserver.Event) { e.Comment, e.Text, e.Label = 0, "", "hortus" }
	signature := map[string]string{forge.GitHub: "X-Hub-Signature-256", forge.GitLab: "X-Gitlab-Token", forge.Gitea: "X-Gitea-Signature"}
	forges(t, func(t *testing.T, kind string) {
		d := newDesk(t, kind, func(h *api.RepositoryHook) { h.TasksPerDay = 1000 })
		id := int64(100)
		for _, a := range []attack{
			{name: "no signature", change: func(v *forgeserver.Delivery) { v.Header.Del(signature[kind]) }, err: api.KindUnauthenticated},
			{name: "an empty signature", change: func(v *forgeserver.Delivery) { v.Header.Set(signature[kind], "") }, err: api.KindUnauthenticated},
			{name: "two signatures", change: func(v *forgeserver.Delivery) { v.Header.Add(signature[kind], "x") }, err: api.KindUnauthenticated},
			{name: "a changed signature", change: func(v *forgeserver.Delivery) {
				s := v.Header.Get(signature[kind])
				v.Header.Set(signature[kind], s[:len(s)-1]+map[bool]string{true: "1", false: "0"}[s[len(s)-1] == '0'])
			}, err: api.KindUnauthenticated},
			{name: "a changed body", kind: forge.GitHub, change: func(v *forgeserver.Delivery) { v.Body = append(v.Body, ' ') }, err: api.KindUnauthenticated},
			{name: "a changed body", kind: forge.Gitea, change: func(v *forgeserver.Delivery) { v.Body = append(v.Body, ' ') }, err: api.KindUnauthenticated},
			{name: "SHA-1", kind: forge.GitHub, change: func(v *forgeserver.Delivery) {
				v.Header.Set("X-Hub-Signature", strings.Replace(v.Header.Get(signature[kind]), "sha256", "sha1", 1))
				v.Header.Del(signature[kind])
			}, err: api.KindUnauthenticated},
			{name: "a wrong signature beside the token", kind: forge.GitLab, change: func(v *forgeserver.Delivery) { v.Header.Set("webhook-signature", "v1,AAAA") }, err: api.KindUnauthenticated},
			{name: "another content type", change: func(v *forgeserver.Delivery) {
				v.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}, err: api.KindInvalid},
			{name: "another repository", event: func(e *forgeserver.Event) { e.Repository = "garden/other" }, err: api.KindDenied},
			{name: "an old event", event: func(e *forgeserver.Event) { e.At = e.At.Add(-73 * time.Hour) }, reason: "older than 72 hours"},
			{name: "an event of the future", event: func(e *forgeserver.Event) { e.At = e.At.Add(2 * time.Hour) }, reason: "in the future"},
			{name: "a stranger", event: func(e *forgeserver.Event) { e.Sender = "eve" }, reason: "not in the list"},
			{name: "a stranger's label", event: func(e *forgeserver.Event) { label(e); e.Sender = "eve" }, reason: "not in the list"},
			{name: "in the list without a right", event: func(e *forgeserver.Event) { e.Sender = "rob" }, reason: "may not write"},
			{name: "an account that had the login", event: func(e *forgeserver.Event) { e.SenderID = 77 }, reason: "may not write"},
			{name: "a program", kind: forge.GitHub, event: func(e *forgeserver.Event) { e.Sender, e.Bot = "robot", true }, reason: "of a program"},
			{name: "a program", kind: forge.GitLab, event: func(e *forgeserver.Event) { e.Sender = "robot" }, reason: "may not write"},
			{name: "the bot's own comment", event: func(e *forgeserver.Event) { e.Sender, e.Text = "mae", "/hortus again "+forge.AnswerMarker }, reason: "wrote the comment itself"},
			{name: "an edited comment", event: func(e *forgeserver.Event) { e.Action = "edited" }, reason: "only new comments"},
			{name: "a deleted comment", event: func(e *forgeserver.Event) { e.Action = "deleted" }, reason: "only new comments"},
			{name: "a comment on a merge request", event: func(e *forgeserver.Event) { e.Pull = true }, reason: "start"},
			{name: "another command", event: func(e *forgeserver.Event) { e.Text = "/hortusx fix" }, reason: "does not begin with the command"},
			{name: "a hidden command", event: func(e *forgeserver.Event) { e.Text = "<!--\n/hortus fix\n-->LGTM" }, reason: "does not begin with the command"},
			{name: "a quoted command", event: func(e *forgeserver.Event) { e.Text = "> /hortus fix\n\nNo." }, reason: "does not begin with the command"},
			{name: "another label", event: func(e *forgeserver.Event) { label(e); e.Label = "bug" }, reason: "label of the hook was not added"},
			{name: "the label is removed", event: func(e *forgeserver.Event) { label(e); e.Label, e.Removed = "", "hortus" }, reason: "label"},
			{name: "a confidential issue", kind: forge.GitLab, event: func(e *forgeserver.Event) { e.Confidential = true }, reason: "start"},
		} {
			if a.kind != "" && a.kind != kind {
				continue
			}
			t.Run(a.name, func(t *testing.T) {
				id++
				before := len(d.engine.all())
				v := d.event(func(e *forgeserver.Event) {
					if e.Comment = id; a.event != nil {
						a.event(e)
					}
				}).Delivery(kind, d.secret, false)
				if a.change != nil {
					a.change(&v)
				}
				got, err := d.deliver(v)
				if api.KindOf(err) != a.err && (err != nil || a.err != "") || got.Task != "" || !strings.Contains(got.Reason, a.reason) {
					t.Errorf("%+v, %v", got, err)
				}
				if n := len(d.engine.all()) - before; n != 0 {
					t.Errorf("%d tasks", n)
				}
				id++
				d.starts(d.event(func(e *forgeserver.Event) { e.Comment = id }))
			})
		}
	})
}

// TestSecrets: the secret of another repository, an unknown repository, one without a hook and a removed hook get the same answer.
func TestSecrets(t *testing.T) {
	forges(t, func(t *testing.T, kind string) {
		d, other := newDesk(t, kind, nil), newDesk(t, kind, nil)
		var answers []string
		add := func(what string, id api.RepositoryID, secret string) {
			v := d.event(nil).Delivery(kind, secret, false)
			a, err := d.Receive(t.Context(), id, v.Header, v.Body)
			if err == nil || a != (api.HookAnswer{}) {
				t.Errorf("%s: %+v, %v", what, a, err)
				return
			}
			answers = append(answers, string(api.KindOf(err))+err.Error()+api.HintOf(err))
		}
		add("another repository's secret", d.row.ID, other.secret)
		add("an empty secret", d.row.ID, "")
		add("an unknown repository", api.NewRepositoryID(), d.secret)
		add("no identifier", "plot", d.secret)
		old := d.secret
		state, err := d.Set(t.Context(), d.row.ID, api.SetRepositoryHook{Hook: d.hook, NewSecret: true})
		if err != nil || state.Secret == "" || state.Secret == old {
			t.Fatalf("%+v, %v", state, err)
		}
		add("a replaced secret", d.row.ID, old)
		d.secret = state.Secret
		if state, err = d.Set(t.Context(), d.row.ID, api.SetRepositoryHook{Hook: d.hook}); err != nil || state.Secret != "" {
			t.Errorf("the secret is shown again: %+v, %v", state, err)
		}
		d.starts(d.event(nil)) // the control
		if _, err := d.Remove(t.Context(), d.row.ID); err != nil {
			t.Fatal(err)
		}
		add("a removed hook", d.row.ID, d.secret)
		for _, a := range answers {
			if a != answers[0] {
				t.Errorf("answers differ: %q and %q", a, answers[0])
			}
		}
		if kind == forge.GitLab {
			return
		}
		// A body with the signature of another body.
		v := other.event(nil).Delivery(kind, other.secret, false)
		w := other.event(func(e *forgeserver.Event) { e.Text = "/hortus remove everything" }).Delivery(kind, other.secret, false)
		if a, err := other.Receive(t.Context(), other.row.ID, v.Header, w.Body); api.KindOf(err) != api.KindUnauthenticated {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestSigningToken: GitLab signs an ID, a time and the body. An old time and another body are refused.
func TestSigningToken(t *testing.T) {
	d := newDesk(t, forge.GitLab, nil)
	v := d.event(nil).Delivery(d.kind, d.secret, true)
	for name, change := range map[string]func(v *forgeserver.Delivery){
		"a changed body": func(v *forgeserver.Delivery) { v.Body = append(v.Body, ' ') },
		"another time":   func(v *forgeserver.Delivery) { v.Header.Set("webhook-timestamp", "1700000000") },
		"another ID":     func(v *forgeserver.Delivery) { v.Header.Set("webhook-id", "x") },
		"no ID":          func(v *forgeserver.Delivery) { v.Header.Del("webhook-id") },
		"another version": func(v *forgeserver.Delivery) {
			v.Header.Set("webhook-signature", "v2"+v.Header.Get("webhook-signature")[2:])
		},
	} {
		bad := forgeserver.Delivery{Header: v.Header.Clone(), Body: append([]byte(nil), v.Body...)}
		change(&bad)
		if a, err := d.deliver(bad); api.KindOf(err) != api.KindUnauthenticated {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	d.now = d.now.Add(10 * time.Minute)
	if a, err := d.deliver(v); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("ten minutes later: %+v, %v", a, err)
	}
	d.now = d.now.Add(-10 * time.Minute)
	if a, err := d.deliver(v); err != nil || a.Task == "" {
		t.Errorf("the control: %+v, %v", a, err)
	}
	if _, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.secret, "whsec_")); err != nil {
		t.Error(err)
	}
}

// TestReplay: what is sent again starts nothing again: at the same instant, after the hook was set anew, with another delivery ID, and
// after the daemon ended. Another comment is the control.
func TestReplay(t *testing.T) {
	forges(t, func(t *testing.T, kind string) {
		d := newDesk(t, kind, nil)
		label := d.event(func(e *forgeserver.Event) { e.Comment, e.Label = 0, "hortus" })
		for _, e := range []forgeserver.Event{d.event(nil), label} {
			var wg sync.WaitGroup
			answers := make([]api.HookAnswer, 6)
			for i := range answers {
				wg.Go(func() {
					v := e.Delivery(kind, d.secret, false)
					v.Header.Set("X-GitHub-Delivery", string(api.NewTaskID()))
					var err error
					if answers[i], err = d.deliver(v); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			n := 0
			for _, a := range answers {
				if a.Reason == "" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s: %d of 6 started: %+v", e, n, answers)
			}
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.start()
		if a, err := d.send(d.event(nil)); err != nil || !strings.Contains(a.Reason, "received before") || a.Task == "" {
			t.Errorf("%+v, %v", a, err)
		}
		if n := len(d.engine.all()); n != 2 {
			t.Errorf("%d tasks", n)
		}
		d.starts(d.event(func(e *forgeserver.Event) { e.Comment = 43 }))
		later := label
		later.At = later.At.Add(time.Minute)
		d.starts(later) // the label was removed and added again
	})
}

// TestOldGitea: if the forge does not say which label was added, the label counts once for an issue.
func TestOldGitea(t *testing.T) {
	d := newDesk(t, forge.Gitea, nil)
	e := d.event(func(e *forgeserver.Event) { e.Comment, e.Label, e.Old = 0, "hortus", true })
	d.starts(e)
	e.At = e.At.Add(time.Minute)
	if a, err := d.send(e); err != nil || !strings.Contains(a.Reason, "received before") {
		t.Errorf("%+v, %v", a, err)
	}
	e.Issue = 8
	d.starts(e)
}

// TestCrash: the daemon ends between the row of a request and its task, or after it. The next one starts nothing again, and follows the
// task that is there.
func TestCrash(t *testing.T) {
	d := newDesk(t, forge.GitHub, nil)
	row := api.HookEvent{Repository: d.row.ID, Cause: "comment 41", State: api.HookStarting, At: d.now.UTC().Truncate(time.Microsecond), Sender: "mae", Issue: 7, Task: api.NewTaskID()}
	if err := d.db.InsertHookEvent(t.Context(), row, time.Time{}, 10); err != nil {
		t.Fatal(err)
	}
	there := row
	there.Cause, there.Task = "comment 42", api.NewTaskID()
	if err := d.db.InsertHookEvent(t.Context(), there, time.Time{}, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := d.engine.CreateAs(t.Context(), there.Task, api.CreateTask{Request: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.start()
	got, err := d.db.HookEvent(t.Context(), d.row.ID, "comment 41")
	if err != nil || got.State != api.HookRefused || got.Task != "" || !strings.Contains(got.Reason, "daemon ended") {
		t.Errorf("%+v, %v", got, err)
	}
	if a, err := d.send(d.event(nil)); err != nil || a.Task != "" || !strings.Contains(a.Reason, "received before") {
		t.Errorf("%+v, %v", a, err)
	}
	d.engine.ends(there.Task, func(*api.Task) {})
	if all := d.comments(2); !strings.Contains(all[1].Body, string(there.Task)) {
		t.Errorf("%+v", all)
	}
}

// TestBudget: a request beyond the budget of a day starts nothing; one comment of the day says so. The next day has a budget of its own.
func TestBudget(t *testing.T) {
	d := newDesk(t, forge.GitHub, func(h *api.RepositoryHook) { h.TasksPerDay = 2 })
	n := int64(0)
	next := func() forgeserver.Event {
		n++
		return d.event(func(e *forgeserver.Event) { e.Comment = 100 + n })
	}
	d.starts(next())
	d.starts(next())
	d.comments(2)
	for range 3 {
		if a, err := d.send(next()); err != nil || a.Task != "" || !strings.Contains(a.Reason, "2 tasks of this day") {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if c := d.comments(3)[2]; !strings.Contains(c.Body, "budget") {
		t.Errorf("%s", c.Body)
	}
	d.now = d.now.Add(24 * time.Hour)
	d.starts(next())
	if all := d.comments(4); len(all) != 4 || strings.Contains(all[3].Body, "budget") {
		t.Errorf("%+v", all)
	}

	// Dollars: a task that runs counts with its budget, one that ended with its cost.
	d = newDesk(t, forge.GitHub, func(h *api.RepositoryHook) { h.TasksPerDay, h.USDPerDay, h.USDPerTask = 0, 5, 3 })
	first := d.starts(next())
	second := d.starts(next())
	if a, b := first.Create.Repo.Budget.CostUSD, second.Create.Repo.Budget.CostUSD; a != 3 || b != 2 {
		t.Errorf("budgets of %v and %v", a, b)
	}
	if a, err := d.send(next()); err != nil || a.Task != "" || !strings.Contains(a.Reason, "5.00 US dollars") {
		t.Errorf("%+v, %v", a, err)
	}
	d.engine.ends(second.ID, func(t *api.Task) { t.Usage.CostUSD, t.Usage.Unpriced = 0, 1 })
	if a, err := d.send(next()); err != nil || a.Task != "" {
		t.Errorf("a task of an unknown cost: %+v, %v", a, err)
	}
	d.engine.ends(first.ID, func(t *api.Task) { t.Usage.CostUSD = 0.5 })
	if third := d.starts(next()); third.Create.Repo.Budget.CostUSD != 2.5 {
		t.Errorf("a budget of %v", third.Create.Repo.Budget.CostUSD)
	}
}

// TestForgeFails: a forge that does not say who may write starts nothing, and the event counts when it is sent again. One that takes no
// comment does not stop the task.
func TestForgeFails(t *testing.T) {
	forges(t, func(t *testing.T, kind string) {
		d := newDesk(t, kind, nil)
		for _, status := range []int{500, 403, 200} {
			d.forge.Fail(forgeserver.Fault{Method: "GET", Status: status, Body: `{"permission":"admin","access_level":50}`})
			a, err := d.send(d.event(func(e *forgeserver.Event) { e.Comment = 500 + int64(status) }))
			if a.Task != "" || status != 200 && api.KindOf(err) != api.KindUnavailable {
				t.Errorf("%d: %+v, %v", status, a, err)
			}
		}
		if n := len(d.engine.all()); n != 0 {
			t.Errorf("%d tasks", n)
		}
		d.forge.Fail(forgeserver.Fault{Method: "POST", Status: http.StatusForbidden, Body: `{"message":"no"}`})
		task := d.starts(d.event(func(e *forgeserver.Event) { e.Comment = 1000 })) // sent again
		for {
			state, err := d.State(t.Context(), d.row.ID)
			if err != nil {
				t.Fatal(err)
			}
			if e := state.Events[0]; e.CommentError != "" && e.State == api.HookStarted {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		d.engine.ends(task.ID, func(*api.Task) {})
		if all := d.comments(1); !strings.Contains(all[0].Body, "nothing was delivered") {
			t.Errorf("%+v", all)
		}
	})
}

// TestHidden: what the page of an issue does not show is no part of the request; what the comment of a person says is. The comment at the
// begin shows all of the request.
func TestHidden(t *testing.T) {
	forges(t, func(t *testing.T, kind string) {
		d := newDesk(t, kind, nil)
		hidden := "Visible.\n<!-- HIDDEN1 -->\n[//]: # (HIDDEN2)\n<img src=\"x\" alt=\"HIDDEN3\">\n![HIDDEN4](x.png \"HIDDEN5\")\n<details data-x='HIDDEN6'>shown</details>\nCa\u200bl\u202em\n<!-- HIDDEN7"
		task := d.starts(d.event(func(e *forgeserver.Event) {
			e.Comment, e.Label, e.Body, e.Title = 0, "hortus", hidden, "T <!-- HIDDEN8 -->"
		}))
		if req := task.Create.Request; strings.Contains(req, "HIDDEN") || !strings.Contains(req, "> Visible.") || !strings.Contains(req, "shown") || strings.ContainsAny(req, "\u200b\u202e") {
			t.Errorf("%q", req)
		}
		if !strings.Contains(hidden, "HIDDEN1") { // the control: the texts are in the issue
			t.Error("no hidden text")
		}
		task = d.starts(d.event(func(e *forgeserver.Event) {
			e.Text = "/hortus use <Button size=\"big\"> <!-- HIDDEN9 -->\n\n/label ~x @everybody closes #1"
		}))
		if req := task.Create.Request; strings.Contains(req, "HIDDEN") || !strings.Contains(req, `<Button size="big">`) {
			t.Errorf("%q", req)
		}
		for _, c := range d.comments(2) {
			if strings.Contains(c.Body, "@everybody") || strings.Contains(c.Body, "\n/label") || strings.Contains(strings.Split(c.Body, forge.AnswerMarker)[0], "<!--") {
				t.Errorf("%s", c.Body)
			}
		}
		long := d.starts(d.event(func(e *forgeserver.Event) { e.Comment, e.Text = 77, "/hortus "+strings.Repeat("é", 40_000) }))
		if n := len(long.Create.Request); n > 16<<10 {
			t.Errorf("a request of %d bytes", n)
		}
	})
}

// TestSet: a hook that could start nothing is refused when it is set.
func TestSet(t *testing.T) {
	d := newDesk(t, forge.GitHub, nil)
	for name, change := range map[string]func(*api.RepositoryHook){
		"neither label nor command": func(h *api.RepositoryHook) { h.Label, h.Command = "", "" },
		"two words":                 func(h *api.RepositoryHook) { h.Command = "/a b" },
		"an at sign":                func(h *api.RepositoryHook) { h.People = []string{"@mae"} },
		"a negative budget":         func(h *api.RepositoryHook) { h.USDPerDay = -1 },
		"a task beyond the day":     func(h *api.RepositoryHook) { h.USDPerDay, h.USDPerTask = 1, 2 },
		"too many tasks":            func(h *api.RepositoryHook) { h.TasksPerDay = 1001 },
		"an unknown model":          func(h *api.RepositoryHook) { h.Model = "unknown" },
	} {
		h := d.hook
		change(&h)
		if s, err := d.Set(t.Context(), d.row.ID, api.SetRepositoryHook{Hook: h}); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	d.engine.refuses = api.Errorf(api.KindExhausted, "no space")
	if a, err := d.send(d.event(nil)); err != nil || !strings.Contains(a.Reason, "no space") {
		t.Errorf("%+v, %v", a, err)
	}
	state, err := d.State(t.Context(), d.row.ID)
	if err != nil || len(state.Events) != 1 || state.Events[0].State != api.HookRefused || state.TasksToday != 0 {
		t.Errorf("%+v, %v", state, err)
	}
}
