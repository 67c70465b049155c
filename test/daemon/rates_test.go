package daemon

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/internal/daemon"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/test/world"
)

// TestFloodOfOneKey has one key ask much more often than it may, over both servers. It is
// told to wait, and another key is served as if nothing happened.
func TestFloodOfOneKey(t *testing.T) {
	t.Parallel()
	flood := func(w *town) (served, refused int32) {
		var wg sync.WaitGroup
		var ok, no atomic.Int32
		for range 8 {
			wg.Go(func() {
				for i := range 50 {
					status, _ := w.Call("GET", []string{"/v1/tasks", "/v2/sandboxes"}[i%2], "", "X-API-KEY", w.alice.Secret)
					switch status {
					case http.StatusOK:
						ok.Add(1)
					case http.StatusTooManyRequests:
						no.Add(1)
					default:
						t.Errorf("status %d", status)
					}
				}
			})
		}
		for i := range 10 {
			if status, answer := w.Call("GET", "/v1/tasks", "", "X-API-KEY", w.bob.Secret); status != http.StatusOK {
				t.Errorf("request %d of another key: %d %s", i, status, answer)
			}
		}
		wg.Wait()
		return ok.Load(), no.Load()
	}
	w := newTownOf(t, daemon.Config{Rates: quota.RatesConfig{Requests: 5}})
	served, refused := flood(w)
	if served < 10 || refused == 0 {
		t.Errorf("%d served, %d refused", served, refused)
	}
	req := world.Must(http.NewRequestWithContext(t.Context(), "GET", w.URL+"/v1/tasks", nil))(t)
	req.Header.Set("X-API-KEY", w.alice.Secret)
	for range 100 {
		resp := world.Must(http.DefaultTransport.RoundTrip(req))(t)
		resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			if resp.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
			}
			break
		}
	}
	// The control: with a high rate the same flood is served.
	if served, refused := flood(newTownOf(t, daemon.Config{Rates: quota.RatesConfig{Requests: 1e6}})); served != 400 || refused != 0 {
		t.Errorf("the control: %d served, %d refused", served, refused)
	}
}
