package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
)

// TestDialRemote opens a port of a sandbox whose daemon is behind a prefix and asks for a key.
func TestDialRemote(t *testing.T) {
	const key = "e2b_0123456789abcdef0123456789abcdef01234567"
	id := api.NewSandboxID()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /below/v1/sandboxes/{id}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"`+string(id)+`"}`)
	})
	var host string
	mux.HandleFunc("GET /below/v1/sandboxes/{id}/ports/80", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != key || r.Host != host {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "hello")
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	host = srv.Listener.Addr().String()
	c, err := client.Remote(srv.URL+"/below", key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Sandboxes.Get(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := s.Dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}
