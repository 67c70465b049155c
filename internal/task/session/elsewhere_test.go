package session

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task"
	"hortus.dev/test/patience"
)

// engine answers messages, one after the other, without an agent. It implements Engine.
type engine struct {
	mu    sync.Mutex
	tasks map[api.TaskID]api.Task
	said  []string
	fails bool // before an agent begins
	slow  bool // tasks are not done before end
	// works and goOn hold a turn, if they are set.
	works, goOn chan struct{}
}

func (*engine) CheckTurn(_ context.Context, c api.CreateTask) (api.CreateTask, error) { return c, nil }

func (e *engine) StartTurn(_ context.Context, t task.Turn) (api.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row, known := e.tasks[t.ID]
	if !known {
		e.said = append(e.said, t.Create.Request)
		row = api.Task{ID: t.ID, State: api.TaskDone, Outcome: api.OutcomeAnswered, Repo: &api.RepoResult{Workspace: "space", Checkpoint: api.WorkspaceID("copy of " + t.Create.Request)}}
		if e.fails {
			row = api.Task{ID: t.ID, State: api.TaskDone, Outcome: api.OutcomeCanceled, Repo: &api.RepoResult{}}
		}
		if e.slow {
			row.State = api.TaskRunning
		}
		e.tasks[t.ID] = row
	}
	return row, nil
}

// end ends all tasks.
func (e *engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, t := range e.tasks {
		t.State = api.TaskDone
		e.tasks[id] = t
	}
	e.slow = false
}

func (e *engine) Wait(_ context.Context, id api.TaskID) (api.Task, error) {
	if e.works != nil {
		e.works <- struct{}{}
		<-e.goOn
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tasks[id], nil
}

func (e *engine) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) { return e.Wait(ctx, id) }

// waits are no sandboxes, or one that waits. It implements Sandboxes.
type waits struct {
	mu   sync.Mutex
	warm bool
	// away is true while the files of sessions are on another node. stored are the checkpoints that the archive has.
	away   bool
	stored map[api.WorkspaceID]bool
	gone   []api.WorkspaceID // what was discarded
}

func (*waits) Stays(api.SessionID, time.Duration, time.Duration) {}
func (w *waits) State(api.SessionID) (words.State, api.SandboxID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warm {
		return words.Warm, "box"
	}
	return words.Stored, ""
}

func (w *waits) Drop(context.Context, api.SessionID) (api.Proof, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warm = false
	return api.Proof{}, nil
}

func (w *waits) CopyIdle(_ context.Context, _ api.SessionID, ws api.WorkspaceID) (api.WorkspaceID, error) {
	if w.away {
		return "", api.Errorf(api.KindNotFound, "workspace %s does not exist", ws)
	}
	return "copy", nil
}

func (w *waits) CopyCheckpoint(_ context.Context, _ string, _ api.SessionID, ws api.WorkspaceID) (api.WorkspaceID, string, error) {
	if w.away && !w.stored[ws] {
		return "", "", api.Errorf(api.KindUnavailable, "its files are on the disk of node b").WithHint("start it")
	}
	if w.stored != nil {
		w.stored["copy of "+ws] = true // it is here
	}
	return "copy of " + ws, "", nil
}

func (w *waits) Discard(_ context.Context, ws api.WorkspaceID) { w.gone = append(w.gone, ws) }
func (*waits) Sweep(context.Context, api.SessionID, map[api.WorkspaceID]bool) error {
	return nil
}

// others are the other nodes. It implements Elsewhere.
type others struct {
	db *database.DB
	me api.OwnerID

	mu     sync.Mutex
	stay   error // why nothing goes
	stored api.WorkspaceID
	fails  error
	given  []api.OwnerID
	copies []api.WorkspaceID // the checkpoints of what was given last
	// at and goOn hold a hand-over, if they are set.
	at, goOn chan struct{}
}

func (o *others) Leaves(context.Context, string, api.CreateTask) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stay
}

func (o *others) Stored(_ context.Context, _, checkpoint api.WorkspaceID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stored == "" || o.stored == checkpoint
}

func (o *others) HandOver(ctx context.Context, s words.Session, _ api.CreateTask, checkpoints []api.WorkspaceID) error {
	if o.at != nil {
		o.at <- struct{}{}
		<-o.goOn
	}
	if o.fails != nil {
		return o.fails
	}
	to := api.NewOwnerID()
	if err := o.db.InsertOwner(ctx, store.Owner{ID: to, StartedAt: time.Now()}); err != nil {
		return err
	}
	if err := o.db.HandOver(ctx, store.Work{Session: s.ID}, o.me, to); err != nil {
		return err
	}
	row, err := o.db.Session(ctx, s.ID)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.given, o.copies = append(o.given, row.Owner), checkpoints
	return err
}

