package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// TestManagerDial opens streams to a port through the manager: as many as are
// allowed, no more, and again when some were given back.
func TestManagerDial(t *testing.T) {
	m := newManaged(t)
	s := m.room(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// It accepts nobody: the kernel does, which is all that this test wants.
	x, err := m.Guests.StartExec(ctx, s.ID, api.ExecRequest{Args: []string{"python3", "-c",
		"import socket, time\ns = socket.create_server(('127.0.0.1', 0), backlog=1024)\nprint(s.getsockname()[1], flush=True)\ntime.sleep(1e6)"}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var out string
	for !strings.Contains(out, "\n") {
		ev, err := x.Next()
		if err != nil || ev.End != nil {
			t.Skipf("no server without python3: %v, %+v", err, ev)
		}
		if ev.Data != nil {
			out += string(ev.Data.Stdout)
		}
	}
	port, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for {
		c, err := m.Guests.Dial(ctx, s.ID, port)
		if api.KindOf(err) == api.KindExhausted {
			break
		}
		if err != nil {
			t.Fatalf("after %d: %v", len(open), err)
		}
		if open = append(open, c); len(open) > 1000 {
			t.Fatal("there is no bound")
		}
	}
	if len(open) != 128 {
		t.Errorf("%d streams were opened", len(open))
	}
	// Commands are served all the same.
	if stdout, _, exit := m.bash(t, s.ID, "", "echo served"); stdout != "served\n" || exit.Code != 0 {
		t.Errorf("a command meanwhile: %q, %+v", stdout, exit)
	}
	open[0].Close()
	open[0].Close() // a second time gives nothing back
	c, err := m.Guests.Dial(ctx, s.ID, port)
	if err != nil {
		t.Fatalf("with one given back: %v", err)
	}
	open = append(open, c)
	if _, err := m.Guests.Dial(ctx, s.ID, port); api.KindOf(err) != api.KindExhausted {
		t.Errorf("with none given back: %v", err)
	}
	open[1].Close()
	if _, err := m.Guests.Dial(ctx, s.ID, 1); !errors.Is(err, envd.ErrPortClosed) || api.KindOf(err) != api.KindUnavailable {
		t.Errorf("a closed port: %v", err)
	}
	for _, bad := range []int{0, -1, 65536} {
		if _, err := m.Guests.Dial(ctx, s.ID, bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("port %d: %v", bad, err)
		}
	}
	if id, ok := m.Guests.ExecOf(s.ID, x.Exec().PID); !ok || id != x.Exec().ID {
		t.Errorf("the command of process %d: %s, %v", x.Exec().PID, id, ok)
	}
	if _, ok := m.Guests.ExecOf(s.ID, 1); ok {
		t.Error("the guest is taken for a command")
	}
	if _, _, err := m.Sandboxes.Kill(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, open[2]); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream outlived the sandbox: %v", err)
	}
	if _, err := m.Guests.Dial(ctx, s.ID, port); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("of a dead sandbox: %v", err)
	}
}
