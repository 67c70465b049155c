package envd_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	server "hortus.dev/internal/server/envd"
)

const startBody = `{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi"],"envs":{"K":"V"},"cwd":"/x"},"tag":"t","stdin":false}`

// frame wraps a message as a Connect stream does.
func frame(flag byte, text string) string {
	b := binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(text)))
	return string(b) + text
}

// frames takes a stream apart: "0 {...}" a message, "2 {...}" the end.
func frames(t testing.TB, body string) (out []string) {
	t.Helper()
	for len(body) > 0 {
		if len(body) < 5 || len(body) < 5+int(binary.BigEndian.Uint32([]byte(body[1:5]))) {
			return append(out, fmt.Sprintf("cut %q", body))
		}
		n := 5 + int(binary.BigEndian.Uint32([]byte(body[1:5])))
		out = append(out, fmt.Sprintf("%d %s", body[0], body[5:n]))
		body = body[n:]
	}
	return out
}

func start(id api.SandboxID, body string, more ...string) ask {
	return ask{method: "POST", path: "/process.Process/Start", body: body,
		header: headers(id, append([]string{"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1"}, more...)...)}
}

// TestStartWire compares every byte that a client of E2B's gets.
func TestStartWire(t *testing.T) {
	f, id := newFakes()
	text := "exit status 3"
	f.script = func() server.ExecStream {
		return &script{events: []*envd.ProcessEvent{
			{Start: &envd.StartEvent{PID: 7, Offset: 5}},
			{Data: &envd.DataEvent{Stdout: []byte("out\x00")}},
			{Data: &envd.DataEvent{Stderr: []byte("err"), Offset: 4}},
			{Data: &envd.DataEvent{PTY: []byte("p"), Offset: 7}},
			{End: &envd.EndEvent{ExitCode: 3, Exited: true, Status: text, Error: &text, Cause: "memory limit"}},
		}}
	}
	addr := serve(t, f)
	got := start(id, frame(0, startBody), "Connect-Timeout-Ms", "1500", "Authorization", "Basic cm9vdDo=", "Keepalive-Ping-Interval", "50").to(t, addr)
	want := []string{
		`0 {"event":{"start":{"pid":7}}}`,
		`0 {"event":{"data":{"stdout":"b3V0AA=="}}}`,
		`0 {"event":{"data":{"stderr":"ZXJy"}}}`,
		`0 {"event":{"data":{"pty":"cA=="}}}`,
		`0 {"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}}`,
		`2 {}`,
	}
	if fmt.Sprint(frames(t, got.body)) != fmt.Sprint(want) || got.status != 200 || got.header.Get("Content-Type") != "application/connect+json" {
		t.Errorf("%d %v\n%s", got.status, got.header, strings.Join(frames(t, got.body), "\n"))
	}
	for name := range got.header {
		if strings.HasPrefix(name, "Hortus") {
			t.Errorf("header %s", name)
		}
	}
	req := f.started[0]
	if fmt.Sprint(req.Args) != "[/bin/bash -l -c echo hi]" || req.Env["K"] != "V" || req.Dir != "/x" || req.Tag != "t" || req.Stdin || req.User != "root" || req.TimeoutMS != 1500 {
		t.Errorf("the request came as %+v", req)
	}
}

func TestStartRefused(t *testing.T) {
	f, id := newFakes()
	f.script = func() server.ExecStream { return &script{} }
	addr := serve(t, f)
	for name, tt := range map[string]struct {
		a    ask
		code string
	}{
		"no such command": {start(id, frame(0, `{"process":{"cmd":"nosuch"}}`)), "not_found"},
		"no command":      {start(id, frame(0, `{}`)), "invalid_argument"},
		"no JSON":         {start(id, frame(0, `{"process":`)), "invalid_argument"},
		"two messages":    {start(id, frame(0, startBody)+frame(0, startBody)), "invalid_argument"},
		"an end":          {start(id, frame(2, `{}`)), "invalid_argument"},
		"compressed":      {start(id, frame(1, `xx`)), "invalid_argument"},
		"too long":        {start(id, "\x00\xff\xff\xff\xff"), "invalid_argument"},
		"nothing":         {start(id, ""), "invalid_argument"},
		"encoding":        {start(id, frame(0, startBody), "Connect-Content-Encoding", "gzip"), "unimplemented"},
		"time":            {start(id, frame(0, startBody), "Connect-Timeout-Ms", "-1"), "invalid_argument"},
		"version":         {start(id, frame(0, startBody), "Connect-Protocol-Version", "2"), "invalid_argument"},
		"ping":            {start(id, frame(0, startBody), "Keepalive-Ping-Interval", "x"), "invalid_argument"},
		"output limit":    {start(id, frame(0, startBody), "Hortus-Output-Limit", "1"), "invalid_argument"},
	} {
		got := tt.a.to(t, addr)
		fr := frames(t, got.body)
		if got.status != 200 || len(fr) != 1 || !strings.HasPrefix(fr[0], `2 {"error":{"code":"`+tt.code+`"`) {
			t.Errorf("%s: %d %q", name, got.status, fr)
		}
	}
	if got := start(id, "", "Content-Type", "text/html").to(t, addr); got.status != http.StatusUnsupportedMediaType || !strings.Contains(got.body, `"code":415`) || got.header.Get("Accept-Post") == "" {
		t.Errorf("another type: %+v", got)
	}
	if len(f.started) != 1 {
		t.Errorf("%d commands were begun", len(f.started))
	}
}

