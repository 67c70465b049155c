package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/repo"
)

// nobody is the author of commits if none is named.
var nobody = api.Identity{Name: "Hortus", Email: "hortus@hortus.dev"}

// request is the task that a turn of a session is.
func (s *Service) request(set words.Settings, text string, by api.Principal) (api.CreateTask, error) {
	repo := &api.RepoTask{
		URL: set.Repository, Ref: set.Ref, Verify: set.Verify, Agent: set.Agent, Budget: set.Budget, Rounds: set.Rounds,
		Author: set.Author, NoSetup: set.NoSetup,
		Push: set.Push || set.MergeRequest, MergeRequest: set.MergeRequest, Remote: set.Remote, Target: set.Target, Draft: set.Draft,
	}
	if repo.Author == (api.Identity{}) {
		repo.Author = nobody
	}
	if repo.URL == "" {
		url, err := s.files.emptyRepository()
		if err != nil {
			return api.CreateTask{}, err
		}
		repo.URL, repo.NoSetup = url, true
	}
	create := api.CreateTask{Request: text, Model: set.Model, Models: api.Models{Large: set.LargeModel}, RunTimeoutMS: set.GateTimeoutMS, Sandbox: set.Sandbox, Repo: repo}
	create.Sandbox.Account, create.Sandbox.Key = by.Account, by.Key
	return create, nil
}

// made returns a new session that is not stored.
func (s *Service) made(ctx context.Context, account, key string, set words.Settings) (*openSession, error) {
	if err := words.CheckKey(key); err != nil {
		return nil, err
	}
	if err := set.Check(); err != nil {
		return nil, err
	}
	if err := s.room(ctx, account, key, 0); err != nil {
		return nil, err
	}
	create, err := s.request(set, "check", api.PrincipalOf(ctx))
	if err != nil {
		return nil, err
	}
	if _, err := s.cfg.Engine.CheckTurn(ctx, create); err != nil {
		return nil, err
	}
	now := s.cfg.Now().UTC()
	o := &openSession{}
	o.Session = words.Session{
		ID: api.NewSessionID(), Key: key, State: words.Stored, Account: account, Settings: set,
		CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(set.TTL()), Owner: s.cfg.Owner,
	}
	o.tell(words.EventCreated, o.Session)
	return o, nil
}

// insert stores a new session.
func (s *Service) insert(ctx context.Context, o *openSession) error {
	ctx = context.WithoutCancel(ctx)
	r, turns, err := o.row()
	if err == nil {
		err = s.cfg.Rows.InsertSession(ctx, r, words.MaxSessions, turns...)
	}
	if api.KindOf(err) == api.KindExists {
		err = api.Errorf(api.KindExists, "there is a session %.64q", o.Key).WithHint("use another key, or close it: hortus session close %s", o.Key)
	}
	if err != nil {
		return err
	}
	o.changed = nil
	s.tellAll(ctx, o)
	return nil
}

// Create makes a session without a message.
func (s *Service) Create(ctx context.Context, account string, req words.Create) (words.Session, error) {
	if err := s.serving(); err != nil {
		return words.Session{}, err
	}
	o, err := s.made(ctx, account, req.Key, req.Settings)
	if err == nil {
		err = s.insert(ctx, o)
	}
	if err != nil {
		return words.Session{}, err
	}
	return s.view(o), nil
}

// serving refuses what begins after Close.
func (s *Service) serving() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return api.Errorf(api.KindUnavailable, "the sessions are closed").WithHint("Run the command again; a new daemon starts automatically.")
	}
	return nil
}

// same reports whether two settings say the same.
func same(a, b words.Settings) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

// Send says something to a session, and makes it if the message says how and there is none. It returns the turn, which waits or
// begins. KindExhausted if too many messages wait.
func (s *Service) Send(ctx context.Context, account, key string, m words.Message) (words.Turn, error) {
	if err := m.Check(); err != nil {
		return words.Turn{}, err
	}
	if err := s.serving(); err != nil {
		return words.Turn{}, err
	}
	r, err := s.find(ctx, account, key)
	id := r.ID
	if api.KindOf(err) == api.KindNotFound && m.Create != nil {
		var o *openSession
		if o, err = s.made(ctx, account, key, *m.Create); err == nil {
			id, err = o.ID, s.insert(ctx, o)
		}
		if api.KindOf(err) == api.KindExists { // another message was faster
			r, err = s.find(ctx, account, key)
			id = r.ID
		}
	}
	if err != nil {
		if api.KindOf(err) == api.KindNotFound {
			err = api.Errorf(api.KindNotFound, "unknown session %.64q", key).WithHint(`give what makes it: the field create, or in the command line any setting`)
		}
		return words.Turn{}, err
	}
	var out words.Turn
	err = s.with(ctx, id, func(o *openSession) (err error) {
		if m.Create != nil && !same(*m.Create, o.Settings) {
			return api.Errorf(api.KindConflict, "session %s has other settings, which do not change", o.Key).
				WithHint("omit the settings, or use another key: hortus session show %s", o.Key)
		}
		out, err = s.queue(ctx, o, m)
		return err
	})
	return out, err
}

