package forward

import (
	"net"
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
