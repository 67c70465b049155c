package database

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
)

// outageWorld is a database behind a proxy, with rows to change.
type outageWorld struct {
	*DB
	server *postgrestest.Server
	proxy  *postgrestest.Proxy
	name   string
	owner  api.OwnerID
	heir   api.OwnerID
	box    api.Sandbox
	now    time.Time
}

func newOutageWorld(t *testing.T, server *postgrestest.Server) *outageWorld {
	t.Helper()
	w := &outageWorld{server: server, proxy: server.Proxy(t), owner: api.NewOwnerID(), heir: "heir", now: time.Now()}
	w.name = server.Database(t)
	w.DB = openServer(t, w.proxy.URL(w.name))
	w.box = api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: w.now}
	ctx := t.Context()
	must(t, w.InsertOwner(ctx, store.Owner{ID: w.owner, StartedAt: w.now}))
	must(t, w.InsertOwner(ctx, store.Owner{ID: w.heir, StartedAt: w.now}))
	must(t, w.InsertSandbox(ctx, w.box))
	must(t, w.InsertRun(ctx, store.Run{ID: "r", Kind: "k", Owner: w.owner, CreatedAt: w.now}))
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// since is when the server was first not reached.
func (o *outage) since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not become true that %s", what)
		}
	}
}

// The rows that some of the writes change.
func (w *outageWorld) once() store.Once {
	return store.Once{Account: "team", Key: "k", Request: []byte("r"), CreatedAt: w.now, ExpiresAt: w.now.Add(time.Hour), Done: true, Answer: []byte("a")}
}

func (w *outageWorld) webhook() api.Webhook {
	return api.Webhook{ID: "h", Account: "team", URL: "https://example.org/h", Events: []api.LifecycleType{"created"}, Enabled: true, CreatedAt: w.now}
}

func (w *outageWorld) session(doc string) store.Session {
	return store.Session{ID: "c", Key: "talk", Account: "team", Owner: w.owner, CreatedAt: w.now, Doc: []byte(doc)}
}

func (w *outageWorld) plan(doc string) store.Plan {
	return store.Plan{ID: "p", Repository: "r", Account: "team", Owner: w.owner, CreatedAt: w.now, Doc: []byte(doc)}
}

