package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
)

// Stopper stops sandboxes and lets them continue.
type Stopper interface {
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
}

// Checkpoints copies workspaces that do not change any more.
type Checkpoints interface {
	// Copy makes a workspace with the files of another one, wherever they are.
	Copy(ctx context.Context, id api.WorkspaceID, n workspace.New) (api.Workspace, error)
}

// SessionsConfig is what Sessions are made of. All fields are required but Now and Logger.
type SessionsConfig struct {
	Workspaces  *workspace.Store
	Checkpoints Checkpoints
	Sandboxes   Stopper
	Stiller     Stiller
	// Changed learns when a sandbox that waits was paused (session.Paused), or is there no more (session.Stored). It is called
	// from a goroutine of the Sessions.
	Changed func(ctx context.Context, id api.SessionID, state session.State, reason string)
	// Restored learns how a turn got its sandbox.
	Restored func(ctx context.Context, id api.SessionID, e session.RestoredEvent)
	Now      func() time.Time
	Logger   *slog.Logger
}

// Sessions keeps the sandboxes of sessions between their turns, and the copies of their workspaces. It implements repo.Sessions. Its
// methods may be called from several goroutines. Close ends it.
type Sessions struct {
	cfg    SessionsConfig
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	closed  bool
	windows map[api.SessionID]windows
	idle    map[api.SessionID]*idleSandbox
}

var _ repo.Sessions = (*Sessions)(nil)

// windows are how long a sandbox stays.
type windows struct{ warm, paused time.Duration }

// idleSandbox is a sandbox that waits for the next turn.
type idleSandbox struct {
	sandbox repo.Sandbox
	paused  bool
	windows windows
	// due is when something is done with it.
	due time.Time
	// busy is true while that is done.
	busy bool
}

// margin is how much longer than its windows a sandbox that waits may live by itself: it ends also if nobody is there to end it.
const margin = 2 * time.Minute

// endTime bounds the end of a sandbox.
const endTime = time.Minute

// NewSessions makes Sessions. Changed and Restored of cfg may be called as soon as there are sandboxes.
func NewSessions(cfg SessionsConfig) *Sessions {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sessions{
		cfg: cfg, wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
		windows: map[api.SessionID]windows{}, idle: map[api.SessionID]*idleSandbox{},
	}
	go s.keep(ctx)
	return s
}

// Stays says how long the sandbox of a session stays after a turn, and then is paused. It counts for turns that end later.
func (s *Sessions) Stays(id api.SessionID, warm, paused time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows[id] = windows{warm, paused}
}

// Restored implements repo.Sessions.
func (s *Sessions) Restored(ctx context.Context, id api.SessionID, e session.RestoredEvent) {
	s.cfg.Restored(ctx, id, e)
}

// Take implements repo.Sessions.
func (s *Sessions) Take(ctx context.Context, id api.SessionID, live time.Duration) (repo.Sandbox, string) {
	for {
		s.mu.Lock()
		at := s.idle[id]
		if at == nil {
			s.mu.Unlock()
			return nil, ""
		}
		if !at.busy {
			delete(s.idle, id)
			s.mu.Unlock()
			return s.resume(ctx, at, live)
		}
		s.mu.Unlock()
		select { // it is being paused or ended
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ""
		}
	}
}

// resume lets a sandbox continue for a turn. One that cannot is ended.
func (s *Sessions) resume(ctx context.Context, at *idleSandbox, live time.Duration) (repo.Sandbox, string) {
	sandbox, how := at.sandbox.Info().ID, session.RestoredWarm
	row, err := s.cfg.Sandboxes.Get(ctx, sandbox)
	if err == nil && at.paused {
		how = session.RestoredResumed
		row, err = s.cfg.Sandboxes.Resume(ctx, sandbox)
	}
	if err == nil && row.State != api.SandboxRunning {
		err = api.Errorf(api.KindConflict, "sandbox %s is %s: %s", sandbox, row.State, row.Reason)
	}
	if err == nil {
		_, err = s.cfg.Sandboxes.SetTTL(ctx, sandbox, within(row, live))
	}
	if err != nil {
		s.cfg.Logger.Info("the sandbox of a session is not there any more", "sandbox", sandbox, "reason", err)
		s.end(ctx, at)
		return nil, ""
	}
	return at.sandbox, how
}

// within is a time to live that the key of a sandbox allows.
func within(row api.Sandbox, live time.Duration) time.Duration {
	if most := time.Duration(row.MaxTTLMS) * time.Millisecond; most > 0 {
		live = min(live, most)
	}
	return min(live, api.MaxTTL)
}

