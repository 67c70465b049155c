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
// among them, never do; where nothing else is left, who comes is told 503.
type Limits struct {
	Total int
	// PerAddress bounds those of one address; of IPv6, of one network of 64 bits.
	PerAddress int
	// Shared says of an address that it stands for many, as a proxy's does: Total
	// alone bounds it. Nil is none.
	Shared func(netip.Addr) bool
}

// crowd is the connections of a listener.
type crowd struct {
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

// enter counts a connection in, which then waits for a request. It is false where
// there is no room and nobody to make some.
func (cr *crowd) enter(c *conn) bool {
	c.from = addressOf(c.Conn)
	cr.mu.Lock()
	defer cr.mu.Unlock()
	g := cr.by[c.from]
	if g == nil {
		g = &group{shared: !c.from.IsValid() || cr.limits.Shared != nil && cr.limits.Shared(c.from)}
	}
	var out *conn
	switch per := cr.limits.PerAddress; {
	case per > 0 && !g.shared && g.n >= per:
		if out = g.oldest(); out == nil {
			return false
		}
	case cr.limits.Total > 0 && cr.n >= cr.limits.Total:
		if out = cr.spare(); out == nil {
			return false
		}
	}
	if out != nil {
		cr.remove(out)
		out.Conn.Close() // its server finds that it has ended
	}
	if cr.by == nil {
		cr.by = map[netip.Addr]*group{}
	}
	cr.by[c.from] = g // which it may have left with out
	cr.n++
	g.n++
	cr.wait(c, g)
	return true
}

// oldest gives who of a group waits for longest; nil for nobody.
func (g *group) oldest() *conn {
	if e := g.waiting.Front(); e != nil {
		return e.Value.(*conn)
	}
	return nil
}

// spare gives the connection that is missed least. The caller holds the lock.
func (cr *crowd) spare() *conn {
	var best *conn
	most := 0
	for _, g := range cr.by {
		c := g.oldest()
		if c != nil && (best == nil || g.n > most || g.n == most && c.since < best.since) {
			best, most = c, g.n
		}
	}
	return best
}

// wait notes that a connection waits from now on. The caller holds the lock.
func (cr *crowd) wait(c *conn, g *group) {
	cr.waited++
	c.since, c.place = cr.waited, g.waiting.PushBack(c)
}

// serving notes whether a request of a connection is served.
func (cr *crowd) serving(c *conn, yes bool) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	g := cr.by[c.from]
	switch {
	case c.left:
	case yes && c.place != nil:
		g.waiting.Remove(c.place)
		c.place = nil
	case !yes && c.place == nil:
		cr.wait(c, g)
	}
}

// leave counts a connection out, once.
func (cr *crowd) leave(c *conn) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	if !c.left {
		cr.remove(c)
	}
}

// remove counts a connection out. The caller holds the lock.
func (cr *crowd) remove(c *conn) {
	g := cr.by[c.from]
	if c.place != nil {
		g.waiting.Remove(c.place)
		c.place = nil
	}
	c.left = true
	cr.n--
	if g.n--; g.n == 0 {
		delete(cr.by, c.from)
	}
}

// crowded is what who is turned away is told, before it has asked anything.
const crowded = `{"code":503,"message":"too many connections are open: close some, or come again"}` + "\n"

// turnAway tells a connection that there is no room, and ends it. Nothing was written
// to it before, so that this waits for nobody.
func turnAway(c net.Conn) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(crowded)) + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + crowded))
	c.Close()
}