// queue adds a message to those that wait.
func (s *Service) queue(ctx context.Context, o *openSession, m words.Message) (words.Turn, error) {
	waiting := 0
	for _, t := range o.turns {
		if t.State == words.TurnQueued {
			waiting++
		}
	}
	switch {
	case waiting >= words.MaxQueue:
		return words.Turn{}, api.Errorf(api.KindExhausted, "%d messages wait for session %s, which is the maximum", waiting, o.Key).
			WithHint("wait for its turns, or remove them: hortus session cancel %s --queued", o.Key)
	case len(o.turns) >= words.MaxTurns:
		return words.Turn{}, api.Errorf(api.KindExhausted, "session %s has %d turns, which is the maximum", o.Key, len(o.turns)).
			WithHint("continue in a fork: hortus session fork %s NEWKEY", o.Key)
	}
	if err := s.room(ctx, o.Account, o.Key, len(m.Text)); err != nil {
		return words.Turn{}, err
	}
	t := turn{By: api.PrincipalOf(ctx)}
	t.N, t.State, t.Text, t.Mode, t.CreatedAt = len(o.turns)+1, words.TurnQueued, m.Text, m.Mode, s.cfg.Now().UTC()
	o.turns = append(o.turns, t)
	o.touch(t.N)
	o.used(s.cfg.Now())
	o.TurnCount = len(o.turns)
	o.tell(words.EventMessage, t.Turn)
	if err := s.save(ctx, o); err != nil {
		return words.Turn{}, err
	}
	s.begin(o.ID, m.Mode == words.Interrupt)
	return t.Turn, nil
}

// worker says the messages of one session, one after the other.
type worker struct {
	mu   sync.Mutex
	stop context.CancelFunc // of the turn that runs; nil if none does
	done chan struct{}
}

// used notes that the session is used.
func (o *openSession) used(now time.Time) {
	o.UsedAt = now.UTC()
	o.ExpiresAt = o.UsedAt.Add(o.Settings.TTL())
}

// begin has a goroutine say what waits, if none does already. The lock of the session is held.
func (s *Service) begin(id api.SessionID, interrupt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[id]; w != nil {
		if interrupt {
			w.interrupt()
		}
		return
	}
	if s.closed {
		return
	}
	w := &worker{done: make(chan struct{})}
	s.workers[id] = w
	s.work.Go(func() {
		defer close(w.done)
		s.say(id, w)
	})
}

// interrupt cancels the turn that runs.
func (w *worker) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
}

// stops sets what cancels the turn that runs.
func (w *worker) stops(stop context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop = stop
}

// running returns the worker of a session; nil if it has none.
func (s *Service) running(id api.SessionID) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[id]
}

// say says what waits, until nothing does or the service ends.
func (s *Service) say(id api.SessionID, w *worker) {
	for {
		s.awaitStored(s.life, id)
		ctx, stop := context.WithCancel(s.life)
		p, ok := s.pick(id, w, stop)
		if ok {
			s.turn(ctx, id, p)
		}
		w.stops(nil)
		stop()
		if !ok {
			return
		}
	}
}

// nextTurn is a turn that is about to run.
type nextTurn struct {
	turn     turn
	session  words.Session
	past     []string
	copied   api.WorkspaceID // the checkpoint of the turn before; empty for none
	requests []string
	agent    string
	settings words.Settings
}

// pick marks the turn that is next as running: one that was running when a daemon died, a message that interrupts, or the oldest. If
// there is none, the worker is gone when pick returns. From then on stop cancels the turn.
func (s *Service) pick(id api.SessionID, w *worker, stop context.CancelFunc) (p nextTurn, ok bool) {
	err := s.with(context.Background(), id, func(o *openSession) error {
		n := o.first()
		if n == 0 || s.life.Err() != nil {
			s.mu.Lock()
			delete(s.workers, id)
			s.mu.Unlock()
			return nil
		}
		if o.State != words.Running && s.left(s.life, o) {
			s.mu.Lock()
			delete(s.workers, id)
			s.mu.Unlock()
			return nil
		}
		if err := s.files.makeDir(id); err != nil {
			return err
		}
		t := o.touch(n)
		if t.State == words.TurnQueued {
			t.State, t.Task, t.After, t.StartedAt = words.TurnRunning, api.NewTaskID(), o.At, s.cfg.Now().UTC()
			o.tell(words.EventTurn, t.Turn)
		}
		if o.State != words.Running {
			if err := o.move(begins, ""); err != nil {
				return err
			}
		}
		var requests []string
		for _, was := range o.conversation(t.After) {
			requests = append(requests, was.Text)
		}
		if t.After > 0 {
			p.copied = o.turns[t.After-1].Copy
		}
		p = nextTurn{copied: p.copied, requests: append(requests, t.Text), turn: *t, session: o.Session, past: s.files.transcripts(o), agent: o.AgentSession, settings: o.Settings}
		ok = true
		w.stops(stop)
		return s.save(s.life, o)
	})
	if err != nil {
		s.cfg.Logger.Error("a session cannot continue", "session", id, "err", err)
		s.mu.Lock()
		delete(s.workers, id)
		s.mu.Unlock()
		return p, false
	}
	return p, ok
}

