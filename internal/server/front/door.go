package front

import (
	"net"
	"net/netip"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/server/strict"
)

// Door is a listener on a free port of this machine's loopback address that listens when it is needed first. A server can serve it
// from the start: Accept waits for Open. Listen and Open are called once, in this order.
type Door struct {
	bounds Bounds
	opened chan struct{} // closed by Open; ln is then valid
	closed chan struct{}
	once   sync.Once
	ln     net.Listener
}

// NewDoor returns a door that is not open.
func NewDoor(b Bounds) *Door {
	return &Door{bounds: b.WithDefaults(), opened: make(chan struct{}), closed: make(chan struct{})}
}

// Listen takes a port and returns its URL. Connections wait for Open.
func (d *Door) Listen() (url string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", api.Errorf(api.KindUnavailable, "listen on a port for the console: %w", err)
	}
	d.ln = strict.NewListener(ln, strict.Limits{Total: d.bounds.Conns, PerAddress: d.bounds.PerAddress, Shared: netip.Addr.IsLoopback})
	return urlOf(ln, nil), nil
}

// Open has Accept return connections.
func (d *Door) Open() { close(d.opened) }

// Accept implements net.Listener.
func (d *Door) Accept() (net.Conn, error) {
	select {
	case <-d.opened:
		return d.ln.Accept()
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *Door) Close() error {
	d.once.Do(func() { close(d.closed) })
	select {
	case <-d.opened:
		return d.ln.Close()
	default:
		return nil
	}
}

// Addr implements net.Listener.
func (d *Door) Addr() net.Addr {
	select {
	case <-d.opened:
		return d.ln.Addr()
	default:
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	}
}
