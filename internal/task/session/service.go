package session

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task"
)

// Engine runs the turns.
type Engine interface {
	CheckTurn(ctx context.Context, create api.CreateTask) (api.CreateTask, error)
	StartTurn(ctx context.Context, t task.Turn) (api.Task, error)
	Wait(ctx context.Context, id api.TaskID) (api.Task, error)
	Cancel(ctx context.Context, id api.TaskID) (api.Task, error)
}

// Sandboxes keeps sandboxes and copies of workspaces; see sandboxes.Sessions.
type Sandboxes interface {
	Stays(id api.SessionID, warm, paused time.Duration)
	State(id api.SessionID) (words.State, api.SandboxID)
	Drop(ctx context.Context, id api.SessionID) (api.Proof, error)
	// CopyIdle copies a workspace that nobody has, for a session.
	CopyIdle(ctx context.Context, id api.SessionID, ws api.WorkspaceID) (api.WorkspaceID, error)
	// CopyCheckpoint is CopyIdle for a checkpoint, which may have been made on another node. beside is the directory with what came with it from there; empty if
	// nothing did.
	CopyCheckpoint(ctx context.Context, account string, id api.SessionID, ws api.WorkspaceID) (copied api.WorkspaceID, beside string, err error)
	Discard(ctx context.Context, ws api.WorkspaceID)
	Sweep(ctx context.Context, id api.SessionID, keep map[api.WorkspaceID]bool) error
}

// Log takes facts.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Config is what a Service is made of. All fields are required but Room, Elsewhere, Now and Logger.
type Config struct {
	Rows      store.Sessions
	Engine    Engine
	Sandboxes Sandboxes
	Log       Log
	// Dir holds a folder for each session, and the empty repository. TaskDir holds the folders of tasks.
	Dir, TaskDir string
	// Room refuses bytes that the disk has no space for, or that an account may not store; nil refuses none.
	Room  func(ctx context.Context, account, what string, need int64) error
	Owner api.OwnerID
	// Elsewhere has sessions continue on other nodes; nil if there are none.
	Elsewhere Elsewhere
	Now       func() time.Time
	Logger    *slog.Logger
}

// Service runs sessions. Its methods may be called from several goroutines.
type Service struct {
	cfg   Config
	files files
	locks perkey.Locks
	work  sync.WaitGroup
	// life ends with Close.
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	closed  bool
	workers map[api.SessionID]*worker
	stays   map[api.SessionID]string // why sessions could not be handed over
}

// sweepEvery is how often sessions are looked for that were not used for long, and keepClosed how long a closed one is listed.
const (
	sweepEvery = time.Minute
	keepClosed = 7 * 24 * time.Hour
	// storeTime bounds what ends a turn.
	storeTime = time.Minute
)

// New makes a Service. [Service.Close] ends it.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, files: files{cfg.Dir, cfg.TaskDir, cfg.Logger}, workers: map[api.SessionID]*worker{}, stays: map[api.SessionID]string{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.work.Go(s.keep)
	return s
}

// room refuses bytes of a session that an account may not store.
func (s *Service) room(ctx context.Context, account, key string, need int) error {
	if s.cfg.Room == nil {
		return nil
	}
	return s.cfg.Room(ctx, account, "session "+key, int64(need))
}

// Leave refuses messages, begins no turn any more, and leaves a turn that runs, whose task the engine has to leave or to end then, to the next daemon.
func (s *Service) Leave() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
}

// Close is Leave, and waits for the turns that run.
func (s *Service) Close(ctx context.Context) error {
	s.Leave()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindTimeout, "timeout: turns of sessions did not end")
	}
}

// record is the document of a session: what is shown of it, and what is not.
type record struct {
	words.Session
	// AgentSession is what the agent called the conversation in the last turn.
	AgentSession string `json:"agentSession,omitempty"`
}

// turn is the document of a turn.
type turn struct {
	words.Turn
	// By said it: the work is done on behalf of that principal.
	By api.Principal `json:"by"`
	// After is the turn that it continues; 0 for none.
	After int `json:"after,omitempty"`
	// Copy is the checkpoint.
	Copy         api.WorkspaceID `json:"copy,omitempty"`
	AgentSession string          `json:"agentSession,omitempty"`
}