// writes are the writes of work that somebody waits for. Text is what the message has that is lost: the statement, or the commit of its transaction.
var writes = []struct {
	name, text string
	do         func(ctx context.Context, w *outageWorld) error
	// have is what the rows have after one write.
	query string
	have  string
	// before makes the row that is written; nil if there is none.
	before func(ctx context.Context, w *outageWorld) error
}{
	{"sandbox", "INSERT INTO sandbox", func(ctx context.Context, w *outageWorld) error {
		return w.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxStarting, CreatedAt: w.now})
	}, `SELECT count(*) FROM sandbox`, "2", nil},
	{"state of a sandbox", "UPDATE sandbox", func(ctx context.Context, w *outageWorld) error {
		s := w.box
		s.State, s.EndedAt = api.SandboxEnded, w.now
		return w.UpdateSandbox(ctx, s)
	}, `SELECT state FROM sandbox`, "ended", nil},
	{"command", "INSERT INTO exec", func(ctx context.Context, w *outageWorld) error {
		return w.InsertExec(ctx, api.Exec{ID: api.NewExecID(), Sandbox: w.box.ID, State: api.ExecRunning, StartedAt: w.now})
	}, `SELECT count(*) FROM exec`, "1", nil},
	{"event", "INSERT INTO event", func(ctx context.Context, w *outageWorld) error {
		n, err := w.AppendEvent(ctx, stream, api.EventOutput, w.now, []byte(`{"a":1}`))
		if err == nil && n != 1 {
			err = errors.New("the event has a wrong number")
		}
		return err
	}, `SELECT count(*) FROM event`, "1", nil},
	{"event without data", "INSERT INTO event", func(ctx context.Context, w *outageWorld) error {
		_, err := w.AppendEvent(ctx, stream, api.EventOutput, w.now, nil)
		return err
	}, `SELECT count(*) FROM event`, "1", nil},
	{"task", "INSERT INTO task", func(ctx context.Context, w *outageWorld) error {
		return w.InsertTask(ctx, api.Task{ID: api.NewTaskID(), State: api.TaskPending, CreatedAt: w.now})
	}, `SELECT count(*) FROM task`, "1", nil},
	{"begin of a step", "commit", func(ctx context.Context, w *outageWorld) error {
		n, err := w.BeginStep(ctx, "r", w.owner, store.RunStep{Name: "s", StartedAt: w.now})
		if err == nil && n != 1 {
			err = errors.New("the first try is counted twice")
		}
		return err
	}, `SELECT try FROM run_step`, "1", nil},
	{"end of a step", "commit", func(ctx context.Context, w *outageWorld) error {
		return w.EndStep(ctx, "r", w.owner, store.RunStep{Name: "s", Result: []byte("x"), EndedAt: w.now})
	}, `SELECT size FROM run`, "2", func(ctx context.Context, w *outageWorld) error {
		_, err := w.BeginStep(ctx, "r", w.owner, store.RunStep{Name: "s", StartedAt: w.now})
		return err
	}},
	{"hand-over", "UPDATE run SET owner", handsOver, `SELECT count(*) FROM owner WHERE heir IS NOT NULL AND ended_at IS NOT NULL AND id = (SELECT owner FROM run)`, "1", withTask},
	{"end of a hand-over", "commit", handsOver, `SELECT count(*) FROM owner WHERE heir IS NOT NULL`, "1", withTask},
	{"end of a run", "commit", func(ctx context.Context, w *outageWorld) error {
		n, err := w.EndRun(ctx, "r", w.owner, store.RunEnd{At: w.now, Event: &api.Event{Stream: stream, Type: api.EventTaskFinished, At: w.now, Data: []byte("{}")}})
		if err == nil && n != 1 {
			err = errors.New("the event has a wrong number")
		}
		return err
	}, `SELECT count(*) FROM event`, "1", nil},
	{"answer under an idempotency key", "commit", func(ctx context.Context, w *outageWorld) error { return w.EndOnce(ctx, w.once()) }, `SELECT done FROM once`, "1",
		func(ctx context.Context, w *outageWorld) error {
			_, _, err := w.BeginOnce(ctx, w.once(), 9)
			return err
		}},
	{"change of a webhook", "commit", func(ctx context.Context, w *outageWorld) error {
		h := w.webhook()
		h.Name = "new"
		return w.UpdateWebhook(ctx, h, "")
	}, `SELECT name FROM webhook`, "new", func(ctx context.Context, w *outageWorld) error { return w.InsertWebhook(ctx, w.webhook(), "s", 9) }},
	{"removal of a webhook", "commit", func(ctx context.Context, w *outageWorld) error { return w.RemoveWebhook(ctx, "team", "h") }, `SELECT count(*) FROM webhook`, "0",
		func(ctx context.Context, w *outageWorld) error { return w.InsertWebhook(ctx, w.webhook(), "s", 9) }},
	{"plan that gets an owner", "commit", func(ctx context.Context, w *outageWorld) error {
		p := w.plan(`{"a":1}`)
		p.Owner = w.heir
		p.Events = []api.Event{{Stream: api.Stream{Kind: "plan", ID: "p"}, Type: api.EventOutput, At: w.now, Data: []byte("{}")}}
		return w.UpdatePlan(ctx, w.owner, p, store.PlanItem{N: 1, Doc: []byte("{}")})
	}, `SELECT owner || ' ' || (SELECT count(*) FROM plan_item) || ' ' || (SELECT count(*) FROM event) FROM plan`, "heir 1 1",
		func(ctx context.Context, w *outageWorld) error { return w.InsertPlan(ctx, w.plan("{}"), 9) }},
	{"plan with an event", "commit", func(ctx context.Context, w *outageWorld) error {
		p := w.plan(`{"a":1}`)
		p.Events = []api.Event{{Stream: api.Stream{Kind: "plan", ID: "p"}, Type: api.EventOutput, At: w.now, Data: []byte("{}")}}
		return w.UpdatePlan(ctx, w.owner, p, store.PlanItem{N: 1, Doc: []byte("{}")})
	}, `SELECT count(*) FROM event`, "1", func(ctx context.Context, w *outageWorld) error { return w.InsertPlan(ctx, w.plan("{}"), 9) }},
	{"session that is closed", "commit", func(ctx context.Context, w *outageWorld) error {
		s := w.session(`{"a":1}`)
		s.Closed, s.EndedAt = true, w.now
		return w.UpdateSession(ctx, w.owner, s, store.SessionTurn{N: 1, Doc: []byte("{}")})
	}, `SELECT closed + (SELECT count(*) FROM session_turn) FROM session`, "2", func(ctx context.Context, w *outageWorld) error { return w.InsertSession(ctx, w.session("{}"), 9) }},
}

