//go:build linux

package guest

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

// A broken client loses its own connection and affects nothing else.
func TestBrokenClients(t *testing.T) {
	g := startGuest(t, guestOptions{})
	huge := "POST " + envd.ProcStart + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+proto\r\nContent-Length: 5\r\n\r\n\x00\xff\xff\xff\xff"
	for _, tc := range []struct{ sent, want string }{
		{"hello\r\n\r\n", "HTTP/1.1 400"},
		{"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\n", "HTTP/1.1 400"},
		{huge, "invalid_argument"},
		{strings.Replace(huge, "\xff\xff\xff\xff", "\x00\x00\x00\x00", 1), "has no command"},
		{strings.Replace(huge, "\x00\xff\xff\xff\xff", "\x01\x00\x00\x00\x00", 1), "compressed"},
		{strings.Replace(huge, "connect+proto", "connect+xml", 1), "HTTP/1.1 415"},
		{"POST " + envd.ProcList + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n{{{", "invalid_argument"},
		{"POST " + envd.ProcStreamInput + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+json\r\nContent-Length: 7\r\n\r\n\x00\x00\x00\x00\x02{}", "{}"},
	} {
		conn, err := g.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience.Of(60 * time.Second)))
		io.WriteString(conn, tc.sent)
		conn.(*net.UnixConn).CloseWrite()
		got, _ := io.ReadAll(conn)
		conn.Close()
		if !bytes.Contains(got, []byte(tc.want)) {
			t.Errorf("%.60q: answered %q", tc.sent, got)
		}
	}
	g.mustRun(t, "true")
}

// A client that stops reading blocks its process, but not other processes. The end of the
// process is still detected.
func TestStalledClient(t *testing.T) {
	g := startGuest(t, guestOptions{})
	s, err := g.client.Start(t.Context(), shell("yes"), envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid := ev.Start.PID
	g.mustRun(t, "echo others go on")
	if err := g.client.SendSignal(t.Context(), envd.Selector{PID: &pid}, 9); err != nil {
		t.Fatal(err)
	}
	until(t, "the guest knows that it ended", func() bool {
		err := g.client.SendSignal(t.Context(), envd.Selector{PID: &pid}, 9)
		return err != nil && envd.FromAPI(err).Code == envd.CodeNotFound
	})
	var r result
	collect(s, &r)
	if r.err != nil || r.end == nil || r.end.ExitCode != 137 {
		t.Fatalf("%+v %v", r.end, r.err)
	}
}

// Several clients follow one process, each with all of its output.
func TestFollowers(t *testing.T) {
	g := startGuest(t, guestOptions{})
	g.mustRun(t, "mkfifo gate")
	s, err := g.client.Start(t.Context(), shell("read x < gate; head -c 3000000 /dev/zero; echo end >&2"), envd.StartOptions{ExecID: "f"})
	if err != nil {
		t.Fatal(err)
	}
	results := make([]result, 4)
	done := make(chan int)
	for i := range results {
		c, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "f", Offset: 0})
		if err != nil {
			t.Fatal(err)
		}
		go func() { collect(c, &results[i]); done <- i }()
	}
	g.mustRun(t, "echo > gate")
	var first result
	collect(s, &first)
	for range results {
		<-done
	}
	for _, r := range append(results, first) {
		if r.err != nil || r.stdout.Len() != 3_000_000 || r.stderr.String() != "end\n" || r.end == nil {
			t.Errorf("%d bytes, %q, %+v, %v", r.stdout.Len(), r.stderr.String(), r.end, r.err)
		}
	}
}

// If output is dropped while nobody reads, the offset of the next stream shows it.
func TestGapIsVisible(t *testing.T) {
	g := startGuest(t, guestOptions{})
	ctx, leave := context.WithCancel(t.Context())
	s, err := g.client.Start(ctx, shell("sleep 0.2; head -c 5000000 /dev/zero; echo tail"), envd.StartOptions{ExecID: "g"})
	if err != nil {
		t.Fatal(err)
	}
	leave()
	s.Next()
	until(t, "it has ended", func() bool {
		l, err := g.client.List(t.Context())
		return err == nil && len(l) == 0
	})
	c, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "g", Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := c.Next()
	if err != nil || ev.Start.Offset != 5_000_005-int64(g.cfg.OutputBuffer) {
		t.Fatalf("%+v %v", ev.Start, err)
	}
	var r result
	collect(c, &r)
	if r.stdout.Len() != g.cfg.OutputBuffer || !strings.HasSuffix(r.stdout.String(), "tail\n") {
		t.Errorf("%d bytes", r.stdout.Len())
	}
}

// An idle connection whose guest was restarted is detected as closed before anything is
// sent on it.
func TestDeadIdleConnection(t *testing.T) {
	g := startGuest(t, guestOptions{})
	var conns []net.Conn
	c := envd.NewClient(envd.ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := g.dial(ctx)
		conns = append(conns, conn)
		return conn, err
	}})
	defer c.Close()
	for range 3 {
		s, err := c.Start(t.Context(), shell("echo x"), envd.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var r result
		if collect(s, &r); r.end == nil {
			t.Fatal(r.err)
		}
	}
	if len(conns) != 1 {
		t.Fatalf("%d connections for 3 commands in a row", len(conns))
	}
	conns[0].(*net.UnixConn).CloseWrite() // the guest hangs up
	until(t, "the guest hung up", func() bool { return !peekAlive(conns[0]) })
	s, err := c.Start(t.Context(), shell("echo x"), envd.StartOptions{})
	if err != nil || len(conns) != 2 {
		t.Fatal(err, len(conns))
	}
	s.Close()
}

func peekAlive(conn net.Conn) bool {
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer conn.SetReadDeadline(time.Time{})
	_, err := conn.Read(make([]byte, 1))
	return err != io.EOF
}

func TestCutStream(t *testing.T) {
	g := startGuest(t, guestOptions{})
	s, err := g.client.Start(t.Context(), shell("sleep 100"), envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	g.kill()
	if _, err := s.Next(); api.KindOf(err) != api.KindUnavailable {
		t.Fatalf("after the guest's death: %v", err)
	}
	if err := g.client.Health(t.Context()); api.KindOf(err) != api.KindUnavailable {
		t.Fatalf("a dead guest: %v", err)
	}
}
