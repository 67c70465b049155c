package execserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"

	"hortus.dev/api"
)

// Config is what a session works on.
type Config struct {
	Sandbox Sandbox
	// MaxFile bounds a file that is read or written in one message, in bytes; 0 means 16
	// MiB. It bounds the messages of the peer too.
	MaxFile int
	// Log takes what cannot be reported to the peer; nil drops it.
	Log *slog.Logger
}

// maxMessage bounds a message of the peer, in bytes.
func (c Config) maxMessage() int { return base64.StdEncoding.EncodedLen(c.maxFile()) + maxOther }

func (c Config) maxFile() int { return cmp.Or(c.MaxFile, maxFile) }

// Conn carries messages, each of them whole. Read is called by one goroutine and Write by
// another one.
type Conn interface {
	// Read returns the next message, which is the caller's. io.EOF is the end of the peer.
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, message []byte) error
	// Close ends a Read that waits.
	Close() error
}

// session serves one connection.
type session struct {
	cfg  Config
	conn Conn
	id   string
	// ctx ends with the connection. life ends when the processes had their time to end.
	ctx, life context.Context
	leave     context.CancelCauseFunc

	out      chan []byte
	requests sync.WaitGroup
	slots    chan struct{}
	bodies   chan struct{}
	reads    chan struct{}
	// env is set once, before other requests are served.
	env       *environment
	processes processes
	handles   handles
}

// Serve serves a connection until it ends. It returns nil if the peer ended it.
func Serve(ctx context.Context, cfg Config, conn Conn) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &session{
		cfg: cfg, conn: conn, id: rand.Text(), out: make(chan []byte),
		slots:  make(chan struct{}, maxRequests),
		bodies: make(chan struct{}, maxBodies), reads: make(chan struct{}, maxReads),
	}
	s.ctx, s.leave = context.WithCancelCause(ctx)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.life = life
	stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	var writer sync.WaitGroup
	writer.Go(s.write)
	err := s.read()
	s.leave(err)
	stop()
	_ = conn.Close()
	s.requests.Wait()
	s.handles.closeAll()
	s.killAll()
	end()
	s.processes.work.Wait()
	writer.Wait()
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, io.EOF) && ctx.Err() == nil {
		return cause
	}
	return ctx.Err()
}

// write sends messages until the session ends.
func (s *session) write() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case b := <-s.out:
			ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
			err := s.conn.Write(ctx, b)
			cancel()
			if err != nil {
				s.leave(api.Errorf(api.KindUnavailable, "the peer does not read: %w", err))
				return
			}
		}
	}
}

