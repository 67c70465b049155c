package fleet

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
)

// TestIsolatedNode holds what the database says to a node for longer than its lease. Load balancers, clients of each API and commands of its
// machine are told at once that it serves nothing, and no second daemon is started.
func TestIsolatedNode(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	server := postgrestest.Start(t)
	proxy := server.Proxy(t)
	b := base{store: daemon.Store{URL: proxy.URL(server.Database(t))}, key: make([]byte, 32)}
	w := b.open(t, 1)[0]
	ready := func(ctx context.Context) bool {
		status, _ := call(t, "GET", w.URL+"/readyz", "")
		return status == 200
	}
	until(t, "the node is ready", ready)
	proxy.Hold()
	until(t, "the node is not ready", func(ctx context.Context) bool { return !ready(ctx) })
	for path, want := range map[string]string{
		"/readyz":       `"ready":false,"missing":["database: node a has not reached the database for `,
		"/v1/sandboxes": `"kind":"unavailable"`,
		"/sandboxes":    `"code":503,"message":"node a has not reached the database for `,
	} {
		if status, body := call(t, "GET", w.URL+path, ""); status != 503 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	began := time.Now()
	_, err := daemon.Connect(t.Context(), daemon.ConnectOptions{Options: launch.Options{DataDir: string(w.Dir)}})
	if err == nil || !strings.Contains(err.Error(), "node a has not reached the database for") {
		t.Errorf("a command: %v", err)
	}
	t.Logf("a command of the machine ends after %s: %v", time.Since(began).Round(time.Millisecond), err)
	if _, err := os.Stat(w.Dir.Log()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a daemon was started, whose log there is: %v", err)
	}
	proxy.Release()
	until(t, "the node is ready again", ready)
}
