package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/test/world"
)

// TestSessionTenants: a session is its account's. Another account, and an operator of another one, see nothing of it and change
// nothing, whatever they call; its own account can do all of it.
func TestSessionTenants(t *testing.T) {
	w := newTown(t)
	status, body := w.Call("POST", "/v1/sessions", `{"key":"mine"}`, "X-API-Key", w.alice.Secret)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	var mine session.Session
	world.OK(t, json.Unmarshal([]byte(body), &mine))
	calls := []struct {
		method, path, body string
		ok                 int // for its own account
	}{
		{"GET", "/v1/sessions/mine", "", http.StatusOK},
		{"GET", "/v1/sessions/mine/events", "", http.StatusOK},
		{"POST", "/v1/sessions/mine/cancel", "", http.StatusOK},
		{"POST", "/v1/sessions/mine/restore", `{"turn":1}`, http.StatusNotFound}, // there is no turn
		{"POST", "/v1/sessions/mine/fork", `{"key":"stolen"}`, http.StatusNotFound},
		{"POST", "/v1/sessions/mine/messages", `{"text":" "}`, http.StatusBadRequest},
		{"DELETE", "/v1/sessions/mine", "", http.StatusOK},
	}
	for _, c := range calls {
		for who, key := range map[string]string{"bob": w.bob.Secret, "the operator": w.operator.Secret} {
			status, body := w.Call(c.method, c.path, c.body, "X-API-Key", key)
			if status != http.StatusNotFound || strings.Contains(body, string(mine.ID)) {
				t.Errorf("%s: %s %s: %d %s", who, c.method, c.path, status, body)
			}
		}
		if status, body := w.Call(c.method, c.path, c.body); status != http.StatusUnauthorized {
			t.Errorf("nobody: %s %s: %d %s", c.method, c.path, status, body)
		}
		if status, body := w.Call(c.method, c.path, c.body, "X-API-Key", w.alice.Secret); status != c.ok {
			t.Errorf("alice: %s %s: %d %s, want %d", c.method, c.path, status, body, c.ok)
		}
	}
	// The same key is another session of another account.
	if status, body := w.Call("POST", "/v1/sessions", `{"key":"shared"}`, "X-API-Key", w.bob.Secret); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	if status, body := w.Call("GET", "/v1/sessions", "", "X-API-Key", w.alice.Secret); status != http.StatusOK || strings.Contains(body, "shared") {
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
		if status, got := w.Call("POST", "/v1/sessions", body, "X-API-Key", w.alice.Secret); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, got, want)
		}
	}
	if status, body := w.Call("POST", "/v1/sessions", `{"key":"local","repository":"/etc"}`, "X-API-Key", w.operator.Secret); status != http.StatusForbidden {
		t.Errorf("a directory of the host: %d %s", status, body)
	}
}

// TestSessionBound: an account has so many sessions and no more; one that is closed makes room.
func TestSessionBound(t *testing.T) {
	w := newTown(t)
	ctx, c := t.Context(), w.As(w.bob)
	for i := range session.MaxSessions + 1 {
		_, err := c.Sessions.Create(ctx, session.Create{Key: "k" + strings.Repeat("x", i)})
		if want := i == session.MaxSessions; want != (api.KindOf(err) == api.KindExhausted) || !want && err != nil {
			t.Fatalf("session %d: %v", i+1, err)
		}
	}
	world.Must(c.Sessions.Close(ctx, "kx"))(t)
	if _, err := c.Sessions.Create(ctx, session.Create{Key: "again"}); err != nil {
		t.Error(err)
	}
}
