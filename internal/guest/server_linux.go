package guest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// maxConns bounds the open connections.
const maxConns = 1024

// maxIdleBuf bounds what an idle connection keeps for its next answer, in bytes.
const maxIdleBuf = 16 << 10

// Server is a guest at work.
type Server struct {
	cfg      birth.Config
	ids      map[string]*identity
	deflt    *identity
	reaper   *reaper
	table    table
	spawner  *spawner
	files    *fileService
	watchers watchers
	cpu      cpuMeter
	devNull  *os.File
	sudoers  *net.UnixListener // of the program sudo; nil for none
	within   []net.Listener    // of programs of the sandbox
	claimed  chan struct{}     // closed with the claim

	mu     sync.Mutex
	conns  map[*conn]struct{}
	inside int            // how many of them are of programs of the sandbox
	left   sync.Cond      // a connection was closed
	hushed bool           // none is let in
	wg     sync.WaitGroup // connections, pumps and watchers
}

// handler answers one request. The connection is closed after an error.
type handler func(*Server, *conn, *http.Request) error

// handlers are the paths that a guest serves.
var handlers = map[string]handler{
	envd.ProcStart:       (*Server).start,
	envd.ProcConnect:     (*Server).connect,
	envd.ProcList:        unary((*Server).list),
	envd.ProcUpdate:      unary((*Server).update),
	envd.ProcSendInput:   unary((*Server).sendInput),
	envd.ProcStreamInput: (*Server).streamInput,
	envd.ProcSendSignal:  unary((*Server).sendSignal),
	envd.ProcCloseStdin:  unary((*Server).closeStdin),

	envd.FSStat:             unary((*Server).stat),
	envd.FSListDir:          unary((*Server).listDir),
	envd.FSMakeDir:          unary((*Server).makeDir),
	envd.FSMove:             unary((*Server).move),
	envd.FSRemove:           unary((*Server).remove),
	envd.FSWatchDir:         (*Server).watchDir,
	envd.FSCreateWatcher:    unary((*Server).createWatcher),
	envd.FSGetWatcherEvents: unary((*Server).watcherEvents),
	envd.FSRemoveWatcher:    unary((*Server).removeWatcher),

	envd.PathHealth:  (*Server).health,
	envd.PathMetrics: (*Server).metrics,
	envd.PathEnvs:    (*Server).envs,
	envd.PathFiles:   (*Server).serveFiles,
	envd.PathCompose: (*Server).compose,
	envd.PathPort:    (*Server).port,
}

// Serve answers the listener's connections until ctx ends, and then waits for
// all of them. Commands are left as they are, and a connection that follows one
// ends when the command does.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		l.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.SetDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	defer s.wg.Wait()
	for {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if nc != nil {
				nc.Close()
			}
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors, most likely: others will end
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.take(ctx, nc, false)
	}
}

// take serves a connection, of a program of the sandbox or of the host, or closes it where
// there is no room.
func (s *Server) take(ctx context.Context, nc net.Conn, inside bool) {
	c, err := newConn(nc)
	if err == nil {
		c.inside = inside
	}
	if err != nil || !s.admit(c) {
		nc.Close()
		return
	}
	go s.serveConn(ctx, c)
}

// admit counts a connection in, if there is room.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hushed || !c.inside && len(s.conns)-s.inside >= maxConns || c.inside && s.inside >= maxInside {
		return false
	}
	if c.inside {
		s.inside++
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Server) serveConn(ctx context.Context, c *conn) {
	defer s.wg.Done()
	defer func() {
		// Closed first: who waits for the connection's end waits for that.
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		if c.inside {
			s.inside--
		}
		s.mu.Unlock()
		s.left.Broadcast()
		// A defect in one request must not take the sandbox with it.
		if r := recover(); r != nil {
			os.Stderr.WriteString("hortus-guest: a request failed badly\n")
		}
	}()
	for ctx.Err() == nil {
		req, err := c.readRequest()
		if err != nil {
			c.refuse(err)
			return
		}
		if !s.awaitClaim(ctx.Done(), c, req) {
			return
		}
		h := handlers[req.URL.Path]
		if c.inside {
			h = insideHandlers[req.URL.Path]
		}
		if h == nil {
			err = c.fail(http.StatusNotFound, "no such path")
		} else {
			err = h(s, c, req)
		}
		if err != nil {
			return
		}
		if c.close || !c.drain(req) {
			c.linger(req)
			return
		}
		if cap(c.out.buf) > maxIdleBuf {
			c.out.buf = nil
		}
	}
}

