package envd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
)

// ClientConfig is how a [Client] reaches its guest.
type ClientConfig struct {
	// Dial opens a new connection to the guest, or to what stands before it.
	Dial func(ctx context.Context) (net.Conn, error)
	// Prefix goes before every path, for example "/v1/sandboxes/ID/envd" when
	// the way leads through a daemon.
	Prefix string
	// Header is sent with every request. Host is taken from it when set.
	Header http.Header
	// MaxFrame bounds a frame or unary answer, in bytes; 0 means 4 MiB.
	MaxFrame int
	// MaxIdle bounds the kept idle connections; 0 means 4.
	MaxIdle int
	// Timeout bounds the wait for an answer's headers; 0 means 30 s.
	Timeout time.Duration
}

// Client speaks to one guest. It is safe for concurrent use; each call has a
// connection of its own while it lasts. A call works on its caller's goroutine.
type Client struct {
	cfg  ClientConfig
	head string // the constant lines of every request

	mu     sync.Mutex
	idle   []*clientConn
	closed bool
}

const (
	// maxAnswerHead bounds the status line and headers of an answer.
	maxAnswerHead = 64 << 10
	// maxUnpeeked is how long a connection that cannot be peeked at may have
	// been idle and still carry a request that must not run twice.
	maxUnpeeked = time.Second
	// maxDrain and drainTime bound what is read to make a connection reusable,
	// and for how long: the answer is known by then, and a guest that holds its
	// end back must not hold the caller.
	maxDrain  = 256 << 10
	drainTime = time.Second
)

// NewClient makes a client; it dials when it is first used. It panics if a
// header or the prefix holds a line break, which only a programmer can cause.
func NewClient(cfg ClientConfig) *Client {
	if cfg.MaxFrame <= 0 {
		cfg.MaxFrame = DefaultMaxFrame
	}
	if cfg.MaxIdle <= 0 {
		cfg.MaxIdle = 4
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	var b strings.Builder
	host := cfg.Header.Get("Host")
	if host == "" {
		host = "envd"
	}
	fmt.Fprintf(&b, "Host: %s\r\n", mustLine(host))
	mustLine(cfg.Prefix)
	for name, values := range cfg.Header {
		for _, v := range values {
			if http.CanonicalHeaderKey(name) != "Host" {
				fmt.Fprintf(&b, "%s: %s\r\n", mustLine(name), mustLine(v))
			}
		}
	}
	return &Client{cfg: cfg, head: b.String()}
}

func mustLine(s string) string {
	if !oneLine(s) {
		panic("envd: a line break in a client's header or prefix")
	}
	return s
}

func oneLine(s string) bool { return !strings.ContainsAny(s, "\r\n\x00") }

// Close closes the idle connections and lets no new ones become idle. Streams
// that are open continue until they are closed themselves.
func (c *Client) Close() error {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	c.mu.Unlock()
	for _, cc := range idle {
		cc.Close()
	}
	return nil
}

// clientConn is a connection with its buffers.
type clientConn struct {
	net.Conn
	br     *bufio.Reader
	lim    limitedReader
	wbuf   []byte
	fr     FrameReader
	idleAt time.Time
	reused bool // it was idle before this request
	silent bool // not a byte of an answer came
}

// limitedReader bounds what may be read while a head is parsed.
type limitedReader struct {
	r    io.Reader
	left int64 // below 0: no bound
}

var errHeadTooLong = errors.New("the response headers are longer than 64 KiB")

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return l.r.Read(p)
	}
	if l.left == 0 {
		return 0, errHeadTooLong
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

// get takes an idle connection that is alive, or dials. With fresh set it only
// dials.
func (c *Client) get(ctx context.Context, fresh bool) (*clientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for !fresh {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			break
		}
		cc := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		alive, known := peek(cc.Conn)
		if alive && (known || time.Since(cc.idleAt) < maxUnpeeked) {
			cc.reused = true
			return cc, nil
		}
		cc.Close()
	}
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var e *api.Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, api.Errorf(api.KindUnavailable, "dial the guest: %w", err)
	}
	cc := &clientConn{Conn: conn}
	cc.lim = limitedReader{r: conn, left: -1}
	cc.br = bufio.NewReaderSize(&cc.lim, 32<<10)
	return cc, nil
}

// put keeps a connection whose last answer was read to its end.
func (c *Client) put(cc *clientConn) {
	if cc.br.Buffered() > 0 { // nothing was asked that this could answer
		cc.Close()
		return
	}
	if cap(cc.fr.buf) > 256<<10 {
		cc.fr.buf = nil
	}
	cc.idleAt = time.Now()
	c.mu.Lock()
	keep := !c.closed && len(c.idle) < c.cfg.MaxIdle
	if keep {
		c.idle = append(c.idle, cc)
	}
	c.mu.Unlock()
	if !keep {
		cc.Close()
	}
}

// watch ends cc's reads and writes when ctx ends. The returned function undoes
// it; it is false when ctx has ended and cc is spoilt.
func watch(ctx context.Context, cc *clientConn) func() bool {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	conn := cc.Conn
	return context.AfterFunc(ctx, func() { conn.Close() })
}

// readHead reads an answer's status line and headers, within the configured
// time.
func (c *Client) readHead(cc *clientConn, method string) (*http.Response, error) {
	cc.SetReadDeadline(time.Now().Add(c.cfg.Timeout))
	cc.lim.left = maxAnswerHead
	resp, err := http.ReadResponse(cc.br, &http.Request{Method: method})
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(cc.br, &http.Request{Method: method})
	}
	cc.silent = cc.lim.left == maxAnswerHead
	cc.lim.left = -1
	if err != nil {
		return nil, err
	}
	cc.SetReadDeadline(time.Time{})
	return resp, nil
}

// cut names a failure of the connection itself.
func cut(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return api.Errorf(api.KindTimeout, "timeout: the guest did not respond: %w", err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return api.Errorf(api.KindUnavailable, "the connection to the guest was interrupted: %w", err)
}

// finish reads what is left of an answer and keeps the connection if it can.
func (c *Client) finish(cc *clientConn, resp *http.Response) {
	cc.SetReadDeadline(time.Now().Add(drainTime))
	n, err := io.CopyN(io.Discard, resp.Body, maxDrain)
	cc.SetReadDeadline(time.Time{})
	if err != io.EOF || n >= maxDrain || resp.Close {
		cc.Close()
		return
	}
	c.put(cc)
}

// readError turns an answer that is no success into its error.
func readError(resp *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	e := parseError(body, codeOfStatus(resp.StatusCode))
	if e.Message == "" {
		e.Message = "unexpected guest response: " + clip(resp.Status)
	}
	return e
}
