package daemon

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/front"
	"hortus.dev/test/world"
)

// stalled is a client of a command that prints without end; it reads nothing. It comes
// back when the command has no space left to print to.
func stalled(t *testing.T, w *world.World, addr string, id api.SandboxID) *net.TCPConn {
	t.Helper()
	c := reach(t, addr)
	world.OK(t, c.SetReadBuffer(4<<10))
	const message = `{"process":{"cmd":"cat","args":["/dev/zero"]},"stdin":false}`
	body := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
	fmt.Fprintf(c, "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: %s\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s",
		id, tokens(w).Envd(string(id)), len(body), body)
	last, same := int64(0), 0
	world.Eventually(t, "the client's command is held up", func() bool {
		all, err := w.Sandboxes.Guests.Execs(t.Context(), id)
		if err != nil || len(all) != 1 || all[0].OutputBytes == 0 || all[0].OutputBytes != last {
			if len(all) == 1 {
				last, same = all[0].OutputBytes, 0
			}
			return false
		}
		same++
		return same > 30
	})
	return c
}

// held reports whether the server of a connection still holds its end.
func held(t *testing.T, c *net.TCPConn) bool {
	t.Helper()
	b := world.Must(os.ReadFile("/proc/net/tcp"))(t)
	end := func(a net.Addr) string { return fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port) }
	for line := range strings.Lines(string(b)) {
		// A socket that no process has any more has no inode.
		if f := strings.Fields(line); len(f) > 9 && strings.HasSuffix(f[1], end(c.RemoteAddr())) && strings.HasSuffix(f[2], end(c.LocalAddr())) {
			return f[9] != "0"
		}
	}
	return false
}

// TestStalledClientOfADaemon: a client that stops reading holds nothing once its sandbox
// was killed, and holds up no daemon that ends.
func TestStalledClientOfADaemon(t *testing.T) {
	w, addr := listening(t, front.Bounds{Grace: 10 * time.Millisecond})
	ids := make([]api.SandboxID, 2)
	for i := range ids {
		s := world.Must(w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "process"}))(t)
		ids[i] = s.ID()
		s.Close()
	}
	c := stalled(t, w, addr, ids[0])
	if !held(t, c) {
		t.Error("the control: the connection is not held")
	}
	if _, _, err := w.Sandboxes.Sandboxes.Kill(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, "the connection ends after its sandbox", func() bool { return !held(t, c) })

	stalled(t, w, addr, ids[1])
	world.OK(t, w.Client.Stop(t.Context(), true))
	w.Ended()
}
