package forward

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestSilence: both sides of a connection between nodes end it if the other one is silent.
func TestSilence(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: limitSilence}
	to, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	from, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, c := range []net.Conn{to, from} {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var ms, idle int
		if err := raw.Control(func(fd uintptr) {
			ms, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, 0x12)
			idle, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		}); err != nil || int64(ms) != silence.Milliseconds() || idle != int(keepAlive.Idle.Seconds()) {
			t.Errorf("%d ms, %d s, %v", ms, idle, err)
		}
	}
}

// TestTimedOut: a connection that timed out is told by its error, whichever deadline came first.
func TestTimedOut(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, true}, // the deadline of the socket
		{&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, true},
		{context.DeadlineExceeded, true}, // of a handshake
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}, true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, false},
		{context.Canceled, false},
		{io.EOF, false},
	} {
		if got := timedOut(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// endedConn is a connection that has ended.
type endedConn struct {
	net.Conn
	err error
}

func (c endedConn) Read([]byte) (int, error) { return 0, c.err }

// TestWatchedConn: only the silence of the other side is told.
func TestWatchedConn(t *testing.T) {
	for _, c := range []struct {
		err  error
		told bool
	}{
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, false},
		{io.EOF, false},
		{os.ErrDeadlineExceeded, false},
	} {
		told := false
		if _, err := (&watchedConn{endedConn{err: c.err}, func(error) { told = true }}).Read(nil); err != c.err || told != c.told {
			t.Errorf("%v: told %t, %v", c.err, told, err)
		}
	}
}