// refuse answers a request that could not be read, where that makes sense.
func (c *conn) refuse(err error) {
	var ne net.Error
	if err == io.EOF || errors.As(err, &ne) {
		return
	}
	c.close = true
	status := http.StatusBadRequest
	if errors.Is(err, errHeadTooLong) {
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	c.fail(status, err.Error())
}

// fail answers on a plain path: E2B's clients look for the code in the body.
func (c *conn) fail(status int, message string) error {
	body, err := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{status, message})
	if err != nil {
		return err
	}
	return c.answer(status, envd.TypeJSON, body)
}

// failRPC answers a Connect call that is not a stream.
func (c *conn) failRPC(err error) error {
	e := envd.FromAPI(err)
	body, merr := json.Marshal(e)
	if merr != nil {
		return merr
	}
	return c.answer(e.HTTPStatus(), envd.TypeJSON, body)
}

// requireMethod answers, and is false, when the method is another.
func (c *conn) requireMethod(req *http.Request, methods ...string) (bool, error) {
	for _, m := range methods {
		if req.Method == m {
			return true, nil
		}
	}
	return false, c.fail(http.StatusMethodNotAllowed, "method "+req.Method+" is not allowed here")
}

// unary makes a handler of a call that has one message each way.
func unary[In, Out any, PI interface {
	*In
	envd.Message
}, PO interface {
	*Out
	envd.Message
}](call func(s *Server, c *conn, req *http.Request, in PI) (PO, error)) handler {
	return func(s *Server, c *conn, req *http.Request) error {
		if ok, err := c.requireMethod(req, http.MethodPost); !ok {
			return err
		}
		codec, ok := envd.CodecOf(req.Header.Get("Content-Type"), false)
		if !ok {
			return c.answer(http.StatusUnsupportedMediaType, "", nil)
		}
		if err := encodingOK(req.Header.Get("Content-Encoding")); err != nil {
			return c.failRPC(err)
		}
		body, err := io.ReadAll(io.LimitReader(req.Body, envd.DefaultMaxFrame+1))
		if err != nil {
			return err
		}
		if len(body) > envd.DefaultMaxFrame {
			return c.failRPC(api.Errorf(api.KindExhausted, "a request of more than %d bytes", envd.DefaultMaxFrame))
		}
		in := PI(new(In))
		if err := envd.Decode(body, codec, in); err != nil {
			return c.failRPC(api.Errorf(api.KindInvalid, "the request: %w", err))
		}
		out, err := call(s, c, req, in)
		if err != nil {
			return c.failRPC(err)
		}
		data, err := envd.Append(nil, codec, out)
		if err != nil {
			return c.failRPC(err)
		}
		return c.answer(http.StatusOK, codec.ContentType(false), data)
	}
}

func encodingOK(name string) error {
	if name != "" && name != "identity" {
		return api.Errorf(api.KindUnsupported, "requests compressed with %q are not accepted", name)
	}
	return nil
}

// streamRequest reads the single message of a server stream's request. ok is
// false when the request has been answered already.
func (c *conn) streamRequest(req *http.Request, m envd.Message) (codec envd.Codec, ok bool, err error) {
	if ok, err := c.requireMethod(req, http.MethodPost); !ok {
		return 0, false, err
	}
	codec, ok = envd.CodecOf(req.Header.Get("Content-Type"), true)
	if !ok {
		return 0, false, c.answer(http.StatusUnsupportedMediaType, "", nil)
	}
	if err := encodingOK(req.Header.Get("Connect-Content-Encoding")); err != nil {
		return codec, false, c.failStream(codec, err)
	}
	fr := envd.FrameReader{R: req.Body}
	_, payload, err := fr.Next()
	if err == nil {
		err = envd.Decode(payload, codec, m)
	}
	if err != nil {
		return codec, false, c.failStream(codec, api.Errorf(api.KindInvalid, "the request: %w", err))
	}
	if !c.drain(req) {
		c.close = true
	}
	return codec, true, nil
}

// failStream answers a stream with nothing but an error.
func (c *conn) failStream(codec envd.Codec, err error) error {
	c.out.begin(c, codec)
	return c.out.finish(envd.FromAPI(err))
}