// TestLifetime: a command that is killed at the end of its time is a stream that
// ends so, for who began it.
func TestLifetime(t *testing.T) {
	f, id := newFakes()
	f.script = func() server.ExecStream {
		return &script{events: []*envd.ProcessEvent{{Start: &envd.StartEvent{PID: 7}}, {End: &envd.EndEvent{ExitCode: 137, Cause: api.CauseTimeout}}}}
	}
	addr := serve(t, f)
	fr := frames(t, start(id, frame(0, startBody)).to(t, addr).body)
	if len(fr) != 2 || !strings.HasPrefix(fr[1], `2 {"error":{"code":"deadline_exceeded"`) {
		t.Errorf("Start: %q", fr)
	}
	f.exec[7] = api.NewExecID()
	a := start(id, frame(0, `{"process":{"pid":7}}`))
	a.path = "/process.Process/Connect"
	fr = frames(t, a.to(t, addr).body)
	if len(fr) != 3 || !strings.Contains(fr[1], `"exitCode":137`) || fr[2] != "2 {}" {
		t.Errorf("Connect: %q", fr)
	}
}

// TestDropped: a sandbox that ends beneath a stream is a connection that breaks off.
// A stream that fails while the sandbox runs on is one that ends with an error.
func TestDropped(t *testing.T) {
	for _, state := range []api.SandboxState{api.SandboxEnded, api.SandboxLost, api.SandboxPaused, api.SandboxRunning} {
		f, id := newFakes()
		f.script = func() server.ExecStream {
			return &script{events: []*envd.ProcessEvent{{Start: &envd.StartEvent{PID: 7}}}, then: func() error {
				f.change(id, func(b *api.Sandbox) { b.State = state })
				return api.Errorf(api.KindUnavailable, "its end was not seen")
			}}
		}
		addr := serve(t, f)
		got := start(id, frame(0, startBody)).to(t, addr)
		fr := frames(t, got.body)
		if state == api.SandboxRunning {
			if got.err != nil || len(fr) != 2 || !strings.HasPrefix(fr[1], `2 {"error":{"code":"unavailable"`) {
				t.Errorf("%s: %v %q", state, got.err, fr)
			}
			continue
		}
		if !errors.Is(got.err, io.ErrUnexpectedEOF) || len(fr) != 1 {
			t.Errorf("%s: %v %q", state, got.err, fr)
		}
	}
}