// send hands a message to the writer, and reports whether it was taken.
func (s *session) send(m any) bool {
	b, err := json.Marshal(m)
	if err != nil {
		s.leave(api.Errorf(api.KindInternal, "encode a message: %w", err))
		return false
	}
	select {
	case s.out <- b:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *session) notify(method string, params any) bool {
	return s.send(notification{Method: method, Params: params})
}

// answer answers a request.
func (s *session) answer(id json.RawMessage, result any, err error) bool {
	if err != nil {
		return s.send(response{ID: id, Error: failureOf(err)})
	}
	return s.send(response{ID: id, Result: result})
}

// read serves messages until the connection ends.
func (s *session) read() error {
	for {
		b, err := s.conn.Read(s.ctx)
		if err != nil {
			if cause := context.Cause(s.ctx); cause != nil {
				return cause
			}
			return err
		}
		var m message
		if err := json.Unmarshal(b, &m); err != nil {
			// Nobody knows what the peer wanted: it cannot wait for the answer.
			s.send(response{ID: json.RawMessage("-1"), Error: &failure{codeParse, "the message is not a JSON-RPC message"}})
			return api.Errorf(api.KindInvalid, "the peer sent no JSON-RPC message")
		}
		if err := s.take(m); err != nil {
			return err
		}
	}
}

// take serves one message, or begins to.
func (s *session) take(m message) error {
	switch {
	case m.Method == "":
		return nil // an answer, though nothing was asked
	case len(m.ID) == 0 || string(m.ID) == "null":
		if m.Method != "initialized" {
			s.send(response{ID: json.RawMessage("-1"), Error: &failure{codeRequest, "unknown notification"}})
		}
		return nil
	case len(m.ID) > maxName || m.ID[0] == '{' || m.ID[0] == '[':
		s.send(response{ID: json.RawMessage("-1"), Error: &failure{codeRequest, "the id of a request must be a number or a short text"}})
		return nil
	case m.Method == "initialize":
		s.initialize(m)
		return nil
	case s.env == nil:
		s.answer(m.ID, nil, api.Errorf(api.KindConflict, "the first request must be initialize"))
		return nil
	}
	// In the order in which they came: what only looks at the session's own state.
	if now := s.immediate(m.Method); now != nil {
		result, err := now(m.Params)
		s.answer(m.ID, result, err)
		return nil
	}
	do := s.method(m.Method)
	if do == nil {
		s.send(response{ID: m.ID, Error: &failure{codeMethod, "unknown method: " + api.Clip(m.Method, maxName)}})
		return nil
	}
	room, timeout := s.slots, requestTimeout
	switch m.Method {
	case "process/read":
		room, timeout = s.reads, maxWait+requestTimeout
		if len(room) == cap(room) { // only this goroutine fills it
			s.answer(m.ID, nil, api.Errorf(api.KindExhausted, "%d requests wait for output, which is the maximum", maxReads))
			return nil
		}
	case "fs/readFile", "fs/writeFile":
		room = s.bodies
	}
	select {
	case room <- struct{}{}:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	s.requests.Go(func() {
		defer func() { <-room }()
		ctx, cancel := context.WithTimeout(s.ctx, timeout)
		defer cancel()
		result, err := do(ctx, m.Params)
		if s.answer(m.ID, result, err) {
			if then, ok := result.(interface{ answered() }); ok && err == nil {
				then.answered()
			}
		}
	})
	return nil
}

// immediate returns what serves a method without leaving this process.
func (s *session) immediate(method string) func(json.RawMessage) (any, error) {
	switch method {
	case "process/write":
		return decoded(s.writeProcess)
	case "fs/close":
		return decoded(s.closeFile)
	}
	return nil
}

// method returns what serves a method.
func (s *session) method(method string) func(context.Context, json.RawMessage) (any, error) {
	switch method {
	case "environment/info":
		return func(context.Context, json.RawMessage) (any, error) { return s.env.info(), nil }
	case "process/start":
		return decodedIn(s.startProcess)
	case "process/read":
		return decodedIn(s.readProcess)
	case "process/signal":
		return decodedIn(s.signalProcess)
	case "process/terminate":
		return decodedIn(s.terminateProcess)
	case "fs/readFile":
		return decodedIn(s.readFile)
	case "fs/writeFile":
		return decodedIn(s.writeFile)
	case "fs/open":
		return decodedIn(s.openFile)
	case "fs/readBlock":
		return decodedIn(s.readBlock)
	case "fs/createDirectory":
		return decodedIn(s.makeDir)
	case "fs/getMetadata":
		return decodedIn(s.metadata)
	case "fs/canonicalize":
		return decodedIn(s.canonicalize)
	case "fs/readDirectory":
		return decodedIn(s.readDir)
	case "fs/walk":
		return decodedIn(s.walk)
	case "fs/remove":
		return decodedIn(s.remove)
	case "fs/copy":
		return decodedIn(s.copy)
	}
	return nil
}

// decoded decodes the parameters of a method. Fields that this version does not know are
// ignored: Codex sends new ones only to servers that announce them.
func decoded[P any](do func(P) (any, error)) func(json.RawMessage) (any, error) {
	return func(raw json.RawMessage) (any, error) {
		var p P
		if err := api.CheckJSON(raw); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, api.Errorf(api.KindInvalid, "the parameters: %w", err)
		}
		return do(p)
	}
}

func decodedIn[P any](do func(context.Context, P) (any, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		return decoded(func(p P) (any, error) { return do(ctx, p) })(raw)
	}
}

// initialize begins the session. A session that ended with its connection cannot be resumed:
// its processes are gone.
func (s *session) initialize(m message) {
	var in struct {
		ClientName      string  `json:"clientName"`
		ResumeSessionID *string `json:"resumeSessionId"`
	}
	err := json.Unmarshal(m.Params, &in)
	switch {
	case err != nil:
		err = api.Errorf(api.KindInvalid, "the parameters: %w", err)
	case s.env != nil:
		err = api.Errorf(api.KindConflict, "the session was already initialized")
	case in.ResumeSessionID != nil:
		err = api.Errorf(api.KindConflict, "unknown session id %.64q: a session ends with its connection", *in.ResumeSessionID)
	}
	var out struct {
		SessionID       string          `json:"sessionId"`
		EnvironmentInfo environmentInfo `json:"environmentInfo"`
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
		defer cancel()
		s.env, err = s.ask(ctx)
	}
	if err == nil {
		out.SessionID, out.EnvironmentInfo = s.id, s.env.info()
	}
	s.answer(m.ID, out, err)
}
