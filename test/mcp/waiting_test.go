package mcp

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/test/world"
)

// TestWaits: a client that creates a sandbox on a full host is notified of what it waits for.
func TestWaits(t *testing.T) {
	t.Parallel()
	cfg := world.Config{}
	cfg.Usual.Isolation, cfg.Room = "process", admission.Config{MaxSandboxes: 1}
	w := world.Open(t, cfg)
	p := stdio(t, w.Client, 2*time.Second, options{version: handshake})
	first := p.create(nil)
	drain(p.progress)
	created := make(chan string, 1)
	go func() {
		out, failed := p.try("sandbox_create", nil)
		id, _ := out["sandbox_id"].(string)
		created <- id + failed
	}()
	for said := ""; !strings.HasPrefix(said, "a sandbox waits for the end of another one: 1 of 1 sandboxes exist"); {
		select {
		case said = <-p.progress:
		case end := <-created:
			t.Fatal("it did not wait: ", end)
		}
	}
	s := world.Must(w.Client.Sandboxes.Get(t.Context(), first))(t)
	defer s.Close()
	world.Must(s.Kill(t.Context()))(t)
	if second := <-created; second == first || second == "" || strings.Contains(second, " ") {
		t.Errorf("created %q", second)
	}
}
