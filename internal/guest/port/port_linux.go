package port

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/rpc"
)

const (
	// portTimeout bounds the connecting to a port, both families together. One
	// whose backlog is full does not answer.
	portTimeout = 10 * time.Second
	// portLook is how often a stream whose one half has ended looks whether its
	// client is still there.
	portLook = time.Second
	// bufferSize is what is copied at once in each direction, in bytes.
	bufferSize = 64 << 10
)

// Serve serves a stream to a port of this sandbox's loopback. It ends with either
// side; an end of one half is passed on.
func Serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	n, ok := envd.ParsePort(req.URL.Query().Get("port"))
	if !ok {
		return c.Fail(http.StatusBadRequest, "the request names no port")
	}
	if req.Header.Get("Upgrade") != envd.PortProtocol {
		return c.Fail(http.StatusUpgradeRequired, "the request does not ask for "+envd.PortProtocol)
	}
	// What ends the connection ends the connecting too.
	ctx, cancel := context.WithTimeout(context.Background(), portTimeout)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	dialled := make(chan struct{})
	watch.Go(func() {
		select {
		case <-c.Ended():
			cancel()
		case <-dialled:
		}
	})
	tc, err := dialLoopback(ctx, n)
	close(dialled)
	if err != nil {
		if c.CutOff() {
			return rpc.ErrGone
		}
		text := err.Error()
		if errno := unix.Errno(0); errors.As(err, &errno) {
			text = errno.Error()
		}
		status := http.StatusBadGateway
		if !errors.Is(err, unix.ECONNREFUSED) {
			status = http.StatusGatewayTimeout
		}
		return c.Fail(status, "port "+strconv.Itoa(n)+": "+text)
	}
	defer tc.Close()
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + envd.PortProtocol + "\r\n\r\n"
	if _, err := io.WriteString(c.Conn, head); err != nil {
		return err
	}
	join(c, tc)
	return rpc.ErrGone // the connection has had its use
}

// dialLoopback connects to whoever listens here, of either family.
func dialLoopback(ctx context.Context, port int) (*net.TCPConn, error) {
	var d net.Dialer
	at := strconv.Itoa(port)
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", at))
	if errors.Is(err, unix.ECONNREFUSED) {
		var err6 error
		if c, err6 = d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", at)); err6 == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// join copies both ways until both have ended.
func join(c *rpc.Conn, tc *net.TCPConn) {
	var copies sync.WaitGroup
	defer copies.Wait()
	up, down := make(chan struct{}), make(chan struct{})
	copies.Go(func() {
		defer close(up)
		if copyAll(tc, c.Body()) != nil || tc.CloseWrite() != nil {
			tc.Close()
		}
	})
	copies.Go(func() {
		defer close(down)
		nc, ok := c.Conn.(interface{ CloseWrite() error })
		if copyAll(c.Conn, tc) != nil || !ok || nc.CloseWrite() != nil {
			c.Cut()
		}
	})
	look := time.NewTicker(portLook)
	defer look.Stop()
	ended := c.Ended()
	for up != nil || down != nil {
		select {
		case <-up:
			up = nil
		case <-down:
			down = nil
		case <-ended:
			tc.Close()
			ended = nil
		case <-look.C:
			// With the one half ended here, a client that ended the other looks as
			// if it had left, and what it sent may still be on its way.
			if (down != nil || up == nil) && c.HungUp() {
				tc.Close()
				c.Cut()
			}
		}
	}
}

// copyAll copies until the reader's end, which is no error. What both offer to do
// without a buffer needs more of a kernel than every one has.
func copyAll(w io.Writer, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, bufferSize))
	return err
}