// Keep implements repo.Sessions.
func (s *Sessions) Keep(ctx context.Context, id api.SessionID, c repo.Sandbox) bool {
	s.mu.Lock()
	w := s.windows[id]
	closed := s.closed
	s.mu.Unlock()
	if closed || w.warm <= 0 {
		return false
	}
	info := c.Info()
	if _, err := s.cfg.Sandboxes.SetTTL(ctx, info.ID, within(info, w.warm+w.paused+margin)); err != nil {
		s.cfg.Logger.Info("the sandbox of a session does not stay", "sandbox", info.ID, "reason", err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.idle[id] != nil {
		return false
	}
	s.idle[id] = &idleSandbox{sandbox: c, windows: w, due: s.cfg.Now().Add(w.warm)}
	s.nudge()
	return true
}

func (s *Sessions) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// State says what waits for the next turn of a session, and in which sandbox.
func (s *Sessions) State(id api.SessionID) (session.State, api.SandboxID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch at := s.idle[id]; {
	case at == nil:
		return session.Stored, ""
	case at.paused:
		return session.Paused, at.sandbox.Info().ID
	default:
		return session.Warm, at.sandbox.Info().ID
	}
}

// Drop ends the sandbox of a session, if one waits, and says what was left.
func (s *Sessions) Drop(ctx context.Context, id api.SessionID) (api.Proof, error) {
	s.mu.Lock()
	at := s.idle[id]
	delete(s.idle, id)
	delete(s.windows, id)
	s.mu.Unlock()
	if at == nil {
		return api.Proof{}, nil
	}
	return at.sandbox.Close(ctx)
}

// end ends a sandbox.
func (s *Sessions) end(ctx context.Context, at *idleSandbox) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if _, err := at.sandbox.Close(late); err != nil {
		s.cfg.Logger.Error("a sandbox of a session was not killed", "sandbox", at.sandbox.Info().ID, "err", err)
	}
}

// keep pauses and ends sandboxes that wait, when they are due.
func (s *Sessions) keep(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		id, at, wait := s.next()
		if at != nil {
			s.act(ctx, id, at)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// next marks one that is due, or says how long to wait.
func (s *Sessions) next() (api.SessionID, *idleSandbox, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	for id, at := range s.idle {
		left := at.due.Sub(s.cfg.Now())
		if left <= 0 && !at.busy && !s.closed {
			at.busy = true
			return id, at, 0
		}
		wait = min(wait, max(left, time.Millisecond))
	}
	return "", nil, wait
}

// act pauses a sandbox whose time is over, or ends it.
func (s *Sessions) act(ctx context.Context, id api.SessionID, at *idleSandbox) {
	info := at.sandbox.Info()
	if !at.paused && at.windows.paused > 0 && info.Isolation == "gvisor" {
		if _, err := s.cfg.Sandboxes.Pause(ctx, info.ID); err == nil {
			s.mu.Lock()
			at.paused, at.busy, at.due = true, false, s.cfg.Now().Add(at.windows.paused)
			s.mu.Unlock()
			s.cfg.Changed(ctx, id, session.Paused, "unused for "+at.windows.warm.String())
			return
		}
	}
	s.end(ctx, at)
	s.mu.Lock()
	if s.idle[id] == at {
		delete(s.idle, id)
	}
	s.mu.Unlock()
	s.cfg.Changed(ctx, id, session.Stored, "its sandbox was unused")
}

// Close ends all sandboxes that wait.
func (s *Sessions) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	<-s.done
	s.mu.Lock()
	all := s.idle
	s.idle = map[api.SessionID]*idleSandbox{}
	s.mu.Unlock()
	var errs []error
	for _, at := range all {
		_, err := at.sandbox.Close(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Workspace implements repo.Sessions, for the account of the context's principal.
func (s *Sessions) Workspace(ctx context.Context, id api.SessionID, layers ...repo.Layer) (api.WorkspaceID, error) {
	w, err := s.cfg.Workspaces.Make(ctx, workspace.New{Session: id, Account: api.PrincipalOf(ctx).Account, Layers: digests(layers)})
	return w.ID, err
}

// CopyIdle copies a workspace that nobody has.
func (s *Sessions) CopyIdle(ctx context.Context, id api.SessionID, ws api.WorkspaceID) (api.WorkspaceID, error) {
	return s.Copy(ctx, id, ws, nil)
}

// CopyCheckpoint copies a checkpoint, which may have been made on another node. beside is the directory with what came with it from there; empty if nothing did.
func (s *Sessions) CopyCheckpoint(ctx context.Context, account string, id api.SessionID, ws api.WorkspaceID) (copied api.WorkspaceID, beside string, err error) {
	w, err := s.cfg.Checkpoints.Copy(ctx, ws, workspace.New{Session: id, Account: account})
	return w.ID, s.cfg.Workspaces.BesideOf(w.ID), err
}

// Copy implements repo.Sessions.
func (s *Sessions) Copy(ctx context.Context, id api.SessionID, ws api.WorkspaceID, c repo.Sandbox) (api.WorkspaceID, error) {
	was, err := s.cfg.Workspaces.Get(ws)
	if err != nil {
		return "", err
	}
	n := workspace.New{Session: id, Account: was.Account}
	if c == nil {
		w, err := s.cfg.Workspaces.Fork(ctx, ws, n)
		return w.ID, err
	}
	return copyStanding(ctx, s.cfg.Workspaces, s.cfg.Stiller, c.Info().ID, ws, n, workspace.Copyable())
}

const unneeded = "its session needs it no more"

// Discard implements repo.Sessions. What cannot be removed now is removed with its session, and by a node that is there and has the files.
func (s *Sessions) Discard(ctx context.Context, ws api.WorkspaceID) {
	_, err := s.cfg.Workspaces.Get(ws)
	if api.KindOf(err) == api.KindNotFound {
		if err = s.cfg.Workspaces.Forget(ctx, ws, unneeded); api.KindOf(err) == api.KindConflict {
			return
		}
	} else {
		err = s.cfg.Workspaces.RemoveLater(ws, unneeded)
	}
	if err != nil && api.KindOf(err) != api.KindNotFound {
		s.cfg.Logger.Warn("a workspace of a session is not removed yet", "workspace", ws, "err", err)
	}
}

// Sweep removes the workspaces of a session that keep does not name. No turn of it runs.
func (s *Sessions) Sweep(ctx context.Context, id api.SessionID, keep map[api.WorkspaceID]bool) error {
	all, err := s.cfg.Workspaces.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, ws := range all {
		w, err := s.cfg.Workspaces.Get(ws)
		if err != nil || w.Session != id || keep[ws] {
			continue // gone, or unreadable; or not to be removed
		}
		if err := s.cfg.Workspaces.RemoveLater(ws, unneeded); api.KindOf(err) != api.KindNotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
