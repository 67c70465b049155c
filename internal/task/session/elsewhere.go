package session

import (
	"context"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/internal/task"
)

// Elsewhere are the other nodes of a fleet.
type Elsewhere interface {
	// Leaves returns nil if work for such a request is to continue on another node, or else why it is not.
	Leaves(ctx context.Context, account string, c api.CreateTask) error
	// Stored waits until what is to be stored of the files of a workspace is stored, or the archive fails. It reports whether another node can continue with those of a
	// checkpoint.
	Stored(ctx context.Context, ws, checkpoint api.WorkspaceID) bool
	// HandOver gives a session to another node, with its workspace if it has one, and those of its checkpoints that the archive has. After an error it is still here.
	HandOver(ctx context.Context, s words.Session, c api.CreateTask, checkpoints []api.WorkspaceID) error
}

const (
	// storedTime bounds how long a hand-over waits for the archive, and askTime how long it does so while messages wait.
	storedTime, askTime = 10 * time.Second, time.Second
	// onItsWay is how long it takes until another node has a session that was handed over to it.
	onItsWay = 2 * time.Second
)

// elsewhere is the error for a session of another owner; nil if it is this one's.
func (s *Service) elsewhere(o *openSession) error {
	if s.cfg.Elsewhere == nil || o.Owner == s.cfg.Owner {
		return nil
	}
	err := api.Errorf(api.KindUnavailable, "session %s is on its way to another node", o.Key).WithHint("try again in a few seconds")
	err.RetryAfterMS = onItsWay.Milliseconds()
	return err
}

// HandOver gives the sessions of this owner that wait for a message to other nodes, if that is wanted and the last turn is stored. One that works goes after its turn.
func (s *Service) HandOver(ctx context.Context) {
	all, err := s.own(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("hand sessions over to other nodes", "err", err)
	}
	for _, was := range all {
		if was.State == words.Running || s.running(was.ID) != nil {
			continue // its worker does it after the turn
		}
		s.awaitStored(ctx, was.ID)
		for again := true; again && ctx.Err() == nil; {
			again = false
			err := s.with(ctx, was.ID, func(o *openSession) error {
				if o.State != words.Running && s.running(o.ID) == nil {
					_, again = s.give(ctx, o)
				}
				return nil
			})
			if err != nil && ctx.Err() == nil && api.KindOf(err) != api.KindNotFound {
				s.cfg.Logger.Error("hand a session over to another node", "session", was.ID, "err", err)
			}
		}
	}
}

// left reports whether another node continues a session, whose lock is held, with the messages that wait.
func (s *Service) left(ctx context.Context, o *openSession) (left bool) {
	for again := s.cfg.Elsewhere != nil; again; {
		left, again = s.give(ctx, o)
	}
	return left
}

// awaitStored waits until the files of a session that is to leave are in the archive, while messages still come.
func (s *Service) awaitStored(ctx context.Context, id api.SessionID) {
	if s.cfg.Elsewhere == nil {
		return
	}
	r, err := s.cfg.Rows.Session(ctx, id)
	if err != nil {
		return
	}
	o, err := read(r)
	if err != nil || o.State == words.Running || o.Workspace == "" || s.leaves(ctx, o) != nil {
		return
	}
	timed, cancel := context.WithTimeout(ctx, storedTime)
	defer cancel()
	s.cfg.Elsewhere.Stored(timed, o.Workspace, "") // give asks again
}

// give hands a session over whose lock is held, and of which no turn runs. Its sandbox ends before: again is true if that was all, so that messages need not wait for it.
func (s *Service) give(ctx context.Context, o *openSession) (left, again bool) {
	if s.leaves(ctx, o) != nil {
		return false, false
	}
	var err error
	if o.Workspace != "" {
		timed, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		last := api.WorkspaceID("")
		if o.At > 0 {
			last = o.turns[o.At-1].Copy
		}
		if !s.cfg.Elsewhere.Stored(timed, o.Workspace, last) {
			err = api.Errorf(api.KindUnavailable, "its files are not in the archive")
		}
	}
	switch {
	case err != nil:
	case o.State == words.Warm || o.State == words.Paused:
		if _, err = s.cfg.Sandboxes.Drop(ctx, o.ID); err == nil {
			err = o.move(drops, "it continues on another node")
		}
		if o.Sandbox = ""; err == nil {
			err = s.save(ctx, o)
		}
		again = err == nil
	default:
		var checkpoints []api.WorkspaceID
		for _, t := range o.turns {
			if t.Copy != "" {
				checkpoints = append(checkpoints, t.Copy)
			}
		}
		err = s.cfg.Elsewhere.HandOver(ctx, o.Session, o.like(), checkpoints)
		left = err == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.stays, o.ID)
	} else {
		s.stays[o.ID] = err.Error()
	}
	return left, again
}

// leaves returns nil if a session is to continue on another node, or else why it is not.
func (s *Service) leaves(ctx context.Context, o *openSession) error {
	if task.External(o.like()) != "" {
		return api.Errorf(api.KindUnsupported, "its agent is a program, whose conversation is on this node")
	}
	return s.cfg.Elsewhere.Leaves(ctx, o.Account, o.like())
}

// like is a task such as the turns of a session are.
func (o *openSession) like() api.CreateTask {
	set := o.Settings
	return api.CreateTask{Model: set.Model, Models: api.Models{Large: set.LargeModel}, Sandbox: set.Sandbox, Repo: &api.RepoTask{URL: set.Repository, Agent: set.Agent}}
}

// own lists the sessions of this owner that are open, without their turns.
func (s *Service) own(ctx context.Context) (all []*openSession, err error) {
	rows, err := s.cfg.Rows.OpenSessions(ctx)
	for _, r := range rows {
		if r.Owner != s.cfg.Owner {
			continue
		}
		o, err := read(r)
		if err != nil {
			return all, err
		}
		all = append(all, o)
	}
	return all, err
}

// Staying is a session of a node that drains.
type Staying struct {
	ID  api.SessionID
	Key string
	// Why is what it waits for if it Goes to another node, and else why it stays. It is empty if it is about to go.
	Why  string
	Goes bool
}

// Staying lists the sessions of this owner.
func (s *Service) Staying(ctx context.Context) (out []Staying, err error) {
	all, err := s.own(ctx)
	for _, o := range all {
		st := Staying{ID: o.ID, Key: o.Key, Goes: true}
		if err := s.leaves(ctx, o); err != nil {
			st.Why, st.Goes = err.Error(), false
		} else if o.State == words.Running {
			st.Why = "the end of its turn"
		} else {
			s.mu.Lock()
			st.Why = s.stays[o.ID]
			s.mu.Unlock()
			st.Goes = st.Why == ""
		}
		out = append(out, st)
	}
	return out, err
}