// gave counts what was handed over.
func (o *others) gave() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.given)
}

func (o *others) set(change func(*others)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// host has the sessions of a node, and what they need.
type host struct {
	*Service
	t      *testing.T
	db     *database.DB
	engine *engine
	waits  *waits
	others *others
}

func newHost(t *testing.T, db *database.DB, e *engine, set ...func(*Config)) *host {
	t.Helper()
	h := &host{t: t, db: db, engine: e, waits: &waits{}, others: &others{db: db, me: api.NewOwnerID(), stay: errors.New("it does not drain")}}
	must(t, db.InsertOwner(t.Context(), store.Owner{ID: h.others.me, StartedAt: time.Now()}))
	cfg := Config{
		Rows: db, Engine: e, Sandboxes: h.waits, Log: event.NewLog(event.Config{Store: db}), Dir: t.TempDir(), TaskDir: t.TempDir(), Owner: h.others.me, Elsewhere: h.others,
	}
	for _, f := range set {
		f(&cfg)
	}
	h.Service = New(cfg)
	t.Cleanup(func() { must(t, h.Close(context.Background())) })
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openRows(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func (h *host) say(text string, set *words.Settings) {
	h.t.Helper()
	_, err := h.Send(h.t.Context(), "", "talk", words.Message{Text: text, Create: set})
	must(h.t, err)
}

func (h *host) talk() words.Session {
	h.t.Helper()
	s, err := h.Get(h.t.Context(), "", "talk")
	must(h.t, err)
	return s
}

func (h *host) eventually(what string, holds func() bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience.Of(time.Minute))
	defer cancel()
	for tick := time.NewTicker(time.Millisecond); !holds(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatalf("it does not become true that %s", what)
		}
	}
}

// answered waits for the end of a turn.
func (h *host) answered(n int) {
	h.t.Helper()
	h.eventually("a turn ends", func() bool { s := h.talk(); return len(s.Turns) >= n && s.Turns[n-1].State == words.TurnDone })
	h.eventually("its worker ends", func() bool { return h.running(h.talk().ID) == nil })
}

// next is another node, which takes over what was handed over.
func (h *host) next() *host {
	h.t.Helper()
	n := newHost(h.t, h.db, h.engine)
	h.others.mu.Lock()
	given := slices.Clone(h.others.given)
	h.others.mu.Unlock()
	found, err := n.TakeOver(h.t.Context(), func(o api.OwnerID) bool { return slices.Contains(given, o) })
	if err != nil || found != 1 {
		h.t.Fatal(found, err)
	}
	return n
}

func (h *host) staying() Staying {
	h.t.Helper()
	all, err := h.Staying(h.t.Context())
	if err != nil || len(all) != 1 {
		h.t.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

func (h *host) heard(want ...string) {
	h.t.Helper()
	h.engine.mu.Lock()
	defer h.engine.mu.Unlock()
	if !slices.Equal(h.engine.said, want) {
		h.t.Errorf("the agent heard %q, want %q", h.engine.said, want)
	}
}

// TestHandOverIdle: a session that waits for a message goes at once, without its sandbox, and answers the next one at the other node. A message that comes meanwhile is
// refused, and has no turn.
func TestHandOverIdle(t *testing.T) {
	h := newHost(t, openRows(t), &engine{tasks: map[api.TaskID]api.Task{}})
	h.waits.warm = true
	h.say("one", &words.Settings{Agent: "hortus"})
	h.answered(1)
	if s := h.talk(); s.State != words.Warm {
		t.Fatalf("the session is %s", s.State)
	}
	h.HandOver(t.Context())
	if st := h.staying(); st.Goes || st.Why != "it does not drain" || h.others.gave() != 0 {
		t.Errorf("before the drain: %+v, %v", st, h.others.gave())
	}
	h.others.set(func(o *others) { o.stay, o.at, o.goOn = nil, make(chan struct{}), make(chan struct{}) })
	if st := h.staying(); !st.Goes || st.Why != "" {
		t.Errorf("before it goes: %+v", st)
	}
	done := make(chan struct{})
	go func() { h.HandOver(t.Context()); close(done) }()
	<-h.others.at
	sent := make(chan error)
	go func() {
		_, err := h.Send(t.Context(), "", "talk", words.Message{Text: "two"})
		sent <- err
	}()
	close(h.others.goOn)
	if err := <-sent; api.KindOf(err) != api.KindUnavailable || api.RetryAfterOf(err) == 0 {
		t.Errorf("a message on the way: %v", err)
	}
	<-done
	if s := h.talk(); s.State != words.Stored || len(s.Turns) != 1 {
		t.Errorf("on its way it is %s with %d turns", s.State, len(s.Turns))
	}
	n := h.next()
	n.say("two", nil)
	n.answered(2)
	h.heard("one", "two")
	if all, err := h.Staying(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the former node says %+v, %v", all, err)
	}
}

// TestHandOverAfterTurn: a session whose turn works goes after it, with the messages that wait.
func TestHandOverAfterTurn(t *testing.T) {
	e := &engine{tasks: map[api.TaskID]api.Task{}, works: make(chan struct{}, 9), goOn: make(chan struct{})}
	h := newHost(t, openRows(t), e)
	h.say("one", &words.Settings{})
	h.say("two", nil)
	h.say("three", nil)
	<-e.works
	h.others.set(func(o *others) { o.stay = nil })
	h.HandOver(t.Context())
	if st := h.staying(); !st.Goes || st.Why != "the end of its turn" || h.others.gave() != 0 {
		t.Errorf("while a turn works: %+v, %v", st, h.others.gave())
	}
	close(e.goOn)
	h.eventually("it goes", func() bool { return h.others.gave() > 0 })
	h.heard("one")
	n := h.next()
	n.answered(3)
	h.heard("one", "two", "three")
	if got := n.talk(); got.Turns[2].Outcome != api.OutcomeAnswered || got.Owner != n.others.me {
		t.Errorf("%+v", got)
	}
}

// TestHandOverRefused: a session that cannot go says why, and answers where it is.
func TestHandOverRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		set    words.Settings
		change func(*others)
		why    string
	}{
		"not in the archive":         {words.Settings{}, func(o *others) { o.stored = "another copy" }, "its files are not in the archive"},
		"no node takes it":           {words.Settings{}, func(o *others) { o.fails = errors.New("they have ended") }, "they have ended"},
		"files of the machine":       {words.Settings{}, func(o *others) { o.stay = errors.New("its repository is a path of this machine") }, "its repository is a path of this machine"},
		"an agent that is a program": {words.Settings{Agent: "codex"}, nil, "its agent is a program, whose conversation is on this node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, openRows(t), &engine{tasks: map[api.TaskID]api.Task{}})
			h.say("one", &tt.set)
			h.answered(1)
			h.others.set(func(o *others) {
				if o.stay = nil; tt.change != nil {
					tt.change(o)
				}
			})
			h.HandOver(t.Context())
			if st := h.staying(); st.Goes || st.Why != tt.why {
				t.Errorf("%+v", st)
			}
			h.say("two", nil)
			h.answered(2)
			h.heard("one", "two")
		})
	}
}

