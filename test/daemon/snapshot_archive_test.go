package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/archivetest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// hosts are two daemons that have an archive and a key in common. The tests copy rows from the database of the one to that of the
// other, as if both had one database.
type hosts struct {
	t    *testing.T
	a, b *world.World
}

func openHosts(t *testing.T, archive string) *hosts {
	t.Helper()
	open := func(dir string) *world.World {
		return world.Open(t, world.Config{GVisor: true, Config: daemon.Config{DataDir: dir, LayerArchive: archive, SnapshotArchive: true}})
	}
	h := &hosts{t: t, a: open("")}
	h.a.Isolates(t, "gvisor")
	// The other one has the same key.
	dir := world.NewDir(t)
	key := world.Must(os.ReadFile(h.a.Dir.DatabaseKey()))(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hortus.db-key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	h.b = open(dir)
	return h
}

// hold starts a program that has random bytes in its memory and says their digest.
const hold = `cat >/tmp/held.py <<'END'
import hashlib, os, socket
data = bytearray()
for _ in range(%d):
    data += os.urandom(1 << 20)
s = socket.create_server(("127.0.0.1", 7007))
open("/tmp/ready", "w").close()
while True:
    c, _ = s.accept()
    c.sendall(hashlib.sha256(data).hexdigest().encode() + b"\n")
    c.close()
END
setsid python3 /tmp/held.py </dev/null >/tmp/held.out 2>&1 & until [ -e /tmp/ready ]; do kill -0 $! || exit 1; sleep 0.05; done`

func (h *hosts) shell(s *client.Sandbox, script string) string {
	h.t.Helper()
	out, err := s.Command(h.t.Context(), "/bin/sh", "-c", script).Output()
	if err != nil {
		h.t.Fatalf("%.60s: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}

// digest asks the program of hold.
func (h *hosts) digest(s *client.Sandbox) string {
	h.t.Helper()
	return h.shell(s, `python3 -c "import socket; print(socket.create_connection(('127.0.0.1', 7007)).makefile().read())"`)
}

// filled creates a sandbox on host a with so many MiB of random bytes.
func (h *hosts) filled(megabytes int) *client.Sandbox {
	h.t.Helper()
	s := world.Must(h.a.Client.Sandboxes.Create(h.t.Context(), api.CreateSandbox{
		Isolation: "gvisor", Limits: api.Limits{MemoryBytes: int64(megabytes+512) << 20}, TTLMS: time.Hour.Milliseconds(),
	}))(h.t)
	h.shell(s, fmt.Sprintf(hold, megabytes))
	return s
}

// archived waits until a snapshot of host a is in the archive, and makes its row known to host b.
func (h *hosts) archived(id api.SnapshotID) api.Snapshot {
	h.t.Helper()
	r := world.Must(h.a.Sandboxes.Saver.GetSnapshot(h.t.Context(), id))(h.t)
	for tick := time.Tick(10 * time.Millisecond); r.Archived == ""; r = world.Must(h.a.Sandboxes.Saver.GetSnapshot(h.t.Context(), id))(h.t) {
		select {
		case <-tick:
		case <-h.t.Context().Done():
			h.t.Fatal("it is not stored")
		}
	}
	r.Owner = ""
	if err := h.b.DB.InsertSnapshot(h.t.Context(), r); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// TestSnapshotOnAnotherHost: the memory of a sandbox continues on another host, from a snapshot and from a pause.
func TestSnapshotOnAnotherHost(t *testing.T) {
	h := openHosts(t, t.TempDir())
	ctx := t.Context()
	s := h.filled(16)
	want := h.digest(s)

	saved := world.Must(s.Snapshot(ctx, api.CreateSnapshot{}))(t)
	h.archived(saved.ID)
	// The other host has its own programs, which are the same on this machine.
	own := world.Must(h.b.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "gvisor"}))(t)
	there := world.Must(h.b.Client.Sandboxes.Create(ctx, api.CreateSandbox{Template: string(saved.ID)}))(t)
	if got := h.digest(there); got != want {
		t.Errorf("the memory on the other host is %q, not %q", got, want)
	}

	// A move: the row of the sandbox gets another owner.
	row, _, err := h.a.Sandboxes.Mover.Move(ctx, s.ID(), nil, func(ctx context.Context, row api.Sandbox) error {
		h.archived(row.Snapshot)
		row.Owner = world.Must(h.b.DB.Sandbox(ctx, own.ID()))(t).Owner
		return h.b.DB.InsertSandbox(ctx, row)
	})
	if err != nil || row.State != api.SandboxPaused || !row.Moving {
		t.Fatalf("%+v, %v", row, err)
	}
	moved := world.Must(h.b.Client.Sandboxes.Get(ctx, string(s.ID())))(t)
	if r, err := moved.Resume(ctx); err != nil || r.State != api.SandboxRunning || r.ID != s.ID() {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := h.digest(moved); got != want {
		t.Errorf("the memory after the move is %q, not %q", got, want)
	}
	// It was the only one that the state was for.
	if _, err := h.b.Sandboxes.Saver.GetSnapshot(ctx, row.Snapshot); err != nil {
		t.Fatal(err)
	}
	if r := world.Must(h.b.Sandboxes.Saver.GetSnapshot(ctx, row.Snapshot))(t); r.State != api.SnapshotRemoved {
		t.Errorf("the state of the pause is %s", r.State)
	}
}

// TestForkOnAnotherHost measures a fork of 100 MB of memory on another host, up to the output of its first command, and compares it with a local
// fork.
func TestForkOnAnotherHost(t *testing.T) {
	tier.Soak(t)
	for _, place := range []string{"directory", "object store"} {
		t.Run(place, func(t *testing.T) {
			archive := t.TempDir()
			if place != "directory" {
				archive = "s3://" + archivetest.Bucket + "/hosts?endpoint=" + archivetest.Gateway(t)
			}
			h := openHosts(t, archive)
			ctx := t.Context()
			s := h.filled(100)
			want := h.digest(s)
			h.shell(world.Must(h.b.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "gvisor"}))(t), "true") // its template
			var best, local, stored time.Duration
			for range 5 {
				begin := time.Now()
				forked := world.Must(s.Fork(ctx, api.ForkSandbox{Count: 1}))(t)
				if forked.Children[0].Error != nil {
					t.Fatal(forked.Children[0].Error)
				}
				child := world.Must(h.a.Client.Sandboxes.Get(ctx, string(forked.Children[0].Sandbox.ID)))(t)
				h.shell(child, "true")
				local = least(local, time.Since(begin))
				child.Kill(ctx)

				saved := world.Must(s.Snapshot(ctx, api.CreateSnapshot{}))(t)
				begin = time.Now()
				h.archived(saved.ID)
				stored = least(stored, time.Since(begin))
				begin = time.Now()
				there := world.Must(h.b.Client.Sandboxes.Create(ctx, api.CreateSandbox{Template: string(saved.ID)}))(t)
				h.shell(there, "true")
				best = least(best, time.Since(begin))
				if got := h.digest(there); got != want {
					t.Errorf("the memory on the other host is %q, not %q", got, want)
				}
				there.Kill(ctx)
			}
			t.Logf("100 MB, %s: stored in %v; first command on the other host after %v, of a local fork after %v: %.1f times", place, stored, best, local, float64(best)/float64(local))
			// On a machine with other work both are slower.
			if best > max(1200*time.Millisecond, 20*local) {
				t.Errorf("the first command on the other host needed %v", best)
			}
		})
	}
}

// least is the least of two durations, of which the first is 0 before there is one.
func least(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
