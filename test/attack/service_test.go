package attack

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/client"
	"hortus.dev/internal/backend/daytona"
	"hortus.dev/internal/backend/e2b"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/test/binary"
	"hortus.dev/test/daytonatest"
)

// service is a second Hortus in a process of its own, as users start it, whose sandboxes are containers of this machine.
type service struct{ url, key string }

// builtHortus is the program, built once. The directory of the layers has it, which the run removes.
var builtHortus = sync.OnceValues(func() (string, error) { return binary.In(filepath.Dir(layersDir)) })

// startService starts it, until the test ends.
func startService(t *testing.T) service {
	t.Helper()
	program, err := builtHortus()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "service-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	log, config := filepath.Join(dir, "log"), filepath.Join(dir, "config.toml")
	if err := os.WriteFile(config, []byte("[sandbox]\nisolation = \"container\"\n[daemon]\npool = 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "d"), "--config", config)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := func(what string) (value string) {
		b, _ := os.ReadFile(log)
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "export "+what+"="); ok && strings.HasSuffix(rest, "\n") {
				value = strings.TrimSpace(rest)
			}
		}
		return value
	}
	t.Cleanup(func() {
		check(t, "end the service", c.Process.Signal(unix.SIGTERM))
		err := c.Wait()
		if b, _ := os.ReadFile(log); t.Failed() || err != nil {
			t.Logf("log of the service (%v):\n%s", err, bytes.TrimSpace(b))
		}
		check(t, "remove the service", os.RemoveAll(dir))
	})
	eventually(t, "the service serves", func() bool { return said("E2B_SANDBOX_URL") != "" })
	return service{url: said("E2B_API_URL"), key: said("E2B_API_KEY")}
}

// openService makes the backend of a service, which is the second Hortus itself, or has its sandboxes there. What an attack proves is that
// the guest, which is one more program of a container, adds no way out and weakens none of its walls.
func (w *world) openService(t *testing.T) (backend, error) {
	t.Helper()
	other := startService(t)
	at, err := other.api(t, w.isolation)
	if err != nil {
		return nil, fmt.Errorf("the service at %s: %w", other.url, err)
	}
	guest, err := os.Open(staticGuest(t))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { guest.Close() })
	return remote.New(remote.Config{Service: at, Dir: w.run, Guest: guest, Layers: w.layers, Workspaces: w.workspaces})
}

// api is E2B's, which Hortus serves, or Daytona's, which a server in front of it does.
func (s service) api(t *testing.T, isolation string) (remote.Service, error) {
	t.Helper()
	keyed := func(key string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return key, nil }
	}
	if isolation == "e2b" {
		at, err := e2b.New(e2b.Config{APIURL: s.url, SandboxURL: s.url, Key: keyed(s.key)})
		if err == nil {
			t.Cleanup(at.Close)
		}
		return at, err
	}
	backing := client.New(client.Config{Key: s.key, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", strings.TrimPrefix(s.url, "http://"))
	}})
	t.Cleanup(backing.Close)
	at, err := daytona.New(daytona.Config{APIURL: daytonatest.Start(t, backing).URL + "/api", Domains: []string{"127.0.0.1"}, Key: keyed(daytonatest.Key)})
	if err == nil {
		t.Cleanup(at.Close)
	}
	return at, err
}
