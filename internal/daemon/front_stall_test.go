package daemon

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/front"
)

// stalled is a client of a command that prints without end; it reads nothing. It comes
// back when the command has no space left to print to.
func stalled(t *testing.T, s *System, addr string, id api.SandboxID) {
	t.Helper()
	c := reach(t, addr)
	if err := c.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	const message = `{"process":{"cmd":"cat","args":["/dev/zero"]},"stdin":false}`
	body := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
	fmt.Fprintf(c, "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: %s\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s",
		id, s.guards.tokens.Envd(string(id)), len(body), body)
	last, same := int64(0), 0
	eventually(t, "the client's command is held up", func() bool {
		all, err := s.sandboxes.Guests.Execs(t.Context(), id)
		if err != nil || len(all) != 1 || all[0].OutputBytes == 0 || all[0].OutputBytes != last {
			if len(all) == 1 {
				last, same = all[0].OutputBytes, 0
			}
			return false
		}
		same++
		return same > 30
	})
}

// TestStalledClientOfADaemon: a client that stops reading holds nothing once its sandbox
// was killed, and holds up no daemon that ends.
func TestStalledClientOfADaemon(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{
		DataDir: shortDir(t), Idle: -1, Pool: -1, Front: front.Config{Listen: "127.0.0.1:0", Bounds: front.Bounds{Grace: 10 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), func() { close(ready) }) }()
	<-ready
	box := func() api.SandboxID {
		row, err := s.sandboxes.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
		if err != nil {
			t.Fatal(err)
		}
		return row.ID
	}
	// A second server shows what becomes of its connections.
	gone := make(chan struct{}, 1)
	srv := s.frontServer(s.httpServer(), func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			gone <- struct{}{}
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := make(chan error, 1)
	go func() { other <- srv.Serve(ln) }()
	id := box()
	stalled(t, s, ln.Addr().String(), id)
	if _, _, err := s.sandboxes.Sandboxes.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the client holds its connection after its sandbox's end")
	}
	srv.Close()
	<-other

	stalled(t, s, strings.TrimPrefix(s.url, "http://"), box())
	if err := s.service.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the daemon waits for a client that takes nothing")
	}
}
