package session

import (
	"context"
	"errors"
	"os"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
)

// Remove closes a session: its turn is canceled, the messages that wait are removed, its sandbox ends, and its workspace, its
// checkpoints and its conversation are removed.
func (s *Service) Remove(ctx context.Context, account, key string) (words.Session, error) {
	if _, err := s.Cancel(ctx, account, key, words.Cancel{Queued: true}); err != nil {
		return words.Session{}, err
	}
	var out words.Session
	err := s.open(ctx, account, key, func(o *openSession) (err error) {
		out, err = s.shut(ctx, o, "closed")
		return err
	})
	return out, err
}

// shut closes a session on which nobody works.
func (s *Service) shut(ctx context.Context, o *openSession, reason string) (words.Session, error) {
	if o.first() > 0 {
		return words.Session{}, busy(o)
	}
	if _, err := s.cfg.Sandboxes.Drop(ctx, o.ID); err != nil {
		return words.Session{}, err
	}
	if err := o.move(closes, reason); err != nil {
		return words.Session{}, err
	}
	o.facts = nil // the last event says it
	o.EndedAt, o.Reason, o.Sandbox = s.cfg.Now().UTC(), reason, ""
	o.tell(words.EventClosed, o.Session)
	// The row first: what a crash leaves behind belongs to no open session, and the next daemon removes it.
	if err := s.save(ctx, o); err != nil {
		return words.Session{}, err
	}
	for ws := range o.workspaces() {
		if ws != "" {
			s.cfg.Sandboxes.Discard(ctx, ws) // forget removes those that only the disk knows
		}
	}
	s.forget(ctx, o)
	return s.view(o), nil
}

// keep closes sessions that were not used for long, and forgets those that were closed long ago, until the service ends.
func (s *Service) keep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Expire(s.life)
		case <-s.life.Done():
			return
		}
	}
}

// Expire closes the sessions of this owner whose time is over. It returns how many.
func (s *Service) Expire(ctx context.Context) (n int) {
	now := s.cfg.Now()
	rows, err := s.cfg.Rows.OpenSessions(ctx)
	if err != nil {
		s.cfg.Logger.Error("list sessions", "err", err)
		return 0
	}
	for _, r := range rows {
		o, err := read(r)
		if err != nil || o.Owner != s.cfg.Owner || o.ExpiresAt.After(now) {
			continue
		}
		err = s.with(ctx, r.ID, func(o *openSession) error {
			if o.ExpiresAt.After(now) || o.first() > 0 {
				return nil
			}
			n++
			_, err := s.shut(ctx, o, "it was not used for "+o.Settings.TTL().String())
			return err
		})
		if err != nil {
			s.cfg.Logger.Error("close an unused session", "session", r.ID, "err", err)
		}
	}
	if _, err := s.cfg.Rows.PruneSessions(ctx, now.Add(-keepClosed)); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("forget closed sessions", "err", err)
	}
	return n
}

// Changed takes what happened to the sandbox of a session between two turns.
func (s *Service) Changed(ctx context.Context, id api.SessionID, state words.State, reason string) {
	m := drops
	if state == words.Paused {
		m = pauses
	}
	err := s.with(ctx, id, func(o *openSession) error {
		// A turn may have begun since, or have ended with another sandbox.
		if now, sandbox := s.cfg.Sandboxes.State(id); now != state || o.State == words.Running || o.State == state {
			return nil
		} else {
			o.Sandbox = sandbox
		}
		if err := o.move(m, reason); err != nil {
			return err
		}
		return s.save(ctx, o)
	})
	if err != nil && api.KindOf(err) != api.KindNotFound && ctx.Err() == nil {
		s.cfg.Logger.Error("store the state of a session", "session", id, "err", err)
	}
}

// Restored takes how the turn that runs got its sandbox.
func (s *Service) Restored(ctx context.Context, id api.SessionID, e words.RestoredEvent) {
	err := s.with(context.WithoutCancel(ctx), id, func(o *openSession) error {
		if e.Turn < 1 || e.Turn > len(o.turns) {
			return nil
		}
		t := o.touch(e.Turn)
		t.Restored, t.RestoredMS, o.Sandbox = e.How, e.MS, e.Sandbox
		o.tell(words.EventRestored, e)
		return s.save(ctx, o)
	})
	if err != nil {
		s.cfg.Logger.Error("store how a session got its sandbox", "session", id, "err", err)
	}
}

// Recover takes over the sessions of owners that have ended: their sandboxes have ended with them. It comes after the tasks that
// continue were taken over, and before messages come. It returns how many it found. gone must be right.
func (s *Service) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return 0, api.Errorf(api.KindInternal, "create the directory of sessions: %w", err)
	}
	rows, err := s.cfg.Rows.OpenSessions(ctx)
	if err != nil {
		return 0, err
	}
	open := map[string]bool{}
	for _, r := range rows {
		open[string(r.ID)] = true
	}
	n, err := s.TakeOver(ctx, gone)
	err = errors.Join(err, s.orphans(ctx, open))
	s.Expire(ctx)
	return n, err
}

// TakeOver is Recover for sessions of other nodes, at any time.
func (s *Service) TakeOver(ctx context.Context, gone func(api.OwnerID) bool) (n int, err error) {
	rows, err := s.cfg.Rows.OpenSessions(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if r.Owner == s.cfg.Owner || !gone(r.Owner) {
			continue
		}
		n++
		if err := s.takeOver(ctx, r.ID); err != nil {
			s.cfg.Logger.Error("take over a session", "session", r.ID, "err", err)
		}
	}
	return n, nil
}

// takeOver makes a session this owner's, and has what waits in it said.
func (s *Service) takeOver(ctx context.Context, id api.SessionID) error {
	return s.locked(ctx, id, func(o *openSession) error {
		was := o.Owner
		o.Owner, o.Sandbox = s.cfg.Owner, ""
		if o.State != words.Running {
			if err := o.move(drops, "its daemon ended"); err != nil {
				return err
			}
		}
		r, turns, err := o.row()
		if err == nil {
			err = s.cfg.Rows.UpdateSession(context.WithoutCancel(ctx), was, r, turns...)
		}
		if err != nil {
			return err
		}
		s.tellAll(ctx, o)
		if o.first() > 0 {
			s.begin(id, false)
			return nil
		}
		return s.cfg.Sandboxes.Sweep(ctx, id, o.workspaces())
	})
}

// workspaces are those that a session names.
func (o *openSession) workspaces() map[api.WorkspaceID]bool {
	all := map[api.WorkspaceID]bool{o.Workspace: true}
	for _, t := range o.turns {
		all[t.Copy] = true
	}
	return all
}

// orphans removes what sessions left that are not open: their daemon died while they were made or closed.
func (s *Service) orphans(ctx context.Context, open map[string]bool) error {
	all, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return api.Errorf(api.KindInternal, "list the files of sessions: %w", err)
	}
	for _, e := range all {
		id := api.SessionID(e.Name())
		if !id.Valid() || open[e.Name()] {
			continue
		}
		f := &openSession{}
		f.ID = id
		s.forget(ctx, f)
	}
	return nil
}