// withTask has the task of the run.
func withTask(ctx context.Context, w *outageWorld) error {
	return w.InsertTask(ctx, api.Task{ID: "r", State: api.TaskRunning, Owner: w.owner, CreatedAt: w.now})
}

// handsOver gives a task to another owner.
func handsOver(ctx context.Context, w *outageWorld) error {
	return w.HandOver(ctx, store.Work{Tasks: []api.TaskID{"r"}}, w.owner, w.heir)
}

// TestLostMessages loses a statement, or the answer to it: it is carried out once, and the caller gets its result. T1 loses one statement and each answer:
// a statement that is lost changes nothing that its second try could find.
func TestLostMessages(t *testing.T) {
	server := postgrestest.Start(t)
	for i, write := range writes {
		for _, answer := range []bool{false, true} {
			t.Run(write.name+map[bool]string{false: "/statement", true: "/answer"}[answer], func(t *testing.T) {
				if !answer && i > 0 {
					tier.Soak(t)
				}
				t.Parallel()
				ctx, w := t.Context(), newOutageWorld(t, server)
				if write.before != nil {
					must(t, write.before(ctx, w))
				}
				loss := &postgrestest.Loss{Text: write.text, Answer: answer}
				w.proxy.Lose(loss)
				must(t, write.do(ctx, w))
				<-loss.Done
				var have string
				must(t, w.read.QueryRowContext(ctx, "SELECT CAST(("+write.query+") AS TEXT)").Scan(&have))
				if have != write.have {
					t.Errorf("the rows have %s, want %s", have, write.have)
				}
			})
		}
	}
}

// TestLostRefusal loses the answer that another repository has the name: that is no repository that was stored.
func TestLostRefusal(t *testing.T) {
	w, ctx := newOutageWorld(t, postgrestest.Start(t)), t.Context()
	row := func() api.Repository {
		return api.Repository{ID: api.NewRepositoryID(), Name: "r", URL: "https://example.org/r", State: api.RepositoryReady, CreatedAt: w.now}
	}
	must(t, w.InsertRepository(ctx, row()))
	second := row()
	w.proxy.Lose(&postgrestest.Loss{Text: "INSERT INTO repository", Answer: true})
	if err := w.InsertRepository(ctx, second); api.KindOf(err) != api.KindExists {
		t.Errorf("the second one of a name: %v", err)
	}
	if _, err := w.Repository(ctx, second.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("the second one is there: %v", err)
	}
}

// TestReadsWait: a read of several statements waits for the server, too.
func TestReadsWait(t *testing.T) {
	w, ctx := newOutageWorld(t, postgrestest.Start(t)), t.Context()
	task := api.Task{ID: api.NewTaskID(), State: api.TaskPending, CreatedAt: w.now}
	must(t, w.InsertTask(ctx, task))
	must(t, w.PutAttempt(ctx, task.ID, api.Attempt{N: 1, StartedAt: w.now}))
	for _, text := range []string{"REPEATABLE READ", "FROM task", "FROM attempt"} {
		w.proxy.Lose(&postgrestest.Loss{Text: text, Answer: true})
		got, err := w.Task(ctx, task.ID)
		if err != nil || len(got.Attempts) != 1 {
			t.Errorf("the answer to %q is lost: %d attempts, %v", text, len(got.Attempts), err)
		}
	}
	w.proxy.To(nil)
	done := make(chan error)
	go func() { _, err := w.Task(ctx, task.ID); done <- err }()
	until(t, "the read waits", func() bool { return !w.write.outage.since().IsZero() })
	w.proxy.To(w.server)
	must(t, <-done)
}

