package envd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	server "hortus.dev/internal/server/envd"
)

// narrow accepts connections that hold little of what a client does not take.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// stall sends a request, and takes nothing of its answer.
func stall(t *testing.T, addr, request string) net.Conn {
	t.Helper()
	c := dial(t, addr)
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStalledAtTheEnd: who asks for more than it takes is release when its sandbox
// ends, and what served it too.
func TestStalledAtTheEnd(t *testing.T) {
	f, id := newFakes()
	asked, done := make(chan struct{}, 1), make(chan struct{}, 1)
	flood := func(head string) func(net.Conn) {
		return func(c net.Conn) {
			defer func() { done <- struct{}{} }()
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if _, err := io.WriteString(c, head); err != nil {
				t.Error(err)
				return
			}
			asked <- struct{}{} // after the head, which the end of the sandbox would cut
			for {
				if _, err := c.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}
	}
	const body = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000000000\r\n\r\n"
	const upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	ask := func(method, path, port, more string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %s\r\nX-Access-Token: envd%s\r\n%s", method, path, id, port, id, more)
	}
	start := frame(0, startBody)
	for name, tt := range map[string]struct{ request, answer string }{
		"a command":   {request: ask("POST", "/process.Process/Start", "49983", fmt.Sprintf("Content-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s", len(start), start))},
		"a download":  {ask("GET", "/files?path=a", "49983", "\r\n"), body},
		"a port":      {ask("GET", "/", "3000", "\r\n"), body},
		"a WebSocket": {ask("GET", "/", "3000", "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), upgraded},
		"an upload":   {ask("POST", "/files?path=a", "49983", "Content-Length: 1000\r\n\r\nhalf"), body},
	} {
		t.Run(name, func(t *testing.T) {
			f.ended = make(chan struct{})
			f.change(id, func(b *api.Sandbox) { b.State = api.SandboxRunning })
			f.guest = flood(tt.answer)
			f.port = func(_ int, c net.Conn) { flood(tt.answer)(c) }
			f.script = func() server.ExecStream { asked <- struct{}{}; return &spring{f.ended, done} }
			srv := httptest.NewUnstartedServer(server.New(server.Config{Sandboxes: f, Tokens: f, Now: f.clock, Grace: time.Millisecond}))
			srv.Listener = narrow{srv.Listener}
			srv.Start()
			defer srv.Close()
			defer srv.CloseClientConnections()
			c := stall(t, srv.Listener.Addr().String(), tt.request)
			<-asked
			if tt.answer == upgraded { // which then is no request any more
				if _, err := c.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			f.change(id, func(b *api.Sandbox) { b.State = api.SandboxEnded })
			close(f.ended)
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Error("it is held by a client that takes nothing")
			}
		})
	}
	f.wg.Wait()
}

// spring is a command that prints for as long as it is read.
type spring struct{ ended, done chan struct{} }

func (s *spring) Exec() api.Exec         { return api.Exec{ID: "x0123456789abcdefghi"} }
func (s *spring) Ended() <-chan struct{} { return s.ended }
func (s *spring) Close() error           { s.done <- struct{}{}; return nil }
func (s *spring) Next() (*envd.ProcessEvent, error) {
	return &envd.ProcessEvent{Data: &envd.DataEvent{Stdout: make([]byte, 8<<10)}}, nil
}

// TestReaderHasGrace: a client that reads gets what was there before the end.
func TestReaderHasGrace(t *testing.T) {
	f, id := newFakes()
	ended := make(chan struct{})
	close(ended)
	f.script = func() server.ExecStream {
		s := &script{ended: ended, events: []*envd.ProcessEvent{{Start: &envd.StartEvent{PID: 7}}}}
		for range 1000 {
			s.events = append(s.events, &envd.ProcessEvent{Data: &envd.DataEvent{Stdout: []byte("x")}})
		}
		return s
	}
	fr := frames(t, start(id, frame(0, startBody)).to(t, serve(t, f)).body)
	if len(fr) != 1002 || fr[1001] != "2 {}" || !strings.Contains(fr[1000], "eA==") {
		t.Errorf("%d frames, the last %q", len(fr), fr[len(fr)-1])
	}
}
