package initns

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/guest/birth"
)

// EngineStream is [Engine] for an engine at another host, which shows no directory of this one. What is a control socket and a
// listening socket there is frames of package serial on standard input and output here. The stage says nothing before it fails;
// the guest is one with [birth.ArgStdio].
const EngineStream = "engine-stream"

// relay passes what the host sends to the control socket of the stage and the guest, and their reports to the host. It is in the
// process of the guest, so that no program inside can end it.
type relay struct {
	mux     *serial.Mux
	control *net.UnixConn
	orders  chan order
	said    chan struct{} // closed when every report was sent
	fds     []int         // that it uses
}

// order is what the host sent: a packet, or a stream.
type order struct {
	packet []byte
	stream *net.UnixConn
}

// stdio is the serial port.
type stdio struct{ in, out *os.File }

func (s stdio) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s stdio) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s stdio) Close() error                { return s.in.Close() }

// openRelay makes the control socket, and starts to relay. In a program whose runtime uses the descriptor of that socket, it executes
// the program again, with it taken.
func openRelay() (*relay, error) {
	kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, at("execute the stage again", takeSockets())
	}
	unix.CloseOnExec(controlFD)
	r := &relay{orders: make(chan order, 64), said: make(chan struct{})}
	const safe = 16
	var port [2]*os.File
	for i := range port {
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, safe)
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
		if err != nil {
			return nil, at("open the standard input and output", err)
		}
		r.fds = append(r.fds, fd)
		port[i] = os.NewFile(uintptr(fd), "stdio")
	}
	f := os.NewFile(birth.ControlFD, "control")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, at("open the control socket", err)
	}
	r.control = c.(*net.UnixConn)
	raw, err := r.control.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { r.fds = append(r.fds, int(fd)) })
	}
	if err != nil {
		return nil, at("open the control socket", err)
	}
	r.mux = serial.Serve(stdio{port[0], port[1]}, serial.Config{
		Accept: func(c *net.UnixConn) { r.orders <- order{stream: c} },
		Packet: func(p []byte) { r.orders <- order{packet: p} },
	})
	go r.forward()
	go r.report()
	return r, nil
}

// takeSockets executes this program again with the ends of the control socket at their descriptors.
func takeSockets() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for i, fd := range pair { // away from where they are to be
		if pair[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 16); err != nil {
			return err
		}
	}
	for i, to := range []int{controlFD, birth.ControlFD} {
		if err := unix.Dup3(pair[i], to, 0); err != nil {
			return err
		}
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

// orderTimeout is the maximum wait for the guest to take a packet or a stream.
const orderTimeout = 10 * time.Second

// forward sends what the host sent, in that order. When the input has ended the guest has no host any more: it ends with its
// control socket.
func (r *relay) forward() {
	defer r.control.Close()
	for {
		var o order
		select {
		case o = <-r.orders:
		case <-r.mux.Ended():
			return
		}
		r.control.SetWriteDeadline(time.Now().Add(orderTimeout))
		if o.stream == nil {
			r.control.Write(o.packet)
			continue
		}
		if raw, err := o.stream.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) {
				// If it cannot be sent it is closed, which the host sees.
				r.control.WriteMsgUnix([]byte(birth.StreamPacket), unix.UnixRights(int(fd)), nil)
			})
		}
		o.stream.Close()
	}
}

// report sends the host what the stage and the guest report.
func (r *relay) report() {
	defer close(r.said)
	buf := make([]byte, serial.MaxReport)
	for {
		n, err := r.control.Read(buf)
		if err != nil || n == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), orderTimeout)
		r.mux.Send(ctx, bytes.Clone(buf[:n]))
		cancel()
	}
}

// last waits until the report of a stage that has failed was sent.
func (r *relay) last() {
	if r == nil {
		return
	}
	unix.Shutdown(controlFD, unix.SHUT_WR)
	select {
	case <-r.said:
	case <-time.After(orderTimeout):
	}
}

// runEngineStream is runEngine for an engine at another host.
func runEngineStream() (*relay, error) {
	r, err := openRelay()
	if err != nil {
		return nil, err
	}
	spec, _, err := receive()
	if err != nil {
		return r, err
	}
	if err := prepareEngine(spec); err != nil {
		return r, err
	}
	// The guest takes the control socket from its standard input and output.
	for fd := range 2 {
		if err := unix.Dup3(controlFD, fd, 0); err != nil {
			return r, at("place descriptors", err)
		}
	}
	os.Args = []string{Argv0, birth.ArgStdio}
	return r, finishEngine(spec, r.fds...)
}

var _ io.ReadWriteCloser = stdio{}
