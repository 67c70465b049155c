package session

import (
	"context"
	"os"

	"hortus.dev/api"
	words "hortus.dev/api/session"
)

// checkpoint finds a turn with a checkpoint; 0 is the last one of the conversation that has one.
func (o *openSession) checkpoint(n int) (turn, error) {
	if n == 0 {
		for _, t := range o.conversation(o.At) {
			if t.Copy != "" {
				n = t.N
			}
		}
	}
	if n < 1 || n > len(o.turns) || o.turns[n-1].Copy == "" {
		return turn{}, api.Errorf(api.KindNotFound, "session %s has no checkpoint of turn %d", o.Key, n).
			WithHint("list them: hortus session show %s", o.Key)
	}
	return o.turns[n-1], nil
}

// Restore takes a session back to the checkpoint of a turn: its files and its conversation. Later turns stay in the list and count
// no more. KindConflict while a turn runs or waits.
func (s *Service) Restore(ctx context.Context, account, key string, req words.Restore) (out words.Session, err error) {
	err = s.open(ctx, account, key, func(o *openSession) error {
		if o.first() > 0 {
			return busy(o)
		}
		t, err := o.checkpoint(req.Turn)
		if err != nil {
			return err
		}
		if _, err := s.cfg.Sandboxes.Drop(ctx, o.ID); err != nil {
			return err
		}
		copied, err := s.copyCheckpoint(ctx, o, o.ID, t)
		if err != nil {
			return err
		}
		old, n := o.Workspace, o.supersede(t.N)
		o.Workspace, o.Head, o.At, o.AgentSession, o.Sandbox = copied, t.Head, t.N, t.AgentSession, ""
		o.used(s.cfg.Now())
		if err := o.move(rewinds, "taken back"); err != nil {
			return err
		}
		o.tell(words.EventBack, words.BackEvent{Turn: t.N, Superseded: n})
		if err := s.save(ctx, o); err != nil {
			s.cfg.Sandboxes.Discard(ctx, copied)
			return err
		}
		s.cfg.Sandboxes.Discard(ctx, old)
		out = s.view(o)
		return nil
	})
	return out, err
}

// copyCheckpoint copies the checkpoint of a turn for a session, with the conversation up to it if both are still on another node.
func (s *Service) copyCheckpoint(ctx context.Context, o *openSession, to api.SessionID, t turn) (api.WorkspaceID, error) {
	copied, beside, err := s.cfg.Sandboxes.CopyCheckpoint(ctx, o.Account, to, t.Copy)
	if err == nil {
		if err = s.TakeTranscripts(o.ID, beside); err == nil {
			return copied, nil
		}
		s.cfg.Sandboxes.Discard(ctx, copied)
	}
	return "", api.Errorf(api.KindOf(err), "turn %d of session %s: %w", t.N, o.Key, err).WithHint("%s", api.HintOf(err))
}

// supersede marks the turns that do not lead to one, and counts those that did count before.
func (o *openSession) supersede(to int) (n int) {
	counts := map[int]bool{}
	for _, t := range o.conversation(to) {
		counts[t.N] = true
	}
	for _, t := range o.turns {
		if gone := t.State == words.TurnDone && !counts[t.N]; gone != t.Superseded {
			o.touch(t.N).Superseded = gone
			if gone {
				n++
			}
		}
	}
	return n
}

func busy(o *openSession) error {
	return api.Errorf(api.KindConflict, "session %s works on a message", o.Key).
		WithHint("wait for it, or cancel it: hortus session cancel %s --queued", o.Key)
}

// Fork makes another session of an account from the checkpoint of a turn: the same settings, files and conversation.
func (s *Service) Fork(ctx context.Context, account, key string, req words.Fork) (out words.Session, err error) {
	if err := s.serving(); err != nil {
		return out, err
	}
	err = s.open(ctx, account, key, func(o *openSession) error {
		t, err := o.checkpoint(req.Turn)
		if err != nil {
			return err
		}
		f, err := s.made(ctx, account, req.Key, o.Settings)
		if err != nil {
			return err
		}
		if err := s.copyInto(ctx, f, o, t); err != nil {
			s.forget(ctx, f)
			return err
		}
		if err := s.insert(ctx, f); err != nil {
			s.forget(ctx, f)
			return err
		}
		o.tell(words.EventForked, words.ForkedEvent{Turn: t.N, Session: f.ID, Key: f.Key})
		s.tellAll(ctx, o)
		out = s.view(f)
		return nil
	})
	return out, err
}

// copyInto gives a new session what another one has up to a turn.
func (s *Service) copyInto(ctx context.Context, f, o *openSession, t turn) (err error) {
	f.ForkedFrom, f.Commit, f.Base, f.Head, f.AgentSession = o.ID, o.Commit, o.Base, t.Head, t.AgentSession
	// The directory first: what a crash leaves is found by it.
	if err := s.files.makeDir(f.ID); err != nil {
		return err
	}
	if f.Workspace, err = s.copyCheckpoint(ctx, o, f.ID, t); err != nil {
		return err
	}
	for _, was := range o.conversation(t.N) {
		n := len(f.turns) + 1
		if from := s.files.transcript(o.ID, was.N); exists(from) {
			if err := link(from, s.files.transcript(f.ID, n)); err != nil {
				return api.Errorf(api.KindInternal, "copy the conversation of a session: %w", err)
			}
		}
		last := was.N == t.N
		was.N, was.After, was.Superseded, was.Copy, was.Checkpoint = n, n-1, false, "", false
		if last {
			if was.Copy, _, err = s.cfg.Sandboxes.CopyCheckpoint(ctx, f.Account, f.ID, f.Workspace); err != nil { // nobody has changed it yet
				return err
			}
			was.Checkpoint = true
		}
		f.turns = append(f.turns, was)
		f.touch(n)
	}
	f.At, f.TurnCount = len(f.turns), len(f.turns)
	f.facts = nil
	f.tell(words.EventCreated, f.Session)
	return nil
}

// forget removes what a session that was not stored has.
func (s *Service) forget(ctx context.Context, f *openSession) {
	if err := s.cfg.Sandboxes.Sweep(context.WithoutCancel(ctx), f.ID, nil); err != nil {
		// By its directory the next daemon finds that there is more to remove.
		s.cfg.Logger.Error("remove the workspaces of a session", "session", f.ID, "err", err)
		return
	}
	if err := os.RemoveAll(s.files.dir(f.ID)); err != nil {
		s.cfg.Logger.Error("remove the files of a session", "session", f.ID, "err", err)
	}
}
