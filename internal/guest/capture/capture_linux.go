package capture

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/outbound"
	"hortus.dev/internal/guest/resolver"
)

const (
	// maxConnections is the maximum number of captured connections. Further ones are reset.
	// The host has its own, lower limit.
	maxConnections = 4096
	// openTimeout is the maximum wait for a host that accepts streams.
	openTimeout = 10 * time.Second
)

// Config configures a Capture.
type Config struct {
	// Open opens a stream to the host.
	Open func(context.Context) (*outbound.Stream, error)
	// Hostname is the sandbox's.
	Hostname string
}

// Capture serves the outgoing connections of a sandbox.
type Capture struct {
	open        func(context.Context) (*outbound.Stream, error)
	names       *resolver.Names
	resolver    *resolver.Resolver
	connections net.Listener
	proxy       net.Listener
	queries     net.PacketConn
	nameserver  netip.AddrPort
	own         netip.Addr

	slots   chan struct{} // one value for each connection
	buffers sync.Pool
}

// Listen opens the ports.
func Listen(cfg Config) (*Capture, error) {
	c := &Capture{
		open: cfg.Open, names: resolver.NewNames(), slots: make(chan struct{}, maxConnections),
		nameserver: netip.AddrPortFrom(netip.MustParseAddr(birth.Nameserver), 53), own: netip.MustParseAddr(birth.OwnAddress),
	}
	c.buffers.New = func() any { return new([bufferSize]byte) }
	c.resolver = resolver.New(resolver.Config{Names: c.names, Hostname: cfg.Hostname,
		Open: func(ctx context.Context) (resolver.Stream, error) {
			s, err := cfg.Open(ctx)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	var err, err2, err3 error
	c.connections, err = net.Listen("tcp4", at(birth.CapturePort))
	c.proxy, err2 = net.Listen("tcp4", at(birth.ProxyPort))
	c.queries, err3 = net.ListenPacket("udp4", at(birth.ResolverPort))
	if err := errors.Join(err, err2, err3); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the ports of a Capture that does not run.
func (c *Capture) Close() {
	for _, l := range []net.Listener{c.connections, c.proxy} {
		if l != nil {
			l.Close()
		}
	}
	if c.queries != nil {
		c.queries.Close()
	}
}

// SetHostname replaces the sandbox's host name.
func (c *Capture) SetHostname(name string) { c.resolver.SetHostname(name) }

// Run serves until ctx ends, and then waits for all connections.
func (c *Capture) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.resolver.ServePackets(ctx, c.queries) })
	wg.Go(func() { c.accept(ctx, c.connections, c.serve) })
	wg.Go(func() { c.accept(ctx, c.proxy, c.serveProxy) })
}

// accept serves the connections of a port.
func (c *Capture) accept(ctx context.Context, l net.Listener, serve func(context.Context, *net.TCPConn)) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if nc != nil {
				nc.Close()
			}
			return
		}
		if err != nil { // most likely out of descriptors; retry
			time.Sleep(10 * time.Millisecond)
			continue
		}
		tc := nc.(*net.TCPConn)
		select {
		case c.slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-c.slots }()
				serve(ctx, tc)
			})
		default:
			reset(tc)
		}
	}
}

// reset ends a connection so that its program gets an error.
func reset(tc *net.TCPConn) {
	tc.SetLinger(0)
	tc.Close()
}
