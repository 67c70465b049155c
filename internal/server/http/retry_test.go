package http_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestRetryAfter: who is told that there is no space is told when to ask again, in the
// header that every client knows, in whole seconds and not too early.
func TestRetryAfter(t *testing.T) {
	c, path := serve(t, &fakes{})
	_, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "full"})
	if api.KindOf(err) != api.KindExhausted || api.RetryAfterOf(err) != 1001*time.Millisecond {
		t.Errorf("%v, after %s", err, api.RetryAfterOf(err))
	}
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer hc.CloseIdleConnections()
	resp, err := hc.Post("http://server/v1/sandboxes", "application/json", strings.NewReader(`{"isolation":"full"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("%s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
}
