package manager

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxPortStreams bounds the streams to ports of one sandbox that are open at
	// once, so that they leave others of the link's to commands and files.
	maxPortStreams = 128
	// portTimeout bounds the opening of one: a guest that does not answer must not
	// hold its caller.
	portTimeout = 15 * time.Second
)

// Dial opens a stream to a port on a sandbox's loopback interface. The stream ends with the
// sandbox, with a save that closes its streams, or by Close. It has a CloseWrite method; closing
// one direction is passed on.
//
// Errors: KindInvalid for an invalid port; KindUnavailable with [envd.ErrPortClosed] in its chain
// if nothing listens; KindExhausted if too many streams are open; KindUnsupported for a sandbox
// that shares its host's network; those of a sandbox that is not running.
func (m *Manager) Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
	if port < 1 || port > envd.MaxPort {
		return nil, api.Errorf(api.KindInvalid, "%d is not a port: use 1 to %d", port, envd.MaxPort)
	}
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	row := l.Row()
	if row.Egress == api.EgressHost {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s shares the network of this machine, whose ports are not forwarded (capability %s)", id, api.CapNoNetwork).
			WithHint("use another backend, whose sandboxes have their own ports; or connect to the machine itself")
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	if !l.takePort() {
		return nil, api.Errorf(api.KindExhausted, "%d streams to ports of sandbox %s are open, which is the maximum", maxPortStreams, id).
			WithHint("close some of them")
	}
	conn, err := l.openPort(ctx, port)
	if err != nil {
		l.freePort()
		return nil, portError(ctx, id, port, err)
	}
	return &portConn{Conn: conn, l: l}, nil
}

func (l *live) openPort(ctx context.Context, port int) (net.Conn, error) {
	conn, err := l.machine.Link().Open(ctx)
	if err != nil {
		return nil, err
	}
	return envd.OpenPort(ctx, conn, envd.PortPath(port), nil)
}

// portError returns the manager's error for a port that was not opened: a guest's text is not
// passed on.
func portError(ctx context.Context, id api.SandboxID, port int, err error) error {
	var refused *envd.Refused
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusBadGateway:
		return api.Errorf(api.KindUnavailable, "sandbox %s, port %d: %w", id, port, envd.ErrPortClosed).
			WithHint("start a server in the sandbox that listens on 127.0.0.1, ::1 or all addresses")
	case errors.As(err, &refused):
		return api.Errorf(api.KindUnavailable, "sandbox %s, port %d: unexpected response status %d from the guest", id, port, refused.Status)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return api.Errorf(api.KindTimeout, "sandbox %s, port %d: timeout waiting for the guest", id, port)
	}
	return err
}

// takePort counts a stream in, if the bound allows it.
func (l *live) takePort() bool {
	if l.ports.Add(1) > maxPortStreams {
		l.freePort()
		return false
	}
	return true
}

func (l *live) freePort() { l.ports.Add(-1) }

// portConn is a stream that gives its place back once.
type portConn struct {
	net.Conn
	l    *live
	once sync.Once
}

// Close ends the stream.
func (p *portConn) Close() error {
	defer p.once.Do(p.l.freePort)
	return p.Conn.Close()
}

// Ended is closed when the sandbox serves no more in this daemon.
func (p *portConn) Ended() <-chan struct{} { return p.l.ended }

// CloseWrite closes the direction to the sandbox; the other direction stays open.
func (p *portConn) CloseWrite() error {
	return p.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// guestConn is a stream that reports when its sandbox has stopped serving.
type guestConn struct {
	net.Conn
	ended <-chan struct{}
}

// Ended is closed when the sandbox serves no more in this daemon.
func (c *guestConn) Ended() <-chan struct{} { return c.ended }

// CloseWrite ends what is sent, where the stream can do that alone.
func (c *guestConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Guest opens a raw stream to a sandbox's guest, for a server's proxy. It has a method
// Ended, as a command's stream has.
func (m *Manager) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := l.machine.Link().Open(ctx)
	if err != nil {
		return nil, err
	}
	return &guestConn{Conn: c, ended: l.ended}, nil
}