// first is the number of the turn that is next; 0 for none.
func (o *openSession) first() int {
	next := 0
	for _, t := range o.turns {
		switch {
		case t.State == words.TurnRunning:
			return t.N
		case t.State != words.TurnQueued:
		case next == 0, t.Mode == words.Interrupt && o.turns[next-1].Mode != words.Interrupt:
			next = t.N
		}
	}
	return next
}

// turn runs one turn to its end, and stores that.
func (s *Service) turn(ctx context.Context, id api.SessionID, p nextTurn) {
	t, err := s.run(ctx, p)
	if s.life.Err() != nil && (err != nil || t.State != api.TaskDone) {
		return // it runs, and the next daemon waits for its end
	}
	late, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if serr := s.with(late, id, func(o *openSession) error { return s.ended(late, o, p.turn.N, t, err) }); serr != nil {
		s.cfg.Logger.Error("store the end of a turn", "session", id, "turn", p.turn.N, "err", serr)
	}
}

// run has the engine run the turn. Its end is waited for whatever happens.
func (s *Service) run(ctx context.Context, p nextTurn) (api.Task, error) {
	by := api.WithPrincipal(context.WithoutCancel(ctx), p.turn.By)
	create, err := s.request(p.settings, p.turn.Text, p.turn.By)
	if err != nil {
		return api.Task{}, err
	}
	set := p.settings
	s.cfg.Sandboxes.Stays(p.session.ID, set.Warm(), set.Paused())
	t, err := s.cfg.Engine.StartTurn(by, task.Turn{ID: p.turn.Task, Create: create, Turn: repo.Turn{
		Session: p.session.ID, N: p.turn.N, Transcripts: p.past, Workspace: p.session.Workspace, Commit: p.session.Commit, Base: p.session.Base,
		Checkpoint: p.copied, Head: p.session.Head, AgentSession: p.agent, Requests: p.requests, Delivered: p.session.Delivery, Stays: set.Warm() > 0,
	}})
	if err != nil {
		return t, err
	}
	t, err = s.cfg.Engine.Wait(ctx, p.turn.Task)
	switch {
	case s.life.Err() != nil: // the engine leaves or ends it
		return s.cfg.Engine.Wait(by, p.turn.Task)
	case ctx.Err() != nil:
		t, err = s.cfg.Engine.Cancel(by, p.turn.Task)
	}
	if err == nil && t.State != api.TaskDone {
		err = api.Errorf(api.KindUnavailable, "the end of task %s was not stored", t.ID)
	}
	return t, err
}

// ended stores the end of a turn.
func (s *Service) ended(ctx context.Context, o *openSession, n int, done api.Task, err error) error {
	t := o.touch(n)
	t.State, t.EndedAt = words.TurnDone, s.cfg.Now().UTC()
	if err != nil {
		t.Outcome, t.Error = api.OutcomeFailed, api.AsError(err)
	} else {
		t.Outcome, t.Error, t.Receipt, t.Usage = done.Outcome, done.Error, done.Receipt, done.Usage
		t.Note = strings.TrimSpace(done.Diagnosis + " " + done.Question)
	}
	if r := done.Repo; r != nil {
		s.result(ctx, o, t, *r)
	}
	s.files.keepTranscript(o, *t)
	o.At = n
	o.used(s.cfg.Now())
	s.trim(ctx, o)
	state, sandbox := s.cfg.Sandboxes.State(o.ID)
	how := ends
	if state != words.Stored {
		how = kept
	}
	o.Sandbox = sandbox
	if err := o.move(how, ""); err != nil {
		return err
	}
	o.tell(words.EventAnswer, t.Turn)
	return s.save(ctx, o)
}

