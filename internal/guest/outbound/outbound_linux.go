package outbound

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/rpc"
)

// reachTimeout is the maximum wait of a PathReach request for a host that accepts.
const reachTimeout = 10 * time.Second

// Queue matches the host's pending requests with the guest's calls of Open.
type Queue struct {
	waiting chan *Stream // from a request to an Open
}

// New returns a queue without requests.
func New() *Queue { return &Queue{waiting: make(chan *Stream)} }

// Handlers returns the handlers for the host.
func (q *Queue) Handlers() map[string]rpc.Handler {
	return map[string]rpc.Handler{envd.PathAccept: q.serve, envd.PathReach: q.reach}
}

// Stream is a stream to the host. Several goroutines may call its methods at once, as with
// a net.Conn.
type Stream struct {
	conn   *rpc.Conn
	ready  chan error // one value: nil once the stream is open, or why it is not
	closed chan struct{}
	once   sync.Once
}

// serve waits until an Open takes the connection, and then until the stream ends.
func (q *Queue) serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	if req.Header.Get("Upgrade") != envd.AcceptProtocol {
		return c.Fail(http.StatusUpgradeRequired, "the request does not upgrade to "+envd.AcceptProtocol)
	}
	if !c.Outgoing() {
		return c.Fail(http.StatusServiceUnavailable, "too many streams to the host")
	}
	s := &Stream{conn: c, ready: make(chan error, 1), closed: make(chan struct{})}
	gone, stop := c.WatchHangup()
	select {
	case q.waiting <- s:
	case <-gone:
		stop()
		return rpc.ErrGone
	case <-c.Ended():
		stop()
		return rpc.ErrGone
	}
	stop()
	_, err := io.WriteString(c.Conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+envd.AcceptProtocol+"\r\n\r\n")
	s.ready <- err
	if err == nil {
		select {
		case <-s.closed:
		case <-c.Ended():
		}
	}
	return rpc.ErrGone // the connection cannot be reused
}

// Open opens a stream to the host. It waits until the host accepts one or ctx ends.
func (q *Queue) Open(ctx context.Context) (*Stream, error) {
	for {
		select {
		case s := <-q.waiting:
			if <-s.ready == nil {
				return s, nil
			}
			// The host hung up; another request may be waiting.
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Read reads what the host sends.
func (s *Stream) Read(p []byte) (int, error) { return s.conn.Body().Read(p) }

// Write sends to the host.
func (s *Stream) Write(p []byte) (int, error) { return s.conn.Conn.Write(p) }

// CloseWrite closes the sending half. Streams are unix sockets, which can do that.
func (s *Stream) CloseWrite() error {
	return s.conn.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// SetDeadline sets the time at which pending and later reads and writes fail.
func (s *Stream) SetDeadline(t time.Time) error { return s.conn.Conn.SetDeadline(t) }

// Bypass returns the connection itself, for copying without another buffer, and what was
// already read from it. The stream must not be read or written after that; Close still ends
// it.
func (s *Stream) Bypass() (net.Conn, []byte) { return s.conn.Conn, s.conn.TakeBuffered() }

// CutOff reports whether the guest ended the stream. What was read until then may be
// incomplete.
func (s *Stream) CutOff() bool { return s.conn.CutOff() }

// Close ends the stream. It is idempotent.
func (s *Stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// reach opens a stream and sends the body of the request over it.
func (q *Queue) reach(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodPost); !ok {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, envd.MaxReach+1))
	if err != nil {
		return err
	}
	if len(body) > envd.MaxReach {
		return c.Fail(http.StatusRequestEntityTooLarge, "the body is too large")
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	stop := make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(stop)
	watch.Go(func() {
		select {
		case <-c.Ended():
			cancel()
		case <-stop:
		}
	})
	s, err := q.Open(ctx)
	if err != nil {
		return c.Fail(http.StatusGatewayTimeout, "the host accepts no stream")
	}
	defer s.Close()
	if _, err := s.Write(body); err != nil {
		return c.Fail(http.StatusBadGateway, "the stream to the host ended")
	}
	return c.Answer(http.StatusNoContent, "", nil)
}
