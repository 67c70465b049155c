package client_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
)

// TestPullIsCutAloud: an answer that ends before its end is an error.
func TestPullIsCutAloud(t *testing.T) {
	for _, tt := range []struct{ body, says string }{
		{"", "ended before image python:3.12"},
		{"{\"step\":\"a\"}\n", "ended before image python:3.12"},
		{"{\"step\":\"a\"}\n{\"im", "was interrupted"},
		{`{"type":"error","error":{"kind":"denied","detail":"no access"}}`, "no access"},
		{"{\"new\":1}\n{\"image\":{\"id\":\"py\",\"more\":2}}\n", ""},
	} {
		got, err := answering(t, tt.body).Images.Pull(t.Context(), api.PullImage{Reference: "python:3.12"}, nil)
		if tt.says == "" {
			if err != nil || got.ID != "py" {
				t.Errorf("%q: %+v, %v", tt.body, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v", tt.body, err)
		}
	}
}

// TestImageNamesAreOneSegment: whatever is in a reference, it is one segment of the path.
func TestImageNamesAreOneSegment(t *testing.T) {
	var target string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target = r.RequestURI
		_, _ = w.Write([]byte(`{"id":"x"}`))
	}))
	defer srv.Close()
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}
	for prefix, begins := range map[string]string{"": "", "/a b": "/a%20b"} {
		c := client.New(client.Config{Dial: dial, Prefix: prefix})
		defer c.Close()
		for name, want := range map[string]string{
			"shell":                               "shell",
			"docker.io/library/python:3.12":       "docker.io%2Flibrary%2Fpython:3.12",
			"/srv/my images/a.tar":                "%2Fsrv%2Fmy%20images%2Fa.tar",
			"a?b#c%2f..":                          "a%3Fb%23c%252f..",
			"a@sha256:" + strings.Repeat("0", 64): "a@sha256:" + strings.Repeat("0", 64),
		} {
			if _, err := c.Images.Get(t.Context(), name); err != nil || target != begins+"/v1/images/"+want {
				t.Errorf("%q: %s, %v", name, target, err)
			}
		}
	}
}
