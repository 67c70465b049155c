package fleet

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestCopiedDirectory: a daemon with a copy of the data directory of a node does not start while that node lives, which keeps what it has. It starts when the node has
// ended.
func TestCopiedDirectory(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	b := newBase(t)
	node := b.open(t, 1)[0]
	box := world.Sandbox(t, node.Client, api.CreateSandbox{Isolation: "process"})
	dir := b.dir(t)
	for _, name := range []string{"node", "store"} {
		text := world.Must(os.ReadFile(node.Dir.Path(name)))(t)
		world.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	copied := world.Config{Config: daemon.Config{DataDir: dir, Store: b.store, Fleet: daemon.FleetConfig{Name: "copy", Listen: "127.0.0.1:0"}}}
	err := world.Refuses(t, copied)
	if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "is a copy of that of node a") || !strings.Contains(api.HintOf(err), "--data-dir") {
		t.Errorf("the copy: %v (%s)", err, api.HintOf(err))
	}
	world.OK(t, box.Command(t.Context(), "true").Run())
	if row := world.Must(node.DB.Sandbox(t.Context(), box.ID()))(t); row.State != api.SandboxRunning {
		t.Errorf("the sandbox of the node is %s: %s", row.State, row.Reason)
	}
	node.Stop()
	world.Open(t, copied)
}

// TestAddressTaken: a daemon whose address is taken does not join: other nodes see nothing of it.
func TestAddressTaken(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	b := newBase(t)
	node := b.open(t, 1)[0]
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	world.OK(t, err)
	defer taken.Close()
	dir, log := b.dir(t), filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	world.OK(t, err)
	defer out.Close()
	late := exec.CommandContext(t.Context(), "/proc/self/exe", "daemon", "run", "--data-dir", dir, "--idle", "never", "--pool", "0")
	late.Args[0], late.Stdout, late.Stderr = "hortus", out, out
	late.Env = append(os.Environ(), "HORTUS_STORE_URL="+b.store.URL, "HORTUS_FLEET_NAME=late", "HORTUS_FLEET_LISTEN=127.0.0.1:0", "HORTUS_DAEMON_SERVE=true", "HORTUS_LISTEN="+taken.Addr().String())
	ended := late.Run()
	text := world.Must(os.ReadFile(log))(t)
	if ended == nil || !strings.Contains(string(text), "address already in use") {
		t.Errorf("a daemon whose address is taken: %v\n%s", ended, text)
	}
	if f := world.Must(node.Client.FleetNodes(t.Context()))(t); len(f.Nodes) != 1 {
		t.Errorf("the nodes are %+v", f.Nodes)
	}
}
