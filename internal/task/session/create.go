package session

import (
	"bytes"
	"context"
	"encoding/json"

	"hortus.dev/api"
	words "hortus.dev/api/session"
)

// nobody is the author of commits if none is named.
var nobody = api.Identity{Name: "Hortus", Email: "hortus@hortus.dev"}

// request is the task that a turn of a session is.
func (s *Service) request(set words.Settings, text string, by api.Principal) (api.CreateTask, error) {
	repo := &api.RepoTask{
		URL: set.Repository, Ref: set.Ref, Verify: set.Verify, Agent: set.Agent, Budget: set.Budget, Rounds: set.Rounds,
		Author: set.Author, NoSetup: set.NoSetup,
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
	t := turn{By: api.PrincipalOf(ctx)}
	t.N, t.State, t.Text, t.Mode, t.CreatedAt = len(o.turns)+1, words.TurnQueued, m.Text, m.Mode, s.cfg.Now().UTC()
	o.turns = append(o.turns, t)
	o.touch(t.N)
	o.used(s.cfg.Now())
	o.TurnCount, o.Waiting = len(o.turns), true
	o.tell(words.EventMessage, t.Turn)
	if err := s.save(ctx, o); err != nil {
		return words.Turn{}, err
	}
	s.begin(o.ID, m.Mode == words.Interrupt)
	return t.Turn, nil
}