// result takes what a turn came to into its session.
func (s *Service) result(ctx context.Context, o *openSession, t *turn, r api.RepoResult) {
	t.Answer = clip(r.Summary, words.MaxAnswer)
	if t.Delivery = r.Delivery; t.Delivery != nil && t.Delivery.Pushed != "" {
		d := *t.Delivery
		d.Error, d.Refused = nil, nil
		o.Delivery = &d
	}
	t.AgentSession = r.AgentSession
	o.AgentSession = cmp.Or(r.AgentSession, o.AgentSession)
	if o.Workspace == "" && r.Workspace != "" {
		o.Workspace, o.Commit, o.Base = r.Workspace, r.Commit, r.Base
	}
	if o.Workspace == "" {
		return
	}
	if t.Copy = r.Checkpoint; t.Copy == "" {
		// Its daemon died in the middle, or it ended before its agent began.
		copied, err := s.cfg.Sandboxes.CopyIdle(ctx, o.ID, o.Workspace)
		if api.KindOf(err) == api.KindNotFound && t.After > 0 { // the files are still on another node, as the turn before left them
			copied, err = s.copyCheckpoint(ctx, o, o.ID, o.turns[t.After-1])
		}
		if err != nil {
			s.cfg.Logger.Warn("a turn has no checkpoint", "session", o.ID, "turn", t.N, "err", err)
			return
		}
		t.Copy, t.Head = copied, cmp.Or(r.Head, o.Head)
	} else {
		t.Head = r.Head
	}
	t.Changed = t.Head != o.Head
	o.Head, t.Checkpoint = t.Head, true
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " [truncated]"
}

// trim removes the oldest checkpoints above the maximum.
func (s *Service) trim(ctx context.Context, o *openSession) {
	have := 0
	for i := len(o.turns); i > 0; i-- {
		if o.turns[i-1].Copy == "" {
			continue
		}
		if have++; have > words.MaxCheckpoints {
			t := o.touch(i)
			s.cfg.Sandboxes.Discard(ctx, t.Copy)
			t.Copy, t.Checkpoint = "", false
		}
	}
}

// Cancel stops the turn that runs, waits for its end, and removes the messages that wait if that is asked for. With a turn it only
// removes that message, which must wait. It returns the session.
func (s *Service) Cancel(ctx context.Context, account, key string, req words.Cancel) (words.Session, error) {
	if req.Turn != 0 {
		return s.remove(ctx, account, key, req)
	}
	var id api.SessionID
	running := 0
	err := s.open(ctx, account, key, func(o *openSession) error {
		id = o.ID
		for _, t := range o.turns {
			switch {
			case t.State == words.TurnRunning:
				running = t.N
			case t.State == words.TurnQueued && req.Queued:
				s.removeTurn(o, t.N)
			}
		}
		if running > 0 {
			s.begin(o.ID, false) // if nobody waits for its end
		}
		if o.changed == nil {
			return nil
		}
		return s.save(ctx, o)
	})
	if err != nil {
		return words.Session{}, err
	}
	if err := s.stopTurn(ctx, id, running); err != nil {
		return words.Session{}, err
	}
	return s.Get(ctx, account, key)
}

// remove removes one message that waits.
func (s *Service) remove(ctx context.Context, account, key string, req words.Cancel) (words.Session, error) {
	if req.Queued {
		return words.Session{}, api.Errorf(api.KindInvalid, "turn and queued cannot both be set").WithHint("set turn to remove one message, queued to cancel the turn that runs and remove all messages")
	}
	err := s.open(ctx, account, key, func(o *openSession) error {
		if req.Turn < 1 || req.Turn > len(o.turns) {
			return api.Errorf(api.KindNotFound, "session %.60q has no turn %d", key, req.Turn).WithHint("hortus session show %s", key)
		}
		if t := o.turns[req.Turn-1]; t.State != words.TurnQueued {
			return api.Errorf(api.KindConflict, "turn %d of session %.60q is %s: only a message that waits is removed", req.Turn, key, t.State).WithHint("hortus session show %s", key)
		}
		s.removeTurn(o, req.Turn)
		return s.save(ctx, o)
	})
	if err != nil {
		return words.Session{}, err
	}
	return s.Get(ctx, account, key)
}

func (s *Service) removeTurn(o *openSession, n int) {
	t := o.touch(n)
	t.State, t.EndedAt = words.TurnRemoved, s.cfg.Now().UTC()
	o.tell(words.EventRemoved, t.Turn)
}

// stopTurn cancels a turn and waits until its end is stored.
func (s *Service) stopTurn(ctx context.Context, id api.SessionID, n int) error {
	for n > 0 {
		w := s.running(id)
		over := false
		err := s.with(ctx, id, func(o *openSession) error { over = o.turns[n-1].State != words.TurnRunning; return nil })
		if err != nil || over || w == nil {
			return err
		}
		w.interrupt()
		select {
		case <-w.done:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
