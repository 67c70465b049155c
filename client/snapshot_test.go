package client_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
)

// answering is a client of a daemon that answers everything with a body.
func answering(t *testing.T, body string) *client.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	c := client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}})
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// TestCreateTemplateIsCutAloud: an answer that ends before its end is an error, and
// what a later daemon adds to it is none.
func TestCreateTemplateIsCutAloud(t *testing.T) {
	for _, tt := range []struct{ body, says string }{
		{"", "ended before template py"},
		{"{\"step\":\"a\"}\n", "ended before template py"},
		{"{\"step\":\"a\"}\n{\"", "was interrupted"},
		{"<html>", "was interrupted"},
		{`{"type":"error","error":{"kind":"timeout","detail":"too long"}}`, "too long"},
		{"{\"new\":1}\n{\"snapshot\":{\"name\":\"py\",\"more\":2}}\n", ""},
	} {
		got, err := answering(t, tt.body).Templates.Create(t.Context(), api.CreateTemplate{Name: "py"}, nil)
		if tt.says == "" {
			if err != nil || got.Name != "py" {
				t.Errorf("%q: %+v, %v", tt.body, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, want %q", tt.body, err, tt.says)
		}
	}
}

// TestSnapshotNames: what can name nothing is not sent.
func TestSnapshotNames(t *testing.T) {
	c := answering(t, `{"name":"any"}`)
	for name, ok := range map[string]bool{
		"py": true, "my-py-3": true, "s0123456789abcdefghi": true,
		"": false, "-": false, "Py": false, "../x": false, "a/b": false, "a b": false, "a\x00": false, "é": false,
	} {
		if _, err := c.Snapshots.Get(t.Context(), name); (err == nil) != ok {
			t.Errorf("Snapshot(%q): %v", name, err)
		}
		if _, err := c.Snapshots.Remove(t.Context(), name); (err == nil) != ok || !ok && api.KindOf(err) != api.KindInvalid {
			t.Errorf("RemoveSnapshot(%q): %v", name, err)
		}
	}
}
