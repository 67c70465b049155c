package forward

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// silence is how long the other side of a connection between nodes may be silent although it should answer: then its host has no power or network, and the
// connection ends.
const silence = 5 * time.Second

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

// limitSilence ends a connection whose other side does not confirm what was sent.
func limitSilence(_, _ string, c syscall.RawConn) (err error) {
	const userTimeout = 0x12 // TCP_USER_TIMEOUT of Linux, in milliseconds
	control := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(silence.Milliseconds()))
	})
	return errors.Join(control, err)
}

// watchedConn is a connection that tells when it ended because its other side was silent.
type watchedConn struct {
	net.Conn
	silent func(error)
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if errors.Is(err, syscall.ETIMEDOUT) {
		w.silent(err)
	}
	return n, err
}

// Listen listens for other nodes.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l := net.ListenConfig{KeepAliveConfig: keepAlive, Control: limitSilence} // its connections inherit it
	return l.Listen(ctx, "tcp", address)
}