// openSession is a session with its turns, while its lock is held.
type openSession struct {
	record
	turns []turn
	// changed are the turns that are stored next.
	changed map[int]bool
	facts   []fact
}

// fact is an event that is reported when what it says is stored.
type fact struct {
	what api.EventType
	data any
}

func (o *openSession) tell(what api.EventType, data any) { o.facts = append(o.facts, fact{what, data}) }

// touch returns a turn that is changed.
func (o *openSession) touch(n int) *turn {
	if o.changed == nil {
		o.changed = map[int]bool{}
	}
	o.changed[n] = true
	return &o.turns[n-1]
}

// move changes the state.
func (o *openSession) move(m move, reason string) error {
	to, ok := next(o.State, m)
	if !ok {
		return api.Errorf(api.KindConflict, "session %s is %s; %s is not possible", o.Key, o.State, m)
	}
	if to != o.State {
		o.State = to
		o.tell(words.EventState, words.StateEvent{State: to, Reason: reason})
	}
	return nil
}

// move is what changes the state of a session.
type move string

const (
	begins  move = "a turn begins"
	kept    move = "its turn has ended, and the sandbox stays"
	ends    move = "its turn has ended with the sandbox"
	pauses  move = "the sandbox is paused"
	drops   move = "the sandbox is ended"
	rewinds move = "it is taken back"
	closes  move = "it is closed"
)

// moves are the states that follow, by the move and the state. What is not there is refused.
func moves() map[move]map[words.State]words.State {
	return map[move]map[words.State]words.State{
		begins:  {words.Stored: words.Running, words.Warm: words.Running, words.Paused: words.Running},
		kept:    {words.Running: words.Warm},
		ends:    {words.Running: words.Stored},
		pauses:  {words.Warm: words.Paused},
		drops:   {words.Warm: words.Stored, words.Paused: words.Stored, words.Stored: words.Stored},
		rewinds: {words.Warm: words.Stored, words.Paused: words.Stored, words.Stored: words.Stored},
		closes:  {words.Stored: words.Closed, words.Warm: words.Closed, words.Paused: words.Closed},
	}
}

// next returns the state that follows; false if the move is refused.
func next(from words.State, m move) (words.State, bool) {
	to, ok := moves()[m][from]
	return to, ok
}

// row is the session as it is stored.
func (o *openSession) row() (r store.Session, turns []store.SessionTurn, err error) {
	rec := o.record
	rec.Turns = nil
	r = store.Session{ID: o.ID, Account: o.Account, Key: o.Key, Owner: o.Owner, Closed: o.State == words.Closed, CreatedAt: o.CreatedAt, EndedAt: o.EndedAt}
	if r.Doc, err = json.Marshal(rec); err != nil {
		return r, nil, api.Errorf(api.KindInternal, "session %s: %w", o.Key, err)
	}
	for n := range o.changed {
		doc, err := json.Marshal(o.turns[n-1])
		if err != nil {
			return r, nil, api.Errorf(api.KindInternal, "turn %d of session %s: %w", n, o.Key, err)
		}
		turns = append(turns, store.SessionTurn{N: n, Doc: doc})
	}
	return r, turns, nil
}

// read decodes a session without its turns.
func read(r store.Session) (o *openSession, err error) {
	o = &openSession{}
	if err := json.Unmarshal(r.Doc, &o.record); err != nil {
		return nil, api.Errorf(api.KindInternal, "the row of session %s: %w", r.ID, err)
	}
	o.ID, o.Account, o.Key, o.Owner, o.EndedAt = r.ID, r.Account, r.Key, r.Owner, r.EndedAt
	return o, nil
}

// load reads a session with its turns.
func (s *Service) load(ctx context.Context, r store.Session) (*openSession, error) {
	o, err := read(r)
	if err != nil {
		return nil, err
	}
	rows, err := s.cfg.Rows.SessionTurns(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		var t turn
		if err := json.Unmarshal(row.Doc, &t); err != nil || row.N != i+1 {
			return nil, api.Errorf(api.KindInternal, "turn %d of session %s is damaged: %w", row.N, o.Key, err)
		}
		o.turns = append(o.turns, t)
	}
	return o, nil
}

