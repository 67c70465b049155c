package e2b

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"hortus.dev/api"
)

// TestRetryAfter: an SDK that is told when tries again then, and reads whole seconds.
func TestRetryAfter(t *testing.T) {
	d := &router{log: slog.New(slog.DiscardHandler)}
	for ms, want := range map[int64]string{0: "", 1: "1", 1000: "1", 1001: "2", 60_000: "60"} {
		w := httptest.NewRecorder()
		d.fail(w, httptest.NewRequest(http.MethodPost, "/v2/sandboxes", nil),
			&api.Error{Kind: api.KindExhausted, Message: "no room", RetryAfterMS: ms})
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != want {
			t.Errorf("after %d ms: %d, %q; want %q", ms, w.Code, w.Header().Get("Retry-After"), want)
		}
		w = httptest.NewRecorder() // of the front
		if Fail(w, &api.Error{Kind: api.KindUnavailable, Message: "no database", RetryAfterMS: ms}); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != want {
			t.Errorf("in front, after %d ms: %d, %q; want %q", ms, w.Code, w.Header().Get("Retry-After"), want)
		}
	}
}
