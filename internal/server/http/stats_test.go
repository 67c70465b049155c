package http_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

func TestTaskStats(t *testing.T) {
	c, path := serve(t, &fakes{})
	hc := unix(path)
	defer hc.CloseIdleConnections()
	for _, since := range []time.Time{{}, time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.FixedZone("", 7200))} {
		got, err := c.Tasks.Stats(t.Context(), since)
		if err != nil || got.Tasks != 7 || !got.Since.Equal(since) {
			t.Errorf("since %v: %+v %v", since, got, err)
		}
	}
	for _, bad := range []string{"yesterday", "7d", strings.Repeat("1", 1000)} {
		resp, err := hc.Get("http://daemon/v1/stats?since=" + bad)
		if err != nil {
			t.Fatal(err)
		}
		var e api.Error
		err = json.NewDecoder(resp.Body).Decode(&e)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || e.Kind != api.KindInvalid {
			t.Errorf("%.20q: %s %+v %v", bad, resp.Status, e, err)
		}
	}
}

// unix is an HTTP client of the server.
func unix(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}
