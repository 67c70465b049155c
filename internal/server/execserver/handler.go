package execserver

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"hortus.dev/api"
)

// Handler serves sessions over WebSocket, at a path that cannot be guessed: Codex sends no
// header that could carry a key.
type Handler struct {
	cfg  Config
	path string
	room chan struct{}

	ctx  context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// NewHandler makes a handler with a path of its own.
func NewHandler(cfg Config) *Handler {
	h := &Handler{cfg: cfg, path: "/" + rand.Text(), room: make(chan struct{}, maxConnections)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Path is the path of the sessions. Who knows it can use the sandbox.
func (h *Handler) Path() string { return h.path }

// Close ends the sessions and waits until what they started has ended.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.work.Wait()
	return nil
}

// enter counts a session, unless the handler is closed.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Add(1)
	}
	return !h.closed
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(h.path)) != 1 {
		http.NotFound(w, r)
		return
	}
	if !h.enter() {
		http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
		return
	}
	defer h.work.Done()
	select {
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	if err := Upgrade(ctx, h.cfg, w, r); err != nil && ctx.Err() == nil && h.cfg.Log != nil {
		h.cfg.Log.Warn("a connection of Codex ended", "error", err)
	}
}

// Upgrade serves a session on the connection of one request, until the peer or ctx ends it.
// Anyone who calls it has authenticated the request, and bounds the sessions. The request of a
// page in a browser is refused. An error before the upgrade was answered.
func Upgrade(ctx context.Context, cfg Config, w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Origin") != "" {
		http.Error(w, "requests of browsers are refused", http.StatusForbidden)
		return nil
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return api.Errorf(api.KindInvalid, "this is a WebSocket: %w", err)
	}
	c.SetReadLimit(int64(cfg.maxMessage()))
	ctx, cancel := context.WithCancel(ctx)
	var ping sync.WaitGroup
	defer ping.Wait()
	defer cancel()
	ping.Go(func() { keep(ctx, c) })
	return Serve(ctx, cfg, socket{c, cfg.maxMessage()})
}

const (
	pingInterval = 30 * time.Second
	pingTimeout  = time.Minute
)

// keep closes a connection whose peer does not answer any more.
func keep(ctx context.Context, c *websocket.Conn) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wait, cancel := context.WithTimeout(ctx, pingTimeout)
		err := c.Ping(wait)
		cancel()
		if err != nil {
			_ = c.CloseNow()
			return
		}
	}
}

// socket is a WebSocket as a connection.
type socket struct {
	c    *websocket.Conn
	most int
}

// Read returns the next message.
func (s socket) Read(ctx context.Context) ([]byte, error) {
	_, b, err := s.c.Read(ctx)
	switch status := websocket.CloseStatus(err); {
	case err == nil:
		return b, nil
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, api.Errorf(api.KindExhausted, "a message is longer than %d bytes", s.most)
	case status == websocket.StatusNormalClosure, status == websocket.StatusGoingAway, status == websocket.StatusNoStatusRcvd:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, io.EOF // Codex leaves without a close frame
	}
	return nil, err
}

// Write sends a message.
func (s socket) Write(ctx context.Context, message []byte) error {
	return s.c.Write(ctx, websocket.MessageText, message)
}

// Close ends the connection at once.
func (s socket) Close() error { return s.c.CloseNow() }
