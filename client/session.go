package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// SessionService talks to agents in sessions: conversations that keep their files and what was said. A session is named by the
// caller's key.
type SessionService struct{ service }

// call calls a route of one session.
func (s *SessionService) call(ctx context.Context, method, key, rest string, in, out any) error {
	path, err := sessionPath(key, rest)
	if err != nil {
		return err
	}
	return s.client.call(ctx, method, path, in, out)
}

func sessionPath(key, rest string) (string, error) {
	if err := session.CheckKey(key); err != nil {
		return "", err
	}
	return "/v1/sessions/" + url.PathEscape(key) + rest, nil
}

// Create makes a session without a message.
func (s *SessionService) Create(ctx context.Context, req session.Create) (session.Session, error) {
	var out session.Session
	return out, s.client.call(ctx, http.MethodPost, "/v1/sessions", req, &out)
}

// List lists the sessions that are not closed, or all, the newest first, without their turns.
func (s *SessionService) List(ctx context.Context, all bool) ([]session.Session, error) {
	return s.Match(ctx, all)
}

// Match is List for the sessions in one of the states, or in any if there are none. The state closed includes closed ones.
func (s *SessionService) Match(ctx context.Context, all bool, states ...session.State) ([]session.Session, error) {
	q := whether(all)
	for _, state := range states {
		q.Add("state", string(state))
	}
	var out []session.Session
	return out, s.client.query(ctx, http.MethodGet, "/v1/sessions", q, nil, &out)
}

// Get returns a session with its turns.
func (s *SessionService) Get(ctx context.Context, key string) (session.Session, error) {
	var out session.Session
	return out, s.call(ctx, http.MethodGet, key, "", nil, &out)
}

// Send says something to the agent and returns the turn, which waits or begins. With Create in the message it makes the session if
// there is none of the key.
func (s *SessionService) Send(ctx context.Context, key string, m session.Message) (session.Turn, error) {
	var out session.Turn
	return out, s.call(ctx, http.MethodPost, key, "/messages", m, &out)
}

// Cancel stops the turn that runs, and waits for its receipt.
func (s *SessionService) Cancel(ctx context.Context, key string, req session.Cancel) (session.Session, error) {
	var out session.Session
	return out, s.call(ctx, http.MethodPost, key, "/cancel", req, &out)
}

// Restore takes a session back to the checkpoint of a turn.
func (s *SessionService) Restore(ctx context.Context, key string, req session.Restore) (session.Session, error) {
	var out session.Session
	return out, s.call(ctx, http.MethodPost, key, "/restore", req, &out)
}

// Fork makes another session from the checkpoint of a turn.
func (s *SessionService) Fork(ctx context.Context, key string, req session.Fork) (session.Session, error) {
	var out session.Session
	return out, s.call(ctx, http.MethodPost, key, "/fork", req, &out)
}

// Close closes a session and removes all that it has.
func (s *SessionService) Close(ctx context.Context, key string) (session.Session, error) {
	var out session.Session
	return out, s.call(ctx, http.MethodDelete, key, "", nil, &out)
}

// Events yields the events of a session after a sequence number, as [TaskService.Events] does. It ends after the event
// session.closed, with the context's error, or when the daemon stays away.
func (s *SessionService) Events(ctx context.Context, key string, after int64) iter.Seq2[api.Event, error] {
	path, err := sessionPath(key, "/events")
	if err != nil {
		return func(yield func(api.Event, error) bool) { yield(api.Event{}, err) }
	}
	return s.client.events(ctx, path, after, func(e api.Event) bool { return e.Type == session.EventClosed })
}
