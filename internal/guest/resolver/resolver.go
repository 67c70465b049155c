package resolver

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api/envd"
)

const (
	// askTimeout is the maximum wait for the host.
	askTimeout = 2 * time.Second
	// maxQueries is the maximum number of queries that wait for the host. Beyond it queries
	// fail at once.
	maxQueries = 1024
	// ttl is how long programs may remember an answer, in seconds. It is short because the
	// policy may change.
	ttl = 1
	// connTimeout is the maximum wait for the next query on a connection.
	connTimeout = 10 * time.Second
)

// Config configures a Resolver.
type Config struct {
	// Open opens a stream to the host. It waits until the host accepts one or ctx ends.
	Open  func(context.Context) (Stream, error)
	Names *Names
	// Hostname is the sandbox's, which is resolved locally.
	Hostname string
}

// Resolver answers queries.
type Resolver struct {
	names    *Names
	asker    *asker
	hostname atomic.Pointer[string]
	queries  chan struct{} // one value for each query that waits for the host
}

// New returns a resolver.
func New(cfg Config) *Resolver {
	r := &Resolver{names: cfg.Names, asker: &asker{open: cfg.Open, turns: make(chan struct{}, envd.MaxEgressResolvers)}, queries: make(chan struct{}, maxQueries)}
	r.SetHostname(cfg.Hostname)
	return r
}

// SetHostname replaces the sandbox's host name.
func (r *Resolver) SetHostname(name string) {
	name = strings.ToLower(name)
	r.hostname.Store(&name)
}

// ServePackets answers queries until ctx ends. It closes conn, and the streams to the host.
func (r *Resolver) ServePackets(ctx context.Context, conn net.PacketConn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer r.asker.close()
	var wg sync.WaitGroup
	defer wg.Wait()
	buf := make([]byte, maxMessage)
	for {
		n, from, err := conn.ReadFrom(buf)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// Such an error is of one packet: an answer could not be delivered.
			continue
		}
		q, now, ok := r.begin(buf[:n])
		if !ok {
			continue
		}
		if now != nil {
			conn.WriteTo(now, from)
			continue
		}
		q.section = append([]byte(nil), q.section...)
		wg.Go(func() { conn.WriteTo(r.finish(ctx, q), from) })
	}
}

// ServeConn answers the queries of a connection, which it closes.
func (r *Resolver) ServeConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 2+maxMessage)
	for ctx.Err() == nil {
		conn.SetDeadline(time.Now().Add(connTimeout))
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(buf))
		if n > maxMessage {
			return
		}
		if _, err := io.ReadFull(conn, buf[2:2+n]); err != nil {
			return
		}
		q, answer, ok := r.begin(buf[2 : 2+n])
		if !ok {
			return
		}
		if answer == nil {
			answer = r.finish(ctx, q)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// begin answers a query that the host is not needed for. Without an answer it has reserved a
// place among the queries that wait for the host, for finish. ok is false for a message that
// gets no answer.
func (r *Resolver) begin(msg []byte) (q question, answer []byte, ok bool) {
	q, code, ok := parse(msg)
	if !ok {
		return q, nil, false
	}
	if code != codeOK {
		return q, q.answer(code, netip.Addr{}), true
	}
	if q.class != classIN {
		return q, q.answer(codeRefused, netip.Addr{}), true
	}
	if answer := r.local(&q); answer != nil {
		return q, answer, true
	}
	select {
	case r.queries <- struct{}{}:
		return q, nil, true
	default:
		return q, q.answer(codeServerFailure, netip.Addr{}), true
	}
}

// local answers a query about the sandbox itself, and about names that nobody has.
func (r *Resolver) local(q *question) []byte {
	localhost := q.name == "localhost" || strings.HasSuffix(q.name, ".localhost")
	switch {
	case localhost && q.kind == typeAAAA:
		return q.answer(codeOK, netip.IPv6Loopback())
	case localhost || q.name != "" && q.name == *r.hostname.Load():
		if q.kind == typeA {
			return q.answer(codeOK, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
		return q.answer(codeOK, netip.Addr{})
	case !valid(q.name) || strings.HasSuffix(q.name, ".arpa"):
		return q.answer(codeNoName, netip.Addr{})
	}
	return nil
}

// finish asks the host and returns the answer.
func (r *Resolver) finish(ctx context.Context, q question) []byte {
	defer func() { <-r.queries }()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := r.asker.ask(ctx, q.name)
	switch {
	case err != nil:
		return q.answer(codeServerFailure, netip.Addr{})
	case answer.OK && q.kind == typeA:
		return q.answer(codeOK, r.names.Address(q.name))
	case answer.OK:
		return q.answer(codeOK, netip.Addr{})
	case answer.Error == envd.EgressErrDenied || answer.Error == envd.EgressErrInvalid:
		return q.answer(codeNoName, netip.Addr{})
	}
	return q.answer(codeServerFailure, netip.Addr{})
}
