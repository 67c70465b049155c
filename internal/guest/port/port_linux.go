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
	// portTimeout is the timeout for connecting to a port, for both address families
	// together. A port with a full backlog does not answer.
	portTimeout = 10 * time.Second
	// hangupInterval is how often a half-closed stream checks whether its client is still
	// connected.
	hangupInterval = time.Second
	// bufferSize is the size of each direction's buffer, in bytes.
	bufferSize = 64 << 10
)

// Serve connects the client to a port of the sandbox's loopback. The stream ends when
// either side ends; a half-close is forwarded.
func Serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	n, ok := envd.ParsePort(req.URL.Query().Get("port"))
	if !ok {
		return c.Fail(http.StatusBadRequest, "the request has an invalid port")
	}
	if req.Header.Get("Upgrade") != envd.PortProtocol {
		return c.Fail(http.StatusUpgradeRequired, "the request does not upgrade to "+envd.PortProtocol)
	}
	// Cancel dialing when the connection ends.
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
	return rpc.ErrGone // the connection cannot be reused
}

// dialLoopback connects to a port over IPv4, or IPv6 if that is refused.
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

// join copies in both directions until both have ended.
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
	look := time.NewTicker(hangupInterval)
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
			// While this side is half-closed, a client that closes its sending half seems to
			// have disconnected, although its data may still be in flight.
			if (down != nil || up == nil) && c.HungUp() {
				tc.Close()
				c.Cut()
			}
		}
	}
}

// copyAll copies until the end of r. It hides ReadFrom and WriteTo because they need splice,
// which not every kernel has.
func copyAll(w io.Writer, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, bufferSize))
	return err
}
