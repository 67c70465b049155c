package world

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/internal/daemon/datadir"
)

// Event is a server-sent event.
type Event struct{ ID, Name, Data string }

// Over sends a request to the socket of a data directory's daemon, as any program would.
func Over(t *testing.T, ctx context.Context, dir, method, path, body string, header ...string) *http.Response {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", datadir.Dir(dir).Socket())
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://hortus"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// Text reads a whole answer.
func Text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Into decodes a whole answer, which must have that status.
func Into[T any](t *testing.T, resp *http.Response, status int) (v T) {
	t.Helper()
	text := Text(t, resp)
	if resp.StatusCode != status {
		t.Fatalf("%s, want %d: %s", resp.Status, status, text)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// Events reads at most n server-sent events, all of them if n is below 0.
func Events(t *testing.T, r io.Reader, n int) (all []Event) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 8<<20)
	var e Event
	for n != 0 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.ID = value
		case "event":
			e.Name = value
		case "data":
			e.Data = value
		case "":
			if lines.Text() == "" && e != (Event{}) {
				all, e = append(all, e), Event{}
				n--
			}
		}
	}
	return all
}
