package rpc

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
)

const (
	maxHead     = 64 << 10        // a request's line and headers, in bytes
	maxDrain    = 256 << 10       // maximum bytes read to reuse a connection
	idleTimeout = 2 * time.Minute // between two requests
	headTimeout = 30 * time.Second
	// writeTimeout is the timeout for writing a complete answer. A stream has none: its
	// reader may pause for any time.
	writeTimeout = 2 * time.Minute
)

// Conn is a connection of a client.
type Conn struct {
	net.Conn
	fd     int // of the socket, for poll; owned by Conn
	unixNC bool
	br     *bufio.Reader
	left   int64 // remaining bytes that a head may have; below 0: no limit
	close  bool  // after the current request
	hortus bool  // the current request asked for the extension
	server *Server
	kind   kind // protected by server.mu
	out    Stream

	ended  chan struct{} // closed when the guest ended the connection
	ending sync.Once
}

// Cut ends the connection: reads and writes of its handler fail, and poll reports a
// hang-up. The handler's goroutine closes the descriptor.
func (c *Conn) Cut() {
	c.ending.Do(func() {
		close(c.ended)
		if nc, ok := c.Conn.(interface {
			CloseRead() error
			CloseWrite() error
		}); ok {
			nc.CloseRead()
			nc.CloseWrite()
		}
	})
}

var errHeadTooLong = errors.New("the request's headers are longer than 64 KiB")

func newConn(nc net.Conn) (*Conn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection has no file descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: nc, left: -1, ended: make(chan struct{})}
	_, c.unixNC = nc.(*net.UnixConn)
	if err := raw.Control(func(fd uintptr) { c.fd = int(fd) }); err != nil {
		return nil, err
	}
	c.br = bufio.NewReaderSize((*headReader)(c), 4<<10)
	return c, nil
}

// CutOff reports whether the guest ended the connection.
func (c *Conn) CutOff() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// headReader limits the bytes that are read while a head is parsed.
type headReader Conn

func (h *headReader) Read(p []byte) (int, error) {
	if h.left < 0 {
		return h.Conn.Read(p)
	}
	if h.left == 0 {
		return 0, errHeadTooLong
	}
	if int64(len(p)) > h.left {
		p = p[:h.left]
	}
	n, err := h.Conn.Read(p)
	h.left -= int64(n)
	return n, err
}

// readRequest waits for the next request and reads its head.
func (c *Conn) readRequest() (*http.Request, error) {
	if c.br.Buffered() == 0 {
		c.SetReadDeadline(time.Now().Add(idleTimeout))
		if _, err := c.br.Peek(1); err != nil {
			return nil, err
		}
	}
	c.SetReadDeadline(time.Now().Add(headTimeout))
	c.left = maxHead
	req, err := http.ReadRequest(c.br)
	c.left = -1
	if err != nil {
		return nil, err
	}
	c.SetReadDeadline(time.Time{})
	c.hortus = req.Header.Get(envd.HeaderVersion) == envd.Version
	c.close = req.Close
	if req.Header.Get("Expect") == "100-continue" {
		if _, err := io.WriteString(c.Conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// Drain reads the rest of a request's body. It reports whether the connection can be reused.
func (c *Conn) Drain(req *http.Request) bool {
	c.SetReadDeadline(time.Now().Add(headTimeout))
	n, err := io.CopyN(io.Discard, req.Body, maxDrain)
	c.SetReadDeadline(time.Time{})
	return err == io.EOF && n < maxDrain
}

const (
	// maxLinger (in bytes) and lingerTime limit how much is read of a request that was
	// answered before it was fully read.
	maxLinger  = 64 << 20
	lingerTime = 30 * time.Second
)

// linger reads what a client is still sending before the connection is closed. Closing at
// once would reset the connection, and the client would not receive the answer.
func (c *Conn) linger(req *http.Request) {
	if req.Body == http.NoBody {
		return
	}
	if nc, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		nc.CloseWrite()
	}
	c.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, req.Body, maxLinger)
}

// appendHead appends the head of an answer. A length below 0 means chunked.
func (c *Conn) appendHead(b []byte, status int, contentType string, length int64) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	if contentType != "" {
		b = append(b, "Content-Type: "...)
		b = append(b, contentType...)
		b = append(b, "\r\n"...)
	}
	if c.hortus {
		b = append(b, envd.HeaderVersion+": "+envd.Version+"\r\n"...)
	}
	if c.close {
		b = append(b, "Connection: close\r\n"...)
	}
	switch {
	case length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case status != http.StatusNoContent:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// Answer sends a complete answer.
func (c *Conn) Answer(status int, contentType string, body []byte) error {
	b := c.appendHead(c.out.buf[:0], status, contentType, int64(len(body)))
	b = append(b, body...)
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.Write(b)
	c.SetWriteDeadline(time.Time{})
	if cap(b) <= 128<<10 {
		c.out.buf = b[:0]
	}
	return err
}

// WatchHangup returns a channel that is closed when the client leaves while it is being
// answered. The caller must call stop, which waits for the goroutine.
func (c *Conn) WatchHangup() (gone <-chan struct{}, stop func()) {
	left := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A client should send nothing before it has its answer. If it does, the byte
		// remains buffered for the next request.
		if _, err := c.br.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			close(left)
		}
	}()
	return left, func() {
		c.SetReadDeadline(time.Unix(1, 0))
		<-done
		c.SetReadDeadline(time.Time{})
	}
}

// HungUp reports whether the client has left.
func (c *Conn) HungUp() bool {
	set := [1]unix.PollFd{c.Poll()}
	n, err := unix.Poll(set[:], 0)
	return err == nil && n > 0
}

// Poll returns the descriptor and the poll events that mean that the client has left. On a
// unix socket poll always reports a full close, and the client may close only its sending
// half. On other sockets only the close of the sending half is visible.
func (c *Conn) Poll() unix.PollFd {
	if c.unixNC {
		return unix.PollFd{Fd: int32(c.fd)}
	}
	return unix.PollFd{Fd: int32(c.fd), Events: unix.POLLRDHUP}
}

// Ended is closed when the guest ends the connection.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Extended reports whether the current request asked for the extension hortus.v1.
func (c *Conn) Extended() bool { return c.hortus }

// Body reads what the client sends after the head of its request.
func (c *Conn) Body() io.Reader { return c.br }

// TakeBuffered returns what Body has read from the connection but not returned, and removes
// it. After that Body may be bypassed.
func (c *Conn) TakeBuffered() []byte {
	b := make([]byte, c.br.Buffered())
	c.br.Read(b)
	return b
}
