package story

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestGetDuringLargePause: while a gigabyte of memory is saved, the daemon answers requests
// about the sandbox. After the resume the program
// has what it had.
func TestGetDuringLargePause(t *testing.T) {
	tier.Soak(t) // a gigabyte
	tier.AnyUser(t)
	megabytes := tier.Count(256, 1024)
	g := newGarden(t)
	g.canSaveMemory()
	id := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "gvisor", "--ttl", "10m", "--memory", fmt.Sprintf("%dM", megabytes+512)))
	g.must("sandbox", "exec", id, "--", "sh", "-c", fmt.Sprintf(`cat >held.py <<'END'
import hashlib, os, socket
data = bytearray()
for _ in range(%d):
    data += os.urandom(1 << 20)
s = socket.create_server(("127.0.0.1", 7007))
open("ready", "w").close()
while True:
    c, _ = s.accept()
    c.sendall(hashlib.sha256(data).hexdigest().encode())
    c.close()
END
setsid python3 held.py </dev/null >held.out 2>&1 & until [ -e ready ]; do kill -0 $! || exit 1; sleep 0.05; done`, megabytes))
	digest := func() string {
		t.Helper()
		return g.must("sandbox", "exec", id, "--", "python3", "-c",
			"import socket; print(socket.create_connection(('127.0.0.1', 7007)).makefile().read())")
	}
	before := digest()
	cl := g.client()
	defer cl.Close()
	sandbox, err := cl.Sandboxes.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close()
	paused := make(chan error, 1)
	go func() {
		_, err := sandbox.PauseToDisk(t.Context())
		paused <- err
	}()
	saving := func() bool {
		all, err := cl.Snapshots.List(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(s api.Snapshot) bool { return s.State == api.SnapshotSaving })
	}
	// An answer counts if the save was under way before the request and after it.
	answers := 0
	for over := false; !over; {
		select {
		case err := <-paused:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
			before := saving()
			if _, err := sandbox.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
			if before && saving() {
				answers++
			}
		}
	}
	t.Logf("%d MB: %d answers during the save", megabytes, answers)
	if answers == 0 {
		t.Error("no answer during the save")
	}
	g.must("sandbox", "resume", id)
	if after := digest(); after != before {
		t.Errorf("the memory is %q after the pause; want %q", after, before)
	}
}