// TestDisconnect: who leaves does not end the command, and is release.
func TestDisconnect(t *testing.T) {
	f, id := newFakes()
	closed, more := make(chan struct{}), make(chan struct{})
	var s *script
	f.script = func() server.ExecStream {
		s = &script{events: []*envd.ProcessEvent{{Start: &envd.StartEvent{PID: 7}}}, closed: closed}
		s.then = func() error {
			<-more
			if s.n > 10_000 {
				return nil
			}
			s.events = append(s.events, &envd.ProcessEvent{Data: &envd.DataEvent{Stdout: make([]byte, 8<<10)}})
			return errCut
		}
		return &endless{s}
	}
	addr := serve(t, f)
	c := dial(t, addr)
	body := frame(0, startBody)
	fmt.Fprintf(c, "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: envd%s\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s", id, id, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	c.Close()
	close(more)
	<-closed // before its 80 MB were written
	if s.n > 10_000 {
		t.Error("it was read to its end")
	}
}

// TestSilentCommandLetsGo: the connection of a client that left does not stay for as
// long as a command that says nothing.
func TestSilentCommandLetsGo(t *testing.T) {
	f, id := newFakes()
	silent := make(chan struct{})
	f.script = func() server.ExecStream {
		return &script{events: []*envd.ProcessEvent{{Start: &envd.StartEvent{PID: 7}}}, then: func() error { <-silent; return nil }}
	}
	srv := httptest.NewUnstartedServer(server.New(server.Config{Sandboxes: f, Tokens: f, Now: f.clock}))
	letGo := make(chan struct{}, 1)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateHijacked {
			letGo <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	defer close(silent) // the command itself is still followed for its record
	c := dial(t, srv.Listener.Addr().String())
	body := frame(0, startBody)
	fmt.Fprintf(c, "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: envd%s\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", id, id, len(body), body)
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	c.Close()
	select {
	case <-letGo:
	case <-time.After(time.Minute):
		t.Error("it stays")
	}
}

// endless is a command that continues for as long as it is read.
type endless struct{ *script }

func (e *endless) Next() (*envd.ProcessEvent, error) {
	ev, err := e.script.Next()
	if errors.Is(err, errCut) {
		return e.script.Next()
	}
	return ev, err
}

// TestHalfRequest ends a client after every byte of a small request: no command is
// begun by a part of one.
func TestHalfRequest(t *testing.T) {
	f, id := newFakes()
	f.script = func() server.ExecStream { return &script{events: []*envd.ProcessEvent{{End: &envd.EndEvent{}}}} }
	addr := serve(t, f)
	body := frame(0, `{"process":{"cmd":"a"}}`)
	head := fmt.Sprintf("POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: envd%s\r\nContent-Type: application/connect+json\r\nConnection: close\r\n", id, id)
	plain := head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	chunked := head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for name, whole := range map[string]string{"plain": plain, "chunked": chunked} {
		var wg sync.WaitGroup
		for n := 1; n < len(whole); n++ {
			wg.Go(func() {
				c := dial(t, addr)
				defer c.Close()
				io.WriteString(c, whole[:n])
				c.(interface{ CloseWrite() error }).CloseWrite()
				io.Copy(io.Discard, c) // until the server has done with it
			})
			if n%64 == 0 {
				wg.Wait()
			}
		}
		wg.Wait()
		f.mu.Lock()
		if n := len(f.started); n != 0 {
			t.Errorf("%s: %d commands were begun by parts of a request", name, n)
		}
		f.mu.Unlock()
	}
	for n, whole := range []string{plain, chunked} {
		if got := raw(t, addr, whole); !strings.Contains(got, "200 OK") || len(f.started) != n+1 {
			t.Errorf("the control: %q", got)
		}
	}
}

// TestGuestCutAtEveryByte ends a guest's stream after every byte of its answer: a
// client never takes a part for a whole.
func TestGuestCutAtEveryByte(t *testing.T) {
	f, id := newFakes()
	stream := frame(0, `{"event":{"start":{"pid":9}}}`) + frame(0, `{"event":{"end":{"exited":true}}}`) + frame(2, "{}")
	whole := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(stream), stream)
	cut := make(chan int, 1)
	f.guest = func(c netConn) { answers(nil, whole[:<-cut])(c) }
	addr := serve(t, f)
	a := start(id, frame(0, `{"process":{"pid":9}}`))
	a.path = "/process.Process/Connect"
	for n := 0; n <= len(whole); n++ {
		cut <- n
		got, err := a.try(t, addr)
		fr := frames(t, got.body)
		all := got.status == 200 && got.err == nil && len(fr) == 3 && fr[2] == "2 {}"
		broken := err != nil || got.status == http.StatusBadGateway || got.status == 200 && got.err != nil
		if all != (n == len(whole)) || !all && !broken {
			t.Errorf("%d bytes: %d %v %q", n, got.status, got.err, fr)
		}
	}
}

// TestConnectElsewhere: a process that the manager does not know is the guest's to
// find, and gets the message as it was.
func TestConnectElsewhere(t *testing.T) {
	f, id := newFakes()
	var got string
	f.guest = answers(func(r *http.Request, body string) { got = r.URL.Path + " " + body[5:] }, "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nContent-Length: 7\r\n\r\n"+frame(2, "{}"))
	addr := serve(t, f)
	for _, body := range []string{`{"process":{"tag":"t"}}`, `{"process":{"pid":9}}`} {
		a := start(id, frame(0, body))
		a.path = "/process.Process/Connect"
		if fr := frames(t, a.to(t, addr).body); len(fr) != 1 || fr[0] != "2 {}" || got != "/process.Process/Connect "+body {
			t.Errorf("%q, the guest got %q", fr, got)
		}
	}
}

// FuzzStart reads requests that a client made up: each is answered, by a stream that
// ends.
func FuzzStart(f *testing.F) {
	f.Add([]byte(frame(0, startBody)), "1500", "50", "Basic cm9vdDo=")
	f.Add([]byte("\x00\x00\x00\x00\x05{}"), "", "", "")
	fk, id := newFakes()
	fk.script = func() server.ExecStream { return &script{events: []*envd.ProcessEvent{{End: &envd.EndEvent{}}}} }
	d := server.New(server.Config{Sandboxes: fk, Tokens: fk, Now: fk.clock})
	f.Fuzz(func(t *testing.T, body []byte, timeout, ping, auth string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/process.Process/Start", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range headers(id, "Content-Type", "application/connect+json", "Connect-Timeout-Ms", timeout, "Keepalive-Ping-Interval", ping, "Authorization", auth) {
			r.Header.Set(k, v)
		}
		var out capture
		out.recorder = newRecorder()
		d.ServeHTTP(&out, r)
		if out.status == 200 {
			if fr := frames(t, out.body.String()); len(fr) == 0 || fr[len(fr)-1][0] != '2' {
				t.Errorf("no end: %q", fr)
			}
		}
	})
}

// capture is a recorder that keeps the body.
type capture struct {
	*recorder
	body strings.Builder
}

func (c *capture) Write(p []byte) (int, error) { c.recorder.Write(p); return c.body.Write(p) }
func (c *capture) Flush()                      {}
