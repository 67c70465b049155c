package attack

import (
	"context"
	"os"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/e2b"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/daemon"
	daemons "hortus.dev/test/world"
)

// atService makes the backend of a service that speaks E2B's API: a second Hortus, whose sandboxes are containers of this machine. What an
// attack proves there is that the guest, which is one more program of such a container, adds no way out and weakens none of its walls.
func (w *world) atService(t *testing.T) (backend, error) {
	t.Helper()
	other := daemons.Open(t, daemons.Config{Config: daemon.Config{Usual: api.CreateSandbox{Isolation: "container"}}})
	other.Isolates(t, "container")
	key := other.Key("attacked", api.RoleUser).Secret
	s, err := e2b.New(e2b.Config{APIURL: other.URL, SandboxURL: other.URL, Key: func(context.Context) (string, error) { return key, nil }})
	if err != nil {
		return nil, err
	}
	t.Cleanup(s.Close)
	guest, err := os.Open(staticGuest(t))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { guest.Close() })
	return remote.New(remote.Config{Service: s, Dir: w.run, Guest: guest, Layers: w.layers, Workspaces: w.workspaces})
}