// save stores what was changed, and then tells it.
func (s *Service) save(ctx context.Context, o *openSession) error {
	ctx = context.WithoutCancel(ctx)
	r, turns, err := o.row()
	if err == nil {
		err = s.cfg.Rows.UpdateSession(ctx, s.cfg.Owner, r, turns...)
	}
	if err != nil {
		return err
	}
	o.changed = nil
	s.tellAll(ctx, o)
	return nil
}

// tellAll appends the facts of a session to its log.
func (s *Service) tellAll(ctx context.Context, o *openSession) {
	for _, f := range o.facts {
		if _, err := s.cfg.Log.Append(ctx, stream(o.ID), f.what, f.data); err != nil {
			s.cfg.Logger.Error("append event", "session", o.ID, "type", string(f.what), "err", err)
		}
	}
	o.facts = nil
}

func stream(id api.SessionID) api.Stream { return api.Stream{Kind: words.Stream, ID: string(id)} }

// with calls f with a session whose lock is held, unless another node has it. What f changed it has to save.
func (s *Service) with(ctx context.Context, id api.SessionID, f func(*openSession) error) error {
	return s.locked(ctx, id, func(o *openSession) error {
		if err := s.elsewhere(o); err != nil {
			return err
		}
		return f(o)
	})
}

// locked is with for the session of any owner.
func (s *Service) locked(ctx context.Context, id api.SessionID, f func(*openSession) error) error {
	unlock, err := s.locks.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	r, err := s.cfg.Rows.Session(ctx, id)
	if err != nil {
		return err
	}
	o, err := s.load(ctx, r)
	if err != nil {
		return err
	}
	if o.State == words.Closed {
		return api.Errorf(api.KindNotFound, "session %.64q is closed", o.Key)
	}
	return f(o)
}

// open is with for the session of an account with a key.
func (s *Service) open(ctx context.Context, account, key string, f func(*openSession) error) error {
	r, err := s.find(ctx, account, key)
	if err != nil {
		return err
	}
	return s.with(ctx, r.ID, f)
}

func (s *Service) find(ctx context.Context, account, key string) (store.Session, error) {
	if err := words.CheckKey(key); err != nil {
		return store.Session{}, err
	}
	r, err := s.cfg.Rows.SessionByKey(ctx, account, key)
	if api.KindOf(err) == api.KindNotFound {
		err = api.Errorf(api.KindNotFound, "unknown session %.64q", key).WithHint("list them: hortus session ls")
	}
	return r, err
}

// view is a session as callers see it, with what waits for its next turn.
func (s *Service) view(o *openSession) words.Session {
	v := o.Session
	v.Turns = nil
	for _, t := range o.turns {
		v.Turns = append(v.Turns, t.Turn)
	}
	if v.State == words.Warm || v.State == words.Paused {
		_, v.Sandbox = s.cfg.Sandboxes.State(o.ID)
	}
	return v
}

// Get returns the session of an account with a key, with its turns. Closed ones are not found.
func (s *Service) Get(ctx context.Context, account, key string) (words.Session, error) {
	r, err := s.find(ctx, account, key)
	if err != nil {
		return words.Session{}, err
	}
	o, err := s.load(ctx, r)
	if err != nil {
		return words.Session{}, err
	}
	return s.view(o), nil
}

// List returns the sessions of an account without their turns, the newest first, at most limit; closed ones too if all is set.
func (s *Service) List(ctx context.Context, account string, all bool, limit int) ([]words.Session, error) {
	rows, err := s.cfg.Rows.SessionsOf(ctx, account, all, limit)
	if err != nil {
		return nil, err
	}
	out := []words.Session{}
	for _, r := range rows {
		o, err := read(r)
		if err != nil {
			return nil, err
		}
		out = append(out, s.view(o))
	}
	return out, nil
}

// AccountOf returns the account of a session, closed or not.
func (s *Service) AccountOf(ctx context.Context, id api.SessionID) (string, error) {
	r, err := s.cfg.Rows.Session(ctx, id)
	return r.Account, err
}