// TestInDoubt: nobody knows whether a transaction was committed that cannot run twice, and the error says so.
func TestInDoubt(t *testing.T) {
	w := newOutageWorld(t, postgrestest.Start(t))
	w.proxy.Lose(&postgrestest.Loss{Text: "commit", Answer: true})
	err := w.InsertPlan(t.Context(), store.Plan{ID: api.NewPlanID(), Repository: "r", Owner: w.owner, CreatedAt: w.now, Doc: []byte("{}")}, 1)
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "not known") {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
}

// TestOutage stops and kills the server under reads and writes: they wait for it, and each write is there once.
func TestOutage(t *testing.T) {
	for name, end := range map[string]func(*postgrestest.Server) error{"stop": (*postgrestest.Server).Stop, "kill": (*postgrestest.Server).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newOutageWorld(t, postgrestest.Start(t))
			const workers, each = 4, 20
			begun, errs := make(chan struct{}, workers*each), make(chan error, workers)
			for i := range workers {
				go func() {
					var err error
					s := api.Stream{Kind: api.StreamTask, ID: string(rune('a' + i))}
					for n := range each {
						begun <- struct{}{}
						var seq int64
						if seq, err = w.AppendEvent(t.Context(), s, api.EventOutput, w.now.Add(time.Duration(n)*time.Second), nil); err == nil && seq != int64(n+1) {
							err = errors.New("an event is there twice, or lost")
						}
						if err == nil {
							_, err = w.Sandbox(t.Context(), w.box.ID)
						}
						if err == nil {
							err = w.UpdateSandbox(t.Context(), w.box)
						}
						if err != nil {
							break
						}
					}
					errs <- err
				}()
			}
			for range workers * 2 {
				<-begun
			}
			must(t, end(w.server))
			must(t, w.server.Run())
			for range workers {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFailover has another server take over under writes. Nothing is lost that was confirmed, and nothing is there twice.
func TestFailover(t *testing.T) {
	server := postgrestest.Start(t)
	standby := server.Standby(t)
	w := newOutageWorld(t, server)
	done, stop := make(chan error), make(chan struct{})
	begun := make(chan struct{}, 1000)
	n := int64(0)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			case begun <- struct{}{}:
			}
			seq, err := w.AppendEvent(t.Context(), stream, api.EventOutput, w.now.Add(time.Duration(n)*time.Second), nil)
			if n++; err == nil && seq != n {
				err = errors.New("an event is there twice, or lost")
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 50 {
		<-begun
	}
	must(t, server.Kill())
	standby.Promote(t)
	w.proxy.To(standby)
	for range 50 {
		<-begun
	}
	close(stop)
	must(t, <-done)
	var have int64
	must(t, w.read.QueryRowContext(t.Context(), `SELECT max(seq) FROM event`).Scan(&have))
	if have != n {
		t.Errorf("%d events were confirmed, and there are %d", n, have)
	}
}

// TestReadOnlyServer: a server that only reads, as before it takes over, is one that cannot be reached yet.
func TestReadOnlyServer(t *testing.T) {
	server := postgrestest.Start(t, "synchronous_commit=remote_apply") // the standby has the tables
	standby := server.Standby(t)
	w := newOutageWorld(t, server)
	w.proxy.To(standby)
	done := make(chan error)
	go func() {
		done <- w.InsertTask(t.Context(), api.Task{ID: api.NewTaskID(), State: api.TaskPending, CreatedAt: w.now})
	}()
	until(t, "the write waits", func() bool { return !w.write.outage.since().IsZero() })
	must(t, server.Kill())
	standby.Promote(t)
	must(t, <-done)
}

// TestSilentServer: a statement waits for a slow server as long as its caller does.
func TestSilentServer(t *testing.T) {
	w := newOutageWorld(t, postgrestest.Start(t))
	w.proxy.Hold()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := w.Sandbox(ctx, w.box.ID); done <- err }()
	until(t, "the read waits", func() bool { return w.proxy.Waiting() > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() { _, err := w.Sandbox(t.Context(), w.box.ID); done <- err }()
	w.proxy.Release()
	must(t, <-done)
}

// TestLongOutage: after the time that statements wait, each fails at once, and says why.
func TestLongOutage(t *testing.T) {
	w := newOutageWorld(t, postgrestest.Start(t))
	w.proxy.To(nil)
	w.write.outage.began = time.Now().Add(-maxOutage - time.Second)
	_, err := w.Sandbox(t.Context(), w.box.ID)
	if api.KindOf(err) != api.KindUnavailable || api.HintOf(err) == "" {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
	w.proxy.To(w.server)
	if _, err = w.Sandbox(t.Context(), w.box.ID); err != nil || !w.write.outage.since().IsZero() {
		t.Error(err)
	}
}

// TestWaiting: what waits for a long outage waits for a short one after the end of its wait, as others do.
func TestWaiting(t *testing.T) {
	w := newOutageWorld(t, postgrestest.Start(t))
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		until context.Context
		began time.Time // the outage
	}{
		"long":          {t.Context(), time.Now().Add(-maxOutage - time.Second)},
		"short, at end": {ended, time.Now()},
	} {
		w.proxy.To(nil)
		w.write.outage.began = c.began
		s, done := api.Stream{Kind: api.StreamTask, ID: name}, make(chan error, 1)
		go func() {
			_, err := w.AppendEvent(store.Waiting(context.WithoutCancel(t.Context()), c.until), s, api.EventOutput, w.now, nil)
			done <- err
		}()
		refused := w.proxy.Refused()
		until(t, "it is tried again and again", func() bool { return w.proxy.Refused() > refused+3 })
		select {
		case err := <-done:
			t.Errorf("%s: it does not wait: %v", name, err)
		default:
		}
		w.proxy.To(w.server)
		must(t, <-done)
	}
	w.proxy.To(nil)
	w.write.outage.began = time.Now().Add(-maxOutage - time.Second)
	if _, err := w.AppendEvent(store.Waiting(t.Context(), ended), stream, api.EventOutput, w.now, nil); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("a long outage, at the end: %v", err)
	}
}

// TestEventOfEndedOwner: events that waited while another owner took over are not stored, on both databases.
func TestEventOfEndedOwner(t *testing.T) {
	w := newOutageWorld(t, postgrestest.Start(t))
	lite, err := OpenSQLite(t.Context(), SQLite{Path: filepath.Join(t.TempDir(), "db")})
	must(t, err)
	defer lite.Close()
	must(t, lite.InsertOwner(t.Context(), store.Owner{ID: w.owner, StartedAt: w.now}))
	ctx := store.Writing(store.Waiting(t.Context(), t.Context()), w.owner)
	for name, db := range map[string]*DB{"Postgres": w.DB, "SQLite": lite} {
		for i, data := range []string{"", "{}"} {
			if seq, err := db.AppendEvent(ctx, stream, api.EventOutput, w.now, []byte(data)); err != nil || seq != int64(i+1) {
				t.Errorf("%s: event %d of an owner that lives: %v", name, seq, err)
			}
		}
		if name == "Postgres" {
			w.proxy.To(nil)
			waited := make(chan error, 1)
			go func() { _, err := db.AppendEvent(ctx, stream, api.EventOutput, w.now, nil); waited <- err }()
			refused := w.proxy.Refused()
			until(t, "an event waits", func() bool { return w.proxy.Refused() > refused })
			other := openServer(t, w.server.URL(postgrestest.User, w.name))
			must(t, other.EndOwner(t.Context(), w.owner, w.now))
			w.proxy.To(w.server)
			if err := <-waited; api.KindOf(err) != api.KindConflict {
				t.Errorf("an event that waited: %v", err)
			}
		} else {
			must(t, db.EndOwner(t.Context(), w.owner, w.now))
		}
		if _, err := db.AppendEvent(ctx, stream, api.EventOutput, w.now, nil); api.KindOf(err) != api.KindConflict {
			t.Errorf("%s: an event of an owner that has ended: %v", name, err)
		}
		if seq, err := db.AppendEvent(t.Context(), stream, api.EventOutput, w.now, nil); err != nil || seq != 3 {
			t.Errorf("%s: event %d of anybody: %v", name, seq, err)
		}
	}
}

// TestExplanations: an operation without a connection says in one line which database does not answer, why, and what to do, at start and later.
func TestExplanations(t *testing.T) {
	server := postgrestest.Start(t)
	name := server.Database(t)
	server.Exec(t, name, "GRANT CREATE ON SCHEMA public TO "+postgrestest.Locked)
	cfg := Postgres{URL: server.URL(postgrestest.Locked, name), Password: postgrestest.Password, KeyFile: sameKey(t)}
	db, err := OpenPostgres(t.Context(), cfg)
	must(t, err)
	defer db.Close()
	place := "connect to Postgres, database " + name + " at " + server.Dir + ": "
	check := func(what string, err error, kind api.Kind, says, hint string) {
		t.Helper()
		if api.KindOf(err) != kind || err == nil || !strings.HasSuffix(err.Error(), says) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(api.HintOf(err), hint) {
			t.Errorf("%s: %s: %v, next: %s", what, api.KindOf(err), err, api.HintOf(err))
		}
	}
	read := func() error {
		db.write.outage.began = time.Now().Add(-maxOutage - time.Second) // it does not wait
		_, err := db.SharedValue(t.Context(), "authority")
		return err
	}
	refused := func() error { // after the end of the connections that there are
		t.Helper()
		var err error
		until(t, "a new connection is necessary", func() bool {
			err = read()
			return err != nil && strings.Contains(err.Error(), "connect to Postgres")
		})
		return err
	}
	server.Exec(t, name, "ALTER ROLE "+postgrestest.Locked+" PASSWORD 'another'")
	server.Exec(t, "postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '"+postgrestest.Locked+"'")
	refusal := place + "the server refuses user " + postgrestest.Locked + `: password authentication failed for user "` + postgrestest.Locked + `"`
	check("another password", refused(), api.KindUnavailable, `read shared value "authority": `+refusal, "set the password with store.password-file")
	_, err = OpenPostgres(t.Context(), cfg)
	check("another password at the start", err, api.KindDenied, refusal, "set the password with store.password-file")
	server.Exec(t, name, "ALTER ROLE "+postgrestest.Locked+" PASSWORD '"+strings.ReplaceAll(postgrestest.Password, "'", "''")+"'")
	if err := read(); api.KindOf(err) != api.KindNotFound {
		t.Errorf("with the former password: %v", err)
	}
	must(t, server.Stop())
	check("no server", refused(), api.KindUnavailable, place+"no such file or directory", "start the server")
	_, err = OpenPostgres(t.Context(), Postgres{URL: "postgres://hortus@127.0.0.1:1/rows", KeyFile: cfg.KeyFile})
	check("a closed port", err, api.KindUnavailable, "connect to Postgres, database rows at 127.0.0.1:1: connection refused", "start the server")
}

// TestNoOutageSQLite: a file has no server to wait for.
func TestNoOutageSQLite(t *testing.T) {
	db, err := OpenSQLite(t.Context(), SQLite{Path: filepath.Join(t.TempDir(), "db")})
	must(t, err)
	must(t, db.Close())
	if _, err := db.Sandbox(t.Context(), api.NewSandboxID()); api.KindOf(err) != api.KindUnavailable {
		t.Error(err)
	}
}

// TestLeaseDoesNotWait: a node renews its lease while all connections are in use.
func TestLeaseDoesNotWait(t *testing.T) {
	w := newOutageWorld(t, postgrestest.Start(t))
	ctx := t.Context()
	n := store.Node{ID: api.NewNodeID(), Name: "a", Owner: w.owner, State: api.NodeReady}
	must(t, w.PutNode(ctx, n))
	for range defaultConnections {
		begin(t, w.DB)
	}
	_, err := w.BeatNode(ctx, n.ID, w.owner, api.NodeCapacity{})
	must(t, err)
	must(t, w.BeatOwner(ctx, w.owner, time.Now()))
}