// TestAfterMove: a session goes with its checkpoints. On the other node it is taken back and forked at once, from those that the archive has; the others say where they are. A turn that
// ends before its files came leaves them as they are, and a session that is closed leaves nothing.
func TestAfterMove(t *testing.T) {
	ctx := t.Context()
	h := newHost(t, openRows(t), &engine{tasks: map[api.TaskID]api.Task{}})
	for n, text := range []string{"one", "two"} {
		h.say(text, &words.Settings{})
		h.answered(n + 1)
	}
	h.others.set(func(o *others) { o.stay = nil })
	h.HandOver(ctx)
	if want := []api.WorkspaceID{"copy of one", "copy of two"}; !slices.Equal(h.others.copies, want) {
		t.Errorf("the checkpoints %q go, want %q", h.others.copies, want)
	}
	n := h.next()
	n.waits.away, n.waits.stored = true, map[api.WorkspaceID]bool{"copy of two": true}
	for what, do := range map[string]func(turn int, key string) error{
		"restore": func(turn int, _ string) error {
			_, err := n.Restore(ctx, "", "talk", words.Restore{Turn: turn})
			return err
		},
		"fork": func(turn int, key string) error {
			_, err := n.Fork(ctx, "", "talk", words.Fork{Turn: turn, Key: key})
			return err
		},
	} {
		err := do(1, "of-one")
		if want := "turn 1 of session talk: its files are on the disk of node b"; api.KindOf(err) != api.KindUnavailable || err.Error() != want || api.HintOf(err) != "start it" {
			t.Errorf("%s turn 1: %v, want %s", what, err, want)
		}
		if err := do(2, "of-two"); err != nil {
			t.Errorf("%s turn 2: %v", what, err)
		}
	}
	if s := n.talk(); s.At != 2 || s.Workspace != "copy of copy of two" {
		t.Errorf("it is at turn %d, in workspace %s", s.At, s.Workspace)
	}
	n.engine.fails = true
	n.say("three", nil)
	n.answered(3)
	if s := n.talk(); !s.Turns[2].Checkpoint || s.Turns[2].Changed {
		t.Errorf("the turn that ended before its files came: %+v", s.Turns[2])
	}
	n.waits.gone = nil
	if _, err := n.Remove(ctx, "", "talk"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(n.waits.gone)
	if want := []api.WorkspaceID{"copy of copy of two", "copy of copy of two", "copy of one", "copy of two"}; !slices.Equal(slices.Compact(n.waits.gone), slices.Compact(want)) {
		t.Errorf("it leaves all but %q", n.waits.gone)
	}
}

// untilAnswer are the rows of a node that dies when the end of a turn is stored: nothing is stored afterwards.
type untilAnswer struct {
	*database.DB
	dead atomic.Bool
}

func (d *untilAnswer) UpdateSession(ctx context.Context, owner api.OwnerID, row store.Session, turns ...store.SessionTurn) error {
	if d.dead.Load() {
		return api.Errorf(api.KindUnavailable, "the node is dead")
	}
	for _, turn := range turns {
		if bytes.Contains(turn.Doc, []byte(`"state":"done"`)) {
			d.dead.Store(true)
		}
	}
	return d.DB.UpdateSession(ctx, owner, row, turns...)
}

// TestDeadAfterAnswer: a node that dies just after the end of a turn was stored leaves a session on which nobody works. On the other node it is taken back at once, and closed
// when its time is over.
func TestDeadAfterAnswer(t *testing.T) {
	ctx, db := t.Context(), openRows(t)
	e := &engine{tasks: map[api.TaskID]api.Task{}}
	h := newHost(t, db, e, func(c *Config) { c.Rows = &untilAnswer{DB: db} })
	h.say("one", &words.Settings{})
	h.answered(1)
	later := time.Now()
	n := newHost(t, db, e, func(c *Config) { c.Now = func() time.Time { return later } })
	if found, err := n.TakeOver(ctx, func(o api.OwnerID) bool { return o == h.others.me }); err != nil || found != 1 {
		t.Fatal(found, err)
	}
	if s, err := n.Restore(ctx, "", "talk", words.Restore{Turn: 1}); err != nil || s.At != 1 {
		t.Errorf("restore: %v, at turn %d", err, s.At)
	}
	later = n.talk().ExpiresAt.Add(time.Second)
	if closed := n.Expire(ctx); closed != 1 {
		t.Errorf("%d sessions are closed after their time, want 1", closed)
	}
}

// TestLeave: a turn whose task was left by the engine runs on in the next daemon, and is said once. A message that waited follows. One whose task ended in time has
// its end.
func TestLeave(t *testing.T) {
	for _, ends := range []bool{false, true} {
		db := openRows(t)
		e := &engine{tasks: map[api.TaskID]api.Task{}, slow: true, works: make(chan struct{}), goOn: make(chan struct{})}
		h := newHost(t, db, e, func(c *Config) { c.Elsewhere = nil })
		h.say("one", &words.Settings{})
		<-e.works
		h.say("two", nil)
		h.Leave()
		if _, err := h.Send(t.Context(), "", "talk", words.Message{Text: "three"}); api.KindOf(err) != api.KindUnavailable {
			t.Errorf("a message to a daemon that stops: %v", err)
		}
		if ends {
			e.end()
		}
		e.goOn <- struct{}{}
		<-e.works // it waits for the engine
		e.goOn <- struct{}{}
		must(t, h.Close(t.Context()))
		want := map[bool]words.TurnState{false: words.TurnRunning, true: words.TurnDone}[ends]
		if turns := h.talk().Turns; turns[0].State != want || turns[0].Error != nil || turns[1].State != words.TurnQueued {
			t.Errorf("ends %v: the turns are %s (%v) and %s", ends, turns[0].State, turns[0].Error, turns[1].State)
		}

		e.end()
		e.works = nil
		next := newHost(t, db, e, func(c *Config) { c.Elsewhere = nil })
		if n, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == h.others.me }); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		next.eventually("both are answered", func() bool { return next.talk().Turns[1].State == words.TurnDone })
		if turns := next.talk().Turns; turns[0].Outcome != api.OutcomeAnswered || turns[1].Outcome != api.OutcomeAnswered || !slices.Equal(e.said, []string{"one", "two"}) {
			t.Errorf("ends %v: %s and %s, said %q", ends, turns[0].Outcome, turns[1].Outcome, e.said)
		}
	}
}
