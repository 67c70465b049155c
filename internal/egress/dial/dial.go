package dial

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	defaultTimeout = 15 * time.Second
	defaultKeep    = 30 * time.Second
	// stagger is the delay after which the next address is tried too.
	stagger = 250 * time.Millisecond
	// ownFor is how long the addresses of this host are kept.
	ownFor = 10 * time.Second
)

// Config is what a Dialer is made from. The zero value connects directly.
type Config struct {
	// Resolver resolves names. Default: that of the host.
	Resolver Resolver
	// Proxy returns the HTTP proxy for a connection, such as
	// http://user:password@proxy.corp:3128, or nil for a direct one. Default: direct.
	// Hosts that rules open with "private" use the proxy too unless Proxy returns nil.
	Proxy func(host string, port int) *url.URL
	// ProxyNames makes the proxy resolve names. By default the host resolves and checks
	// them, and asks the proxy for the address. With ProxyNames a name that does not
	// resolve on the host is allowed, and only the proxy can refuse private addresses.
	ProxyNames bool
	// Own returns the addresses of this host. Default: net.InterfaceAddrs.
	Own func() []netip.Addr
	// Timeout is the maximum duration of a lookup, and of connecting. Default: 15 s.
	Timeout time.Duration
	// Keep is how long an answer of the resolver is used. Default: 30 s.
	Keep time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Dialer connects to hosts. Its methods may be called from several goroutines.
type Dialer struct {
	cfg    Config
	names  names
	table  table
	dialer net.Dialer

	mu      sync.Mutex
	own     []netip.Addr
	ownTill time.Time
}

// New returns a Dialer.
func New(cfg Config) *Dialer {
	if cfg.Resolver == nil {
		cfg.Resolver = &net.Resolver{}
	}
	if cfg.Own == nil {
		cfg.Own = interfaceAddrs
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	d := &Dialer{cfg: cfg, table: newTable()}
	d.names = names{resolver: cfg.Resolver, timeout: cfg.Timeout, keep: cfg.Keep, now: cfg.Now, entries: map[string]*entry{}}
	d.dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 6}
	return d
}

// Destination is what a connection is made to.
type Destination struct {
	// Host is a name or an address.
	Host string
	Port int
	// Private allows private addresses and those of this host.
	Private bool
	// Allow reports whether an address of the host may be used. It may be nil. It cannot open
	// an address that is refused anyway.
	Allow func(netip.Addr) bool
}

// Dial connects to a host: see Connect.
func (d *Dialer) Dial(ctx context.Context, host string, port int, private bool) (net.Conn, netip.Addr, error) {
	return d.Connect(ctx, Destination{Host: host, Port: port, Private: private})
}

// Connect connects to a destination and returns the connection and the address of its other
// end. A connection through a proxy has an address only if the host resolved the name.
//
// The error is an [*Error].
func (d *Dialer) Connect(ctx context.Context, to Destination) (net.Conn, netip.Addr, error) {
	host, port := to.Host, to.Port
	var proxy *url.URL
	if d.cfg.Proxy != nil {
		proxy = d.cfg.Proxy(host, port)
	}
	addrs, err := d.resolve(ctx, to)
	if proxy != nil && d.cfg.ProxyNames && (err == nil || err.Code == Unresolved || err.Code == ResolverFailed) {
		c, err := d.throughProxy(ctx, proxy, host, host, port)
		return c, netip.Addr{}, err
	}
	if err != nil {
		return nil, err.Addr, err
	}
	if proxy != nil {
		a := addrs[0]
		c, err := d.throughProxy(ctx, proxy, a.String(), host, port)
		return c, a, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	return d.race(ctx, host, port, addrs)
}

// resolve returns the addresses of a host that may be used, at least one.
func (d *Dialer) resolve(ctx context.Context, to Destination) ([]netip.Addr, *Error) {
	host, port := to.Host, to.Port
	literal, err := netip.ParseAddr(host)
	all := []netip.Addr{literal}
	isLiteral := err == nil
	if !isLiteral {
		if all, err = d.names.lookup(ctx, host); err != nil {
			return nil, resolveError(host, port, err)
		}
		if len(all) == 0 {
			return nil, &Error{Code: Unresolved, Host: host, Port: port}
		}
	}
	own := d.ownAddrs()
	var fine []netip.Addr
	refusal := &Error{Code: Forbidden, Host: host, Port: port}
	for _, a := range all {
		k, name := d.table.classify(a, own)
		allowed := opened(k, to.Private, isLiteral)
		if allowed && to.Allow != nil && !to.Allow(a.Unmap()) {
			allowed, name = false, "denied by a rule"
		}
		if allowed {
			fine = append(fine, a.Unmap())
		} else if refusal.Detail == "" {
			refusal.Addr, refusal.Detail = a, name
		}
	}
	if len(fine) == 0 {
		return nil, refusal
	}
	return fine, nil
}

// opened reports whether addresses of a kind may be used.
func opened(k kind, privateRule, literal bool) bool {
	switch k {
	case public:
		return true
	case private:
		return privateRule
	case sensitive:
		return privateRule && literal
	}
	return false
}

// race connects to the first address that answers. The next one is tried when one fails, or
// after a short delay.
func (d *Dialer) race(ctx context.Context, host string, port int, addrs []netip.Addr) (net.Conn, netip.Addr, error) {
	if len(addrs) == 1 { // as most names have; no goroutine is needed
		c, err := d.dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, netip.AddrPortFrom(addrs[0], uint16(port)))
		if err != nil {
			return nil, addrs[0], connectError(host, port, addrs[0], err)
		}
		return c, addrs[0], nil
	}
	type result struct {
		conn net.Conn
		addr netip.Addr
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result, len(addrs))
	var attempts sync.WaitGroup
	var won net.Conn
	defer func() {
		cancel()
		attempts.Wait()
		close(results)
		for r := range results {
			if r.conn != nil && r.conn != won {
				r.conn.Close()
			}
		}
	}()
	start := func(a netip.Addr) {
		attempts.Go(func() {
			c, err := d.dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, netip.AddrPortFrom(a, uint16(port)))
			if err != nil {
				results <- result{nil, a, err}
				return
			}
			results <- result{c, a, nil}
		})
	}
	var first error
	next, running := 0, 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if next < len(addrs) {
				start(addrs[next])
				next++
				running++
				timer.Reset(stagger)
			}
		case r := <-results:
			if r.err == nil {
				won = r.conn
				return r.conn, r.addr, nil
			}
			running--
			if first == nil {
				first = connectError(host, port, r.addr, r.err)
			}
			if next < len(addrs) {
				timer.Reset(0)
			} else if running == 0 {
				return nil, addrs[0], first
			}
		case <-ctx.Done():
			return nil, addrs[0], connectError(host, port, addrs[0], ctx.Err())
		}
	}
}

// ownAddrs returns the addresses of this host.
func (d *Dialer) ownAddrs() []netip.Addr {
	d.mu.Lock()
	own, till := d.own, d.ownTill
	d.mu.Unlock()
	now := d.cfg.Now()
	if now.Before(till) {
		return own
	}
	own = d.cfg.Own()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own, d.ownTill = own, now.Add(ownFor)
	return own
}

// interfaceAddrs returns the addresses of the host's interfaces.
func interfaceAddrs() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the ranges are refused without it
	}
	var own []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own
}

// joinPort returns host:port.
func joinPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
