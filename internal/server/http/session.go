package http

import (
	"context"
	"net/http"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/server/forward"
)

// Sessions is what the server asks of sessions, each by its key among those of the caller's account.
type Sessions interface {
	Create(ctx context.Context, req session.Create) (session.Session, error)
	Send(ctx context.Context, key string, m session.Message) (session.Turn, error)
	// Get returns one that is not closed, with its turns.
	Get(ctx context.Context, key string) (session.Session, error)
	List(ctx context.Context, all bool, limit int) ([]session.Session, error)
	Cancel(ctx context.Context, key string, req session.Cancel) (session.Session, error)
	Restore(ctx context.Context, key string, req session.Restore) (session.Session, error)
	Fork(ctx context.Context, key string, req session.Fork) (session.Session, error)
	Remove(ctx context.Context, key string) (session.Session, error)
}

// maxSessions bounds the list of sessions, closed ones included.
const maxSessions = 2 * session.MaxSessions

// talks has the handlers of sessions.
type sessions struct {
	Sessions Sessions
	events   eventServer
}

func (d sessions) sessionRoutes() []Route {
	const one = "/v1/sessions/{key}"
	return []Route{{
		Method: "POST", Pattern: "/v1/sessions", Name: "createSession", Role: api.RoleUser, Creates: true, Places: forward.Session,
		Doc: "Create a session: a conversation with an agent, with a workspace of its own.",
		In:  session.Create{}, Out: session.Session{}, Status: http.StatusCreated,
		Handler: create(http.StatusCreated, d.Sessions, Sessions.Create),
	}, {
		Method: "GET", Pattern: "/v1/sessions", Name: "sessions", Role: api.RoleUser,
		Doc: "List the sessions of the account, newest first, without their turns.",
		Out: []session.Session{}, Params: []Param{{Name: "all", Doc: "Include closed ones (default false), 200 sessions in total.", Type: false}, stateParam},
		Handler: give(func(r *http.Request) ([]session.Session, error) {
			all, err := flag(r, "all")
			if err != nil {
				return nil, err
			}
			states, err := oneOf[session.State](r, "state")
			if err != nil {
				return nil, err
			}
			list, err := d.Sessions.List(r.Context(), all || slices.Contains(states, session.Closed), maxSessions)
			return slices.DeleteFunc(list, func(s session.Session) bool { return !in(states, s.State) }), err
		}),
	}, {
		Method: "GET", Pattern: one, Name: "session", Role: api.RoleUser, Stored: true,
		Doc:     "Get a session with its turns, by its key.",
		Out:     session.Session{},
		Handler: on(d.Sessions, sessionKey, Sessions.Get),
	}, {
		Method: "POST", Pattern: one + "/messages", Name: "sendMessage", Role: api.RoleUser, Creates: true,
		Doc: "Say something to the agent of a session. The message waits for the turn that runs, or interrupts it. With create it makes the session if there is none of the key.",
		In:  session.Message{}, Out: session.Turn{}, Status: http.StatusAccepted,
		Handler: change(http.StatusAccepted, decode, d.Sessions, sessionKey, Sessions.Send),
	}, {
		Method: "POST", Pattern: one + "/cancel", Name: "cancelSession", Role: api.RoleUser,
		Doc: "Cancel the turn that runs, and wait for its receipt; with queued, remove the messages that wait.",
		In:  session.Cancel{}, Optional: true, Out: session.Session{},
		Handler: change(http.StatusOK, decodeAny, d.Sessions, sessionKey, Sessions.Cancel),
	}, {
		Method: "POST", Pattern: one + "/restore", Name: "restoreSession", Role: api.RoleUser,
		Doc: "Take a session back to the checkpoint of a turn: its files and its conversation.",
		In:  session.Restore{}, Out: session.Session{},
		Handler: change(http.StatusOK, decode, d.Sessions, sessionKey, Sessions.Restore),
	}, {
		Method: "POST", Pattern: one + "/fork", Name: "forkSession", Role: api.RoleUser, Creates: true,
		Doc: "Make another session from the checkpoint of a turn.",
		In:  session.Fork{}, Out: session.Session{}, Status: http.StatusCreated,
		Handler: change(http.StatusCreated, decode, d.Sessions, sessionKey, Sessions.Fork),
	}, {
		Method: "DELETE", Pattern: one, Name: "closeSession", Role: api.RoleUser,
		Doc:     "Close a session: its turn is canceled, and its sandbox, workspace, checkpoints and conversation are removed.",
		Out:     session.Session{},
		Handler: on(d.Sessions, sessionKey, Sessions.Remove),
	}, {
		Method: "GET", Pattern: one + "/events", Name: "sessionEvents", Role: api.RoleUser, Stored: true,
		Doc: "Stream the session's events: the stored ones, then new ones. Those of the work of a turn are the events of its task.",
		Out: api.Event{}, OutType: typeEvents, Params: eventParams,
		Handler: d.sessionEvents,
	}}
}

// sessionKey reads the key of a session in the path.
func sessionKey(r *http.Request) (string, error) {
	key := r.PathValue("key")
	return key, session.CheckKey(key)
}

// sessionEvents streams the log of a session.
func (d sessions) sessionEvents(w http.ResponseWriter, r *http.Request) error {
	key, err := sessionKey(r)
	if err != nil {
		return err
	}
	s, err := d.Sessions.Get(r.Context(), key)
	if err != nil {
		return err
	}
	return d.events.serve(w, r, feed{
		stream: api.Stream{Kind: session.Stream, ID: string(s.ID)},
		name:   func(t api.EventType) string { return string(t) },
		last:   func(e api.Event) bool { return e.Type == session.EventClosed },
	})
}
