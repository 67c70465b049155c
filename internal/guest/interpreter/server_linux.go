package interpreter

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api/envd"
)

// Argv0 is the argument zero with which a multi-call binary runs this program.
const Argv0 = envd.CodeProgram

// Bounds of what a client may ask for.
const (
	maxContexts = 64
	maxConns    = 128
	maxCode     = 16 << 20 // bytes of a request
	headTime    = 30 * time.Second
)

// Main runs the program and returns its exit code.
func Main() int {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(envd.CodePort)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "code interpreter:", err)
		return 1
	}
	fmt.Println(envd.CodeReady)
	if err := newServer().serve(context.Background(), l); err != nil {
		fmt.Fprintln(os.Stderr, "code interpreter:", err)
	}
	return 1
}

// server has the contexts of one sandbox.
type server struct {
	mu       sync.Mutex
	contexts []*codeContext // in the order in which they were made
}

func newServer() *server {
	s := &server{}
	for _, l := range languages {
		if l.found() {
			s.contexts = append(s.contexts, newContext(l.name, l, ""))
		}
	}
	return s
}

// close ends all contexts.
func (s *server) close() {
	for _, c := range s.list() {
		c.restart()
	}
}

// serve serves connections, one request on each, until the listener is closed.
func (s *server) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer func() { cancel(); s.close(); conns.Wait() }()
	free := make(chan struct{}, maxConns)
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		free <- struct{}{}
		conns.Go(func() {
			defer func() { conn.Close(); <-free }()
			s.answer(ctx, conn)
		})
	}
}

// answer serves the one request of a connection.
func (s *server) answer(ctx context.Context, conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(headTime))
	br := bufio.NewReader(io.LimitReader(conn, maxCode+64<<10))
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, err := io.ReadAll(req.Body)
	w := &answer{conn: conn}
	if err != nil {
		w.fail(http.StatusRequestEntityTooLarge, "the body is too large or incomplete")
		return
	}
	// The client that leaves interrupts its code.
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	conn.SetReadDeadline(time.Time{})
	var watch sync.WaitGroup
	watch.Go(func() {
		defer gone()
		io.Copy(io.Discard, conn)
	})
	defer watch.Wait()
	defer conn.Close()
	s.route(ctx, w, req.Method, strings.Split(strings.Trim(req.URL.Path, "/"), "/"), body)
}

// contextRow is a context as clients see it.
type contextRow struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`
}

// execution is a request to run code.
type execution struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
	// Dir is the directory of the language's default context, if it has run no code yet.
	Dir string `json:"dir"`
}

func (s *server) route(ctx context.Context, w *answer, method string, path []string, body []byte) {
	switch op := method + " " + path[0]; {
	case op == "GET health" && len(path) == 1:
		w.json(http.StatusOK, map[string]string{"status": "ok"})
	case op == "POST execute" && len(path) == 1:
		var in execution
		if !w.read(body, &in) {
			return
		}
		c, err := s.of(in)
		if err != nil {
			w.err(err)
			return
		}
		if in.Context == "" {
			c.place(in.Dir)
		}
		w.begin()
		if err := c.run(ctx, in.Code, in.Env, w.event); err != nil {
			w.event(errorEvent("ContextError", err.Error()))
		}
		w.end()
	case op == "GET contexts" && len(path) == 1:
		rows := []contextRow{}
		for _, c := range s.list() {
			rows = append(rows, c.row())
		}
		w.json(http.StatusOK, rows)
	case op == "POST contexts" && len(path) == 1:
		var in struct{ Language, Cwd string }
		if !w.read(body, &in) {
			return
		}
		c, err := s.add(in.Language, in.Cwd)
		if err != nil {
			w.err(err)
			return
		}
		w.json(http.StatusOK, c.row())
	case path[0] == "contexts" && (method == "DELETE" && len(path) == 2 || method == "POST" && len(path) == 3 && (path[2] == "restart" || path[2] == "interrupt")):
		c, err := s.find(path[1])
		if err != nil {
			w.err(err)
			return
		}
		switch {
		case method == "DELETE":
			s.remove(c)
			c.restart()
		case path[2] == "restart":
			c.restart()
		default:
			c.interrupt()
		}
		w.write(http.StatusNoContent, "text/plain", nil)
	default:
		w.fail(http.StatusNotFound, "there is no such address: use POST /execute, GET or POST /contexts, DELETE /contexts/ID, POST /contexts/ID/restart or /contexts/ID/interrupt")
	}
}

// Errors of requests, by their status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// of is the context of an execution.
func (s *server) of(in execution) (*codeContext, error) {
	if in.Context != "" {
		return s.find(in.Context)
	}
	l, err := languageOf(in.Language)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.contexts, func(c *codeContext) bool { return c.id == l.name }); i >= 0 {
		return s.contexts[i], nil
	}
	c := newContext(l.name, l, "")
	s.contexts = append(s.contexts, c)
	return c, nil
}

func (s *server) add(name, dir string) (*codeContext, error) {
	l, err := languageOf(name)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
		return nil, &statusError{http.StatusBadRequest, fmt.Sprintf("cwd %.200q is not a directory of this sandbox", dir)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.contexts) >= maxContexts {
		return nil, &statusError{http.StatusTooManyRequests, fmt.Sprintf("there are %d contexts already, the maximum: delete one", maxContexts)}
	}
	c := newContext(strings.ToLower(rand.Text()), l, dir)
	s.contexts = append(s.contexts, c)
	return c, nil
}

func (s *server) list() []*codeContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.contexts)
}

func (s *server) find(id string) (*codeContext, error) {
	for _, c := range s.list() {
		if c.id == id {
			return c, nil
		}
	}
	return nil, &statusError{http.StatusNotFound, fmt.Sprintf("context %.100q does not exist: GET /contexts lists them", id)}
}

func (s *server) remove(c *codeContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contexts = slices.DeleteFunc(s.contexts, func(o *codeContext) bool { return o == c })
}

// answer writes one response, after which the connection ends.
type answer struct {
	conn   net.Conn
	broken error
}

func (w *answer) write(status int, kind string, body []byte) {
	fmt.Fprintf(w.conn, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), kind, len(body), body)
}

func (w *answer) json(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		w.fail(http.StatusInternalServerError, err.Error())
		return
	}
	w.write(status, "application/json", body)
}

func (w *answer) fail(status int, text string) {
	w.write(status, "text/plain; charset=utf-8", []byte(text))
}

func (w *answer) err(err error) {
	var e *statusError
	if !errors.As(err, &e) {
		e = &statusError{http.StatusInternalServerError, err.Error()}
	}
	w.fail(e.status, e.text)
}

func (w *answer) read(body []byte, v any) bool {
	if len(body) == 0 {
		body = []byte("{}")
	}
	if err := json.Unmarshal(body, v); err != nil {
		w.fail(http.StatusBadRequest, "the body is not valid JSON of the expected form: "+err.Error())
		return false
	}
	return true
}

// begin begins a stream of events, which end ends.
func (w *answer) begin() {
	_, w.broken = io.WriteString(w.conn, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
}

// event writes one event as a line of JSON. After the first failure it does nothing.
func (w *answer) event(line []byte) {
	if w.broken == nil {
		_, w.broken = fmt.Fprintf(w.conn, "%x\r\n%s\n\r\n", len(line)+1, line)
	}
}

func (w *answer) end() {
	if w.broken == nil {
		io.WriteString(w.conn, "0\r\n\r\n")
	}
}
