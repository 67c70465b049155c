package envd_test

import (
	"bufio"
	"context"
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
	"hortus.dev/internal/server/preview"
)

// fakes plays the sandboxes behind the server, and their tokens.
type fakes struct {
	crowded error                      // the answer of Count
	stored  error                      // the answer of Upload
	guest   func(net.Conn)             // plays the guest on one stream
	port    func(port int, c net.Conn) // plays what listens; nil for nothing
	script  func() server.ExecStream   // plays a command
	wake    func() error               // what resuming does
	// previews are the tickets and cookies of private ports; nil for none.
	previews *preview.Previews
	ended    chan struct{} // closed when the sandboxes that streams lead to end; nil for never

	mu        sync.Mutex
	sandboxes map[api.SandboxID]*api.Sandbox
	started   []api.ExecRequest
	exec      map[int]api.ExecID
	woken     int
	now       time.Time
	wg        sync.WaitGroup
}

func newFakes() (*fakes, api.SandboxID) {
	f := &fakes{sandboxes: map[api.SandboxID]*api.Sandbox{}, exec: map[int]api.ExecID{}, now: time.Unix(1_800_000_000, 0)}
	return f, f.add(api.SandboxRunning)
}

func (f *fakes) add(state api.SandboxState) api.SandboxID {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := api.NewSandboxID()
	f.sandboxes[id] = &api.Sandbox{ID: id, State: state, Egress: "none"}
	return id
}

func (f *fakes) change(id api.SandboxID, how func(*api.Sandbox)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f.sandboxes[id])
}

func (f *fakes) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakes) Get(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.sandboxes[id]
	if b == nil {
		return api.Sandbox{}, api.Errorf(api.KindNotFound, "there is no sandbox %q", id)
	}
	return *b, nil
}

func (f *fakes) Count(context.Context, api.SandboxID) error { return f.crowded }

func (f *fakes) Upload(context.Context, api.SandboxID, int64) error { return f.stored }

func (f *fakes) List(_ context.Context, all bool) (out []api.Sandbox, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.sandboxes {
		if all || !b.State.Final() {
			out = append(out, *b)
		}
	}
	return out, nil
}

func (f *fakes) Wake(_ context.Context, id api.SandboxID) error {
	f.mu.Lock()
	f.woken++
	f.mu.Unlock()
	if f.wake != nil {
		if err := f.wake(); err != nil {
			return err
		}
	}
	f.change(id, func(b *api.Sandbox) { b.State = api.SandboxRunning })
	return nil
}

func (f *fakes) running(id api.SandboxID) error {
	b, err := f.Get(context.Background(), id)
	if err == nil && b.State != api.SandboxRunning {
		err = api.Errorf(api.KindConflict, "sandbox %s is %s", id, b.State)
	}
	return err
}

func (f *fakes) StartExec(_ context.Context, id api.SandboxID, req api.ExecRequest) (server.ExecStream, error) {
	if err := f.running(id); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, req)
	if req.Args[0] == "nosuch" {
		return nil, api.Errorf(api.KindNotFound, "command not found: nosuch")
	}
	return f.script(), nil
}

func (f *fakes) AttachExec(context.Context, api.SandboxID, api.ExecID, int64) (server.ExecStream, error) {
	return f.script(), nil
}

func (f *fakes) ExecOf(_ api.SandboxID, pid int) (api.ExecID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, ok := f.exec[pid]
	return id, ok
}

func (f *fakes) stream(play func(net.Conn)) net.Conn {
	here, there := net.Pipe()
	f.wg.Go(func() { defer there.Close(); play(there) })
	return ending{here, f.ended}
}

// ending is a stream that tells when its sandbox ends.
type ending struct {
	net.Conn
	ended chan struct{}
}

func (e ending) Ended() <-chan struct{} { return e.ended }

func (f *fakes) Guest(_ context.Context, id api.SandboxID) (net.Conn, error) {
	if err := f.running(id); err != nil {
		return nil, err
	}
	if f.guest == nil {
		return nil, api.Errorf(api.KindUnavailable, "the guest is gone")
	}
	return f.stream(f.guest), nil
}

func (f *fakes) Dial(_ context.Context, id api.SandboxID, port int) (net.Conn, error) {
	if err := f.running(id); err != nil {
		return nil, err
	}
	if f.port == nil {
		return nil, api.Errorf(api.KindUnavailable, "sandbox %s, port %d: %w", id, port, envd.ErrPortClosed)
	}
	return f.stream(func(c net.Conn) { f.port(port, c) }), nil
}

// The tokens are told apart by their beginning.
func (f *fakes) Envd(id string) string            { return "envd" + id }
func (f *fakes) Traffic(id string) string         { return "traffic" + id }
func (f *fakes) CheckEnvd(id, got string) bool    { return got == "envd"+id }
func (f *fakes) CheckTraffic(id, got string) bool { return got == "traffic"+id }

func (f *fakes) Preview(text string) string         { return fmt.Sprintf("preview%x", text) }
func (f *fakes) CheckPreview(text, got string) bool { return got == f.Preview(text) }

// script is a command whose events are known beforehand. What comes after them is
// then's: an error, or nil for a clean end.
type script struct {
	events []*envd.ProcessEvent
	then   func() error
	closed chan struct{}
	ended  chan struct{}
	n      int
}

func (s *script) Ended() <-chan struct{} { return s.ended }

func (s *script) Exec() api.Exec { return api.Exec{ID: "x0123456789abcdefghi"} }
func (s *script) Close() error {
	if s.closed != nil {
		close(s.closed)
	}
	return nil
}
func (s *script) Next() (*envd.ProcessEvent, error) {
	if s.n == len(s.events) {
		if s.then != nil {
			if err := s.then(); err != nil {
				return nil, err
			}
		}
		return nil, io.EOF
	}
	s.n++
	return s.events[s.n-1], nil
}

// serve opens the server on a real socket and gives its address.
func serve(t testing.TB, f *fakes) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(server.New(server.Config{Sandboxes: f, Tokens: f, Now: f.clock, Previews: f.previews}))
	srv.Config.ReadHeaderTimeout = 30 * time.Second
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		f.wg.Wait()
	})
	return srv.Listener.Addr().String()
}

// ask is one request, and what is wanted to be known of its answer.
type ask struct {
	method, path, host, body string
	header                   map[string]string
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (a ask) to(t testing.TB, addr string) answer {
	t.Helper()
	got, err := a.try(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// try returns an error where there was not even the head of an answer.
func (a ask) try(t testing.TB, addr string) (answer, error) {
	t.Helper()
	if a.method == "" {
		a.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), a.method, "http://"+addr+a.path, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if a.host != "" {
		req.Host = a.host
	}
	for k, v := range a.header {
		req.Header.Set(k, v)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return answer{resp.StatusCode, resp.Header, string(b), err}, nil
}

// to sends it to a sandbox by headers, with its token.
func headers(id api.SandboxID, more ...string) map[string]string {
	h := map[string]string{"E2b-Sandbox-Id": string(id), "E2b-Sandbox-Port": "49983", "X-Access-Token": "envd" + string(id)}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] == "" {
			delete(h, more[i])
		} else {
			h[more[i]] = more[i+1]
		}
	}
	return h
}

// answers is a guest or a port that reads a request, keeps it, and says something.
func answers(keep func(*http.Request, string), say string) func(net.Conn) {
	return func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		if keep != nil {
			keep(r, string(body))
		}
		io.WriteString(c, say)
	}
}

const ok204 = "HTTP/1.1 204 No Content\r\n\r\n"

var errCut = errors.New("cut")
