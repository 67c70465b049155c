package http_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	httpapi "hortus.dev/internal/server/http"
)

// mailbox counts the events that it takes.
type mailbox struct{ bodies []string }

func (m *mailbox) Receive(_ context.Context, id api.RepositoryID, h http.Header, body []byte) (api.HookAnswer, error) {
	if h.Get("X-Hub-Signature-256") == "" {
		return api.HookAnswer{}, api.Errorf(api.KindUnauthenticated, "no signature for %s", id)
	}
	m.bodies = append(m.bodies, string(body))
	return api.HookAnswer{Reason: "ignored"}, nil
}

// endless is a body without an end. It counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// TestReceiveHook: the route takes an event as it is, without a key, and reads no more of a body than an event may have.
func TestReceiveHook(t *testing.T) {
	m := &mailbox{}
	s := httpapi.New(httpapi.Config{Hooks: m})
	post := func(body io.Reader, length int64, signed bool) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/hooks/"+string(api.NewRepositoryID()), body)
		if r.ContentLength = length; signed {
			r.Header.Set("X-Hub-Signature-256", "sha256=00")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const odd = "{\"a\":1,\"a\":2, unknown}"
	if code, answer := post(strings.NewReader(odd), int64(len(odd)), true); code != http.StatusAccepted || !strings.Contains(answer, "ignored") || len(m.bodies) != 1 || m.bodies[0] != odd {
		t.Errorf("%d %s %q", code, answer, m.bodies)
	}
	if code, answer := post(strings.NewReader(odd), int64(len(odd)), false); code != http.StatusUnauthorized {
		t.Errorf("%d %s", code, answer)
	}
	flood := &endless{}
	if code, _ := post(flood, -1, true); code != http.StatusBadRequest || flood.read > 4<<20 {
		t.Errorf("chunked without an end: %d after %d bytes", code, flood.read)
	}
	flood = &endless{}
	if code, _ := post(flood, 1<<40, true); code != http.StatusBadRequest || flood.read != 0 {
		t.Errorf("a large length: %d after %d bytes", code, flood.read)
	}
	if len(m.bodies) != 1 {
		t.Errorf("%d events", len(m.bodies))
	}
}
