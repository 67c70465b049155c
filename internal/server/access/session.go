package access

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// Talks is what keeps and runs sessions, each by its account and its key.
type Talks interface {
	Create(ctx context.Context, account string, req session.Create) (session.Session, error)
	Send(ctx context.Context, account, key string, m session.Message) (session.Turn, error)
	Get(ctx context.Context, account, key string) (session.Session, error)
	List(ctx context.Context, account string, all bool, limit int) ([]session.Session, error)
	Cancel(ctx context.Context, account, key string, req session.Cancel) (session.Session, error)
	Restore(ctx context.Context, account, key string, req session.Restore) (session.Session, error)
	Fork(ctx context.Context, account, key string, req session.Fork) (session.Session, error)
	Remove(ctx context.Context, account, key string) (session.Session, error)
	AccountOf(ctx context.Context, id api.SessionID) (string, error)
}

// Sessions guards sessions. Everybody has those of the own account and no others, operators too: a key is one of an account.
type Sessions struct {
	t     Talks
	tasks *Tasks
}

// NewSessions guards sessions, whose turns are subject to what is checked of tasks.
func NewSessions(t Talks, tasks *Tasks) *Sessions { return &Sessions{t, tasks} }

// may refuses settings that are not for this caller: those of a session that begins with check, of another one with checkAgain.
func (s *Sessions) may(ctx context.Context, p api.Principal, set session.Settings, check func(context.Context, api.Principal, api.CreateTask) error) error {
	create := api.CreateTask{Model: set.Model, Models: api.Models{Large: set.LargeModel}, Sandbox: set.Sandbox}
	if set.Repository != "" {
		create.Repo = &api.RepoTask{URL: set.Repository, Remote: set.Remote}
	}
	return check(ctx, p, create)
}

// Create makes a session of the caller's account.
func (s *Sessions) Create(ctx context.Context, req session.Create) (session.Session, error) {
	p, err := caller(ctx)
	if err == nil {
		err = s.may(ctx, p, req.Settings, s.tasks.check)
	}
	if err == nil {
		err = s.tasks.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (session.Session, error) { return s.t.Create(ctx, p.Account, req) })
}

// Send says something to a session of the caller's account, with the rights that its settings take.
func (s *Sessions) Send(ctx context.Context, key string, m session.Message) (session.Turn, error) {
	p, err := caller(ctx)
	if err != nil {
		return session.Turn{}, err
	}
	have, err := s.t.Get(ctx, p.Account, key)
	set, check := have.Settings, s.tasks.checkAgain
	if api.KindOf(err) == api.KindNotFound && m.Create != nil {
		set, check, err = *m.Create, s.tasks.check, nil
	}
	if err == nil {
		err = s.may(ctx, p, set, check)
	}
	if err == nil {
		err = s.tasks.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (session.Turn, error) { return s.t.Send(ctx, p.Account, key, m) })
}

// Get returns a session of the caller's account.
func (s *Sessions) Get(ctx context.Context, key string) (session.Session, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() (session.Session, error) { return s.t.Get(ctx, p.Account, key) })
}

// List lists the sessions of the caller's account.
func (s *Sessions) List(ctx context.Context, all bool, limit int) ([]session.Session, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() ([]session.Session, error) { return s.t.List(ctx, p.Account, all, limit) })
}

// Cancel stops the turn of a session.
func (s *Sessions) Cancel(ctx context.Context, key string, req session.Cancel) (session.Session, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() (session.Session, error) { return s.t.Cancel(ctx, p.Account, key, req) })
}

// Restore takes a session back.
func (s *Sessions) Restore(ctx context.Context, key string, req session.Restore) (session.Session, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() (session.Session, error) { return s.t.Restore(ctx, p.Account, key, req) })
}

// Fork makes another session of the caller's account, with the rights that creating it takes.
func (s *Sessions) Fork(ctx context.Context, key string, req session.Fork) (session.Session, error) {
	p, err := caller(ctx)
	if err != nil {
		return session.Session{}, err
	}
	have, err := s.t.Get(ctx, p.Account, key)
	if err == nil {
		err = s.may(ctx, p, have.Settings, s.tasks.checkAgain)
	}
	if err == nil {
		err = s.tasks.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (session.Session, error) { return s.t.Fork(ctx, p.Account, key, req) })
}

// Remove closes a session.
func (s *Sessions) Remove(ctx context.Context, key string) (session.Session, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() (session.Session, error) { return s.t.Remove(ctx, p.Account, key) })
}

// mine refuses a session of another account.
func (s *Sessions) mine(ctx context.Context, p api.Principal, id api.SessionID) error {
	account, err := s.t.AccountOf(ctx, id)
	if err == nil && !p.May(account) {
		err = notFound("session", string(id))
	}
	return err
}
