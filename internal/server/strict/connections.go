package strict

import (
	"container/list"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Limits bound how many connections there are at a time; 0 is no bound.
//
// Where a bound is reached, a connection on which no request is served (one that waits
// for its first or its next) makes way for the one that comes: the one that has waited
// for longest, of the address that has the most. Requests that are served, streams
// among them, never do; where nothing else is left, a new client receives 503.
type Limits struct {
	Total int
	// PerAddress bounds those of one address; of IPv6, of one network of 64 bits.
	PerAddress int
	// Shared says of an address that it stands for many, as a proxy's does: Total
	// alone bounds it. Nil is none.
	Shared func(netip.Addr) bool
}

// connections is the connections of a listener.
type connections struct {
	limits Limits

	mu     sync.Mutex
	n      int
	by     map[netip.Addr]*group
	waited uint64 // counts up with each that begins to wait
}

// group is the connections of one address.
type group struct {
	n       int
	shared  bool
	waiting list.List // of *conn, who waits for longest first
}

// addressOf is whose a connection is; the zero address where it says none.
func addressOf(c net.Conn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := a.AddrPort().Addr().Unmap()
	if ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return ip
}

// add counts a connection, which then waits for a request. It returns false if
// there is no space and nobody to make some.
func (cs *connections) add(c *conn) bool {
	c.from = addressOf(c.Conn)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	g := cs.by[c.from]
	if g == nil {
		g = &group{shared: !c.from.IsValid() || cs.limits.Shared != nil && cs.limits.Shared(c.from)}
	}
	var out *conn
	switch per := cs.limits.PerAddress; {
	case per > 0 && !g.shared && g.n >= per:
		if out = g.oldest(); out == nil {
			return false
		}
	case cs.limits.Total > 0 && cs.n >= cs.limits.Total:
		if out = cs.evictable(); out == nil {
			return false
		}
	}
	if out != nil {
		cs.remove(out)
		out.plain.Close() // its server finds that it has ended; the end of TLS would wait for the client
	}
	if cs.by == nil {
		cs.by = map[netip.Addr]*group{}
	}
	cs.by[c.from] = g // which it may have left with out
	cs.n++
	g.n++
	cs.wait(c, g)
	return true
}

// oldest returns who of a group waits for longest; nil for nobody.
func (g *group) oldest() *conn {
	if e := g.waiting.Front(); e != nil {
		return e.Value.(*conn)
	}
	return nil
}

// evictable returns the connection to close for a new one. The caller holds the lock.
func (cs *connections) evictable() *conn {
	var best *conn
	most := 0
	for _, g := range cs.by {
		c := g.oldest()
		if c != nil && (best == nil || g.n > most || g.n == most && c.since < best.since) {
			best, most = c, g.n
		}
	}
	return best
}

// wait notes that a connection waits from now on. The caller holds the lock.
func (cs *connections) wait(c *conn, g *group) {
	cs.waited++
	c.since, c.place = cs.waited, g.waiting.PushBack(c)
}

// serving notes whether a request of a connection is served.
func (cs *connections) serving(c *conn, yes bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	g := cs.by[c.from]
	switch {
	case c.left:
	case yes && c.place != nil:
		g.waiting.Remove(c.place)
		c.place = nil
	case !yes && c.place == nil:
		cs.wait(c, g)
	}
}

// release stops counting a connection. It is idempotent.
func (cs *connections) release(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !c.left {
		cs.remove(c)
	}
}

// remove counts a connection out. The caller holds the lock.
func (cs *connections) remove(c *conn) {
	g := cs.by[c.from]
	if c.place != nil {
		g.waiting.Remove(c.place)
		c.place = nil
	}
	c.left = true
	cs.n--
	if g.n--; g.n == 0 {
		delete(cs.by, c.from)
	}
}

// crowded is the answer to a client that is turned away before it has sent a request.
const crowded = `{"code":503,"message":"too many open connections: close some, or retry later"}` + "\n"

// rejectConn answers a connection that there is no capacity, and ends it. Nothing was written
// to it before, so that this waits for nobody.
func rejectConn(c net.Conn) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(crowded)) + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + crowded))
	c.Close()
}
