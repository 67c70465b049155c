package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// TestSessionTenants: a session is its account's. Another account, and an operator of another one, see nothing of it and change
// nothing, whatever they call; its own account can do all of it.
func TestSessionTenants(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	status, body := w.call("POST", "/v1/sessions", `{"key":"mine"}`, "X-API-Key", w.alice.Secret)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	var mine session.Session
	if err := json.Unmarshal([]byte(body), &mine); err != nil {
		t.Fatal(err)
	}
	calls := []struct {
		method, path, body string
		ok                 int // for its own account
	}{
		{"GET", "/v1/sessions/mine", "", http.StatusOK},
		{"POST", "/v1/sessions/mine/cancel", "", http.StatusOK},
		{"POST", "/v1/sessions/mine/restore", `{"turn":1}`, http.StatusNotFound}, // there is no turn
		{"POST", "/v1/sessions/mine/fork", `{"key":"stolen"}`, http.StatusNotFound},
		{"POST", "/v1/sessions/mine/messages", `{"text":" "}`, http.StatusBadRequest},
		{"DELETE", "/v1/sessions/mine", "", http.StatusOK},
	}
	for _, c := range calls {
		for who, key := range map[string]string{"bob": w.bob.Secret, "the operator": w.operator.Secret} {
			status, body := w.call(c.method, c.path, c.body, "X-API-Key", key)
			if status != http.StatusNotFound || strings.Contains(body, string(mine.ID)) {
				t.Errorf("%s: %s %s: %d %s", who, c.method, c.path, status, body)
			}
		}
		if status, body := w.call(c.method, c.path, c.body); status != http.StatusUnauthorized {
			t.Errorf("nobody: %s %s: %d %s", c.method, c.path, status, body)
		}
		if status, body := w.call(c.method, c.path, c.body, "X-API-Key", w.alice.Secret); status != c.ok {
			t.Errorf("alice: %s %s: %d %s, want %d", c.method, c.path, status, body, c.ok)
		}
	}
	// The same key is another session of another account.
	if status, body := w.call("POST", "/v1/sessions", `{"key":"shared"}`, "X-API-Key", w.bob.Secret); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	if status, body := w.call("GET", "/v1/sessions", "", "X-API-Key", w.alice.Secret); status != http.StatusOK || strings.Contains(body, "shared") {
		t.Errorf("the list: %d %s", status, body)
	}
	// A repository is fetched with the operator's credentials, and no key names files of the host.
	for body, want := range map[string]int{
		`{"key":"r","repository":"https://example.org/x.git"}`: http.StatusForbidden,
		`{"key":"r","model":"replay:/etc/passwd"}`:             http.StatusForbidden,
		`{"key":"r","sandbox":{"isolation":"process"}}`:        http.StatusForbidden,
		`{"key":"../r"}`: http.StatusBadRequest,
		`{"key":"r","sandbox":{"env":{"A":"b"}}}`: http.StatusBadRequest,
		`{"key":"r","unknown":1}`:                 http.StatusBadRequest,
		`{"key":"r","warmMs":-5}`:                 http.StatusBadRequest,
		`{"key":"r","agent":"nosuch"}`:            http.StatusBadRequest,
		`{"key":"ok","warmMs":-1,"pausedMs":-1}`:  http.StatusCreated,
	} {
		if status, got := w.call("POST", "/v1/sessions", body, "X-API-Key", w.alice.Secret); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, got, want)
		}
	}
	if status, body := w.call("POST", "/v1/sessions", `{"key":"local","repository":"/etc"}`, "X-API-Key", w.operator.Secret); status != http.StatusForbidden {
		t.Errorf("a directory of the host: %d %s", status, body)
	}
	ids := map[string]bool{}
	if ctx := api.WithPrincipal(t.Context(), api.Principal{Account: "bob", Role: api.RoleUser}); true {
		for _, err := range w.s.guards.events.Follow(ctx, api.Stream{Kind: session.Stream, ID: string(mine.ID)}, 0) {
			if api.KindOf(err) != api.KindNotFound {
				t.Errorf("the events of another account: %v", err)
			}
			break
		}
		all, err := w.s.guards.events.Read(api.WithPrincipal(t.Context(), api.Principal{Account: "alice", Role: api.RoleUser}), api.Stream{Kind: session.Stream, ID: string(mine.ID)}, 0, 9)
		for _, e := range all {
			ids[string(e.Type)] = true
		}
		if err != nil || !ids[string(session.EventCreated)] || !ids[string(session.EventClosed)] {
			t.Errorf("the own events: %v, %v", ids, err)
		}
	}
}

// TestSessionBound: an account has so many sessions and no more; one that is closed makes room.
func TestSessionBound(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	ctx := api.WithPrincipal(t.Context(), api.Principal{Account: "bob", Role: api.RoleUser})
	for i := range session.MaxSessions + 1 {
		_, err := w.s.guards.sessions.Create(ctx, session.Create{Key: "k" + strings.Repeat("x", i)})
		if want := i == session.MaxSessions; want != (api.KindOf(err) == api.KindExhausted) || !want && err != nil {
			t.Fatalf("session %d: %v", i+1, err)
		}
	}
	if _, err := w.s.guards.sessions.Remove(ctx, "kx"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.guards.sessions.Create(ctx, session.Create{Key: "again"}); err != nil {
		t.Error(err)
	}
}
