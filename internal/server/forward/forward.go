package forward

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/guestproxy"
)

// Door is a server of a node.
type Door string

// The doors. DoorSandbox is the data plane of sandboxes, which authenticates requests itself.
const (
	DoorV1      Door = "v1"
	DoorE2B     Door = "e2b"
	DoorSandbox Door = "sandbox"
)

// Kind is what a request can be about.
type Kind string

// The kinds of things that a node has. A Session is named by its key among those of the caller's account, others by their ID.
const (
	Sandbox   Kind = "sandbox"
	Snapshot  Kind = "snapshot"
	Workspace Kind = "workspace"
	Task      Kind = "task"
	Session   Kind = "session"
	Plan      Kind = "plan"
	Volume    Kind = "volume"
	Build     Kind = "build"
	// Builds are what an account builds over several requests, by the name of the account: one node has all of it.
	Builds Kind = "builds"
	// Machine is a node itself, by its name or ID.
	Machine Kind = "node"
)

// About says what a request is about.
type About struct {
	Door Door
	Kind Kind
	ID   string
	// Stored is true if the rows have the answer, too: this node gives it if the other one does not answer.
	Stored bool
}

// Node is another node.
type Node struct {
	ID   api.NodeID
	Name string
	// Address is HOST:PORT of its listener for nodes.
	Address string
}

// Location is where a thing is.
type Location struct {
	// Here is true if it is this node's, does not exist, or is nobody's: this node answers.
	Here bool
	Node Node
	// Silent is true if the node has not renewed its lease. Ended is true if the thing is over: the rows have what is left of it.
	Silent, Ended bool
	// Moving is true while the thing is moved from one node to another. Away is true while no node has it: another one is about to take it over.
	Moving, Away bool
	// Account owns the thing.
	Account string
}

// Directory knows where things are.
type Directory interface {
	// Locate finds a thing. With fresh, nothing that was remembered is used.
	Locate(ctx context.Context, kind Kind, id string, fresh bool) (Location, error)
}

// Config is what a forwarder is made of.
type Config struct {
	Self      api.NodeID
	Directory Directory
	// Choose lists the nodes for a new thing, the best first. See Place.
	Choose func(ctx context.Context, n Need) ([]Node, error)
	// Room reports whether a node other than this one seems to have capacity for what waits here; nil if none ever has.
	Room func(ctx context.Context, n Need) bool
	// Draining reports whether this node takes nothing new; nil is never. Other nodes may not know that yet.
	Draining func() bool
	// TLS returns the configuration of a connection to a node.
	TLS    func(ctx context.Context, to api.NodeID) (*tls.Config, error)
	Logger *slog.Logger
}

// Forwarder passes requests on to other nodes. Its methods may be called from several goroutines.
type Forwarder struct {
	cfg       Config
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	addresses sync.Map // api.NodeID to the address that was used last
	failures  sync.Map // api.NodeID to the failure of the last connection, if it timed out
}

const (
	// dialTimeout bounds a connection to another node with its handshake.
	dialTimeout = 3 * time.Second
	// idleTimeout is less than that of the listener, which would close a connection as it is used.
	idleTimeout = 30 * time.Second
	maxIdle     = 64 // connections to one node
	// failedFor is how long no other connection to an address is tried after one that timed out: requests need not all wait for it.
	failedFor = time.Second
)

// New makes a forwarder.
func New(cfg Config) *Forwarder {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	f := &Forwarder{cfg: cfg}
	f.transport = &http.Transport{
		DialTLSContext: f.dial, DisableCompression: true, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle,
		Protocols: new(http.Protocols), MaxResponseHeaderBytes: 256 << 10,
	}
	f.transport.Protocols.SetHTTP1(true)
	f.proxy = &httputil.ReverseProxy{
		Transport: f.transport, FlushInterval: -1, ErrorLog: guestproxy.DiscardLog(),
		Rewrite:        func(p *httputil.ProxyRequest) { hopOf(p.In.Context()).rewrite(p.In, p.Out) },
		ModifyResponse: func(resp *http.Response) error { return hopOf(resp.Request.Context()).check(resp) },
		ErrorHandler:   func(_ http.ResponseWriter, r *http.Request, err error) { hopOf(r.Context()).err = err },
	}
	return f
}

// Self is this node; empty if there is no fleet.
func (f *Forwarder) Self() api.NodeID {
	if f == nil {
		return ""
	}
	return f.cfg.Self
}

// Close closes idle connections.
func (f *Forwarder) Close() {
	if f != nil {
		f.transport.CloseIdleConnections()
	}
}

// unreachable is the error of a connection that could not be opened: nothing was sent.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// dial opens a connection to a node: the host of its address in the transport is the ID, so that a connection is used for no
// other node, whatever addresses they have.
func (f *Forwarder) dial(ctx context.Context, network, host string) (net.Conn, error) {
	name, _, _ := strings.Cut(host, ":")
	id := api.NodeID(name)
	at, _ := f.addresses.Load(id)
	address, _ := at.(string)
	if was, ok := f.failures.Load(id); ok && was.(failure).address == address && time.Since(was.(failure).at) < failedFor {
		return nil, unreachable{was.(failure).err}
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	cfg, err := f.cfg.TLS(ctx, id)
	if err != nil {
		return nil, unreachable{err}
	}
	failed := func(err error) { f.failures.Store(id, failure{address, err, time.Now()}) }
	raw, err := (&net.Dialer{KeepAliveConfig: keepAlive, Control: limitSilence}).DialContext(ctx, network, address)
	if err == nil {
		// The idle connections to a node that was silent lead nowhere, too: the transport need not try each of them.
		c := tls.Client(&watchedConn{raw, func(err error) { failed(err); f.transport.CloseIdleConnections() }}, cfg)
		if err = c.HandshakeContext(ctx); err == nil {
			f.failures.Delete(id)
			return c, nil
		}
		raw.Close()
	}
	if timedOut(err) && parent.Err() == nil {
		failed(err)
	}
	return nil, unreachable{err}
}

// timedOut reports whether a connection was not opened in time. The context of an attempt may not have ended yet then: the socket has a deadline of its own.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// failure is that of a connection that timed out, or of one that ended in silence.
type failure struct {
	address string
	err     error
	at      time.Time
}

// errMoved is the answer of a node that does not have the thing, errFull that of one without capacity.
var (
	errMoved = errors.New("the node does not have it any more")
	errFull  = errors.New("the node has no capacity")
)

// Pass passes a request on to the node that has what it is about. done is true if that node answered; with neither done nor an
// error the request is this node's, and nothing of it was read.
func (f *Forwarder) Pass(w http.ResponseWriter, r *http.Request, a About) (done bool, err error) {
	if f == nil {
		return false, nil
	}
	moves, end := 0, time.Now().Add(continuedWait)
	for try := 0; ; try++ {
		at, err := f.locate(r.Context(), a, try > 0)
		if err != nil {
			return false, err
		}
		p := api.PrincipalOf(r.Context())
		if at.Here && !(at.Away && !a.Stored && arrivalOf(r.Context()) != nil) || p.Role != "" && !p.May(at.Account) { // what is another account's is not found, wherever it is
			return false, nil
		}
		local := a.Stored || at.Ended
		if arrived := arrivalOf(r.Context()); arrived != nil {
			if local {
				return false, nil
			}
			w.Header().Set(headerMoved, arrived.number)
			return false, moved(a)
		}
		if at.Silent {
			switch {
			case local:
				return false, nil
			case try == 0 || a.Kind.continues() && pause(r.Context(), end):
				continue // it may be back, or another node may have it
			}
			return false, silent(a, at.Node, nil)
		}
		err = f.send(w, r, at.Node, hop{door: a.Door})
		var out unreachable
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, errMoved) && r.ContentLength == 0 && moves == 0:
			moves++
			continue // it has another owner
		case errors.As(err, &out) && try == 0:
			continue // it may have another owner, or its node another address
		case errors.As(err, &out) && local:
			return false, nil
		case errors.As(err, &out) && a.Kind.continues() && pause(r.Context(), end):
			continue // another node may have it
		case errors.As(err, &out):
			f.cfg.Logger.Warn("another node cannot be reached", "node", at.Node.Name, "address", at.Node.Address, "error", err)
			return false, silent(a, at.Node, err)
		case errors.Is(err, errMoved):
			return false, moved(a)
		}
		return false, broken(at.Node, err)
	}
}

const (
	// movingWait is how long a request waits for what is moving, and movingLook the time between two looks at it.
	movingWait = 30 * time.Second
	movingLook = 100 * time.Millisecond
	// continuedWait is how long a request waits for what another node continues if its own one has died: for the end of a lease, and a look at what ended.
	continuedWait = 15 * time.Second
)

// continues reports whether another node takes over things of this kind from one that has died.
func (k Kind) continues() bool { return k == Task || k == Session || k == Plan }

// pause waits for the next look, before an end. It reports whether there is one.
func pause(ctx context.Context, end time.Time) bool {
	select {
	case <-time.After(movingLook):
		return time.Now().Before(end)
	case <-ctx.Done():
		return false
	}
}

// locate finds what a request is about. A request for something that is moving, or that nobody has, waits until it has arrived, before anything of the request is read.
func (f *Forwarder) locate(ctx context.Context, a About, fresh bool) (Location, error) {
	p := api.PrincipalOf(ctx)
	for end := time.Now().Add(movingWait); ; fresh = true {
		at, err := f.cfg.Directory.Locate(ctx, a.Kind, a.ID, fresh)
		if err != nil || !at.Moving && !at.Away || a.Stored || arrivalOf(ctx) != nil || p.Role != "" && !p.May(at.Account) || time.Now().After(end) {
			return at, err
		}
		select {
		case <-time.After(movingLook):
		case <-ctx.Done():
			return at, ctx.Err()
		}
	}
}

const (
	// retrySoon is the time after which an owner that changed is known, retryLater that after which a dead node was replaced.
	retrySoon  = 1000
	retryLater = 5000
)

func moved(a About) error {
	e := api.Errorf(api.KindUnavailable, "the node of %s %.64s changed while the request was on its way", a.Kind, a.ID).WithHint("try again")
	e.RetryAfterMS = retrySoon
	return e
}

// silent is the error for what is on a node that does not answer. cause is why no connection was opened; nil if none was tried. A cause of this program's own, such as a fleet
// without a certificate authority, says nothing about the other node, and is returned.
func silent(a About, n Node, cause error) error {
	if own := (*api.Error)(nil); errors.As(cause, &own) {
		e := api.Errorf(api.KindUnavailable, "%s %.64s is on node %s, which the node that was asked cannot reach: %w", a.Kind, a.ID, n.Name, own)
		if a.Kind == Machine {
			e = api.Errorf(api.KindUnavailable, "node %s cannot be reached from the node that was asked: %w", n.Name, own)
		}
		e = e.WithHint("%s", own.Hint)
		e.RetryAfterMS = retryLater
		return e
	}
	if a.Kind == Machine {
		e := api.Errorf(api.KindUnavailable, "node %s does not answer", n.Name).WithHint("hortus fleet ls says why it cannot be reached")
		e.RetryAfterMS = retryLater
		return e
	}
	e := api.Errorf(api.KindUnavailable, "%s %.64s is on node %s, which does not answer", a.Kind, a.ID, n.Name)
	switch {
	case a.Kind.continues():
		e = e.WithHint("if node %s has ended, another node continues the %s soon: try again; hortus fleet ls shows the nodes", n.Name, a.Kind)
	case a.Kind == Sandbox:
		e = e.WithHint("if node %s has ended, a sandbox that runs is lost in ten seconds, and one that is paused in the archive continues on another node: hortus sandbox show %.64s", n.Name, a.ID)
	default:
		e = e.WithHint("it returns with its node: hortus fleet ls")
	}
	e.RetryAfterMS = retryLater
	return e
}

func broken(n Node, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	e := api.Errorf(api.KindUnavailable, "node %s ended the connection before it answered, or is silent", n.Name).
		WithHint("whether it carried the request out is not known: look before you try again")
	e.RetryAfterMS = retryLater
	return e
}

// remember notes the address of a node, to which dial connects.
func (f *Forwarder) remember(n Node) {
	if was, known := f.addresses.Swap(n.ID, n.Address); known && was != n.Address {
		f.transport.CloseIdleConnections() // those to the address before
	}
}

// send has another node answer a request. The error is unreachable if nothing was sent; nothing was answered beside any error.
func (f *Forwarder) send(w http.ResponseWriter, r *http.Request, to Node, h hop) error {
	f.remember(to)
	h.to, h.answered = to.ID, w.Header()
	// The transport closes the body of a request that it cannot send, which the next attempt or this node needs.
	out := r.WithContext(context.WithValue(r.Context(), hopKey{}, &h))
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = keptBody{r.Body}
	}
	if r.Header.Get("Upgrade") != "" {
		return f.upgrade(w, out, &h)
	}
	if told := api.WaitToldOf(r.Context()); told != nil {
		out = out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{Got1xxResponse: hear(told)}))
		w = &finalWriter{to: w, header: http.Header{}}
	}
	if out.Body == nil || out.Body == http.NoBody {
		f.proxy.ServeHTTP(w, out)
		return h.err
	}
	// Only a connection reads the body. Without one it is left as it was, for the next attempt or this node: the server cannot continue after a body in full
	// duplex that nobody ended.
	var end func()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if end == nil {
			end = guestproxy.EnableFullDuplex(w, r)
		}
	}}
	f.proxy.ServeHTTP(w, out.WithContext(httptrace.WithClientTrace(out.Context(), trace)))
	if end == nil {
		return h.err
	}
	end()
	if out := (unreachable{}); errors.As(h.err, &out) {
		return out.error // of the connection after one that had ended: the body is gone
	}
	return h.err
}

// keptBody is a body that stays open.
type keptBody struct{ io.Reader }

func (keptBody) Close() error { return nil }

// upgrade passes a request on that asks for another protocol: the connection is then that protocol's.
func (f *Forwarder) upgrade(w http.ResponseWriter, r *http.Request, h *hop) error {
	out := r.Clone(r.Context())
	h.rewrite(r, out)
	if r.ContentLength == 0 {
		out.Body = nil
	}
	resp, err := f.transport.RoundTrip(out)
	if err != nil {
		return err
	}
	if err := h.check(resp); err != nil {
		resp.Body.Close()
		return err
	}
	for name, values := range resp.Header {
		if resp.StatusCode != http.StatusSwitchingProtocols && (name == "Connection" || name == "Upgrade") {
			continue
		}
		w.Header()[name] = append(w.Header()[name], values...)
	}
	stream, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body) // a client that has gone receives nothing
		return nil
	}
	inner := streamConn{ReadWriteCloser: stream}
	defer inner.Close()
	conn, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return api.Errorf(api.KindInternal, "upgrade the connection: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { conn.Close() })() // the key of the request may expire
	head := &http.Response{StatusCode: resp.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: w.Header()}
	if err := head.Write(conn); err != nil {
		return nil
	}
	if n := early.Reader.Buffered(); n > 0 { // what the client sent without waiting
		sent, _ := early.Reader.Peek(n)
		if _, err := inner.Write(sent); err != nil {
			return nil
		}
	}
	guestproxy.Pipe(conn, inner, 0)
	return nil
}

// streamConn is the stream of an upgraded connection as package guestproxy joins it. Deadlines are not the stream's to have.
type streamConn struct {
	io.ReadWriteCloser
	net.Conn
}

func (s streamConn) Read(p []byte) (int, error)       { return s.ReadWriteCloser.Read(p) }
func (s streamConn) Write(p []byte) (int, error)      { return s.ReadWriteCloser.Write(p) }
func (s streamConn) Close() error                     { return s.ReadWriteCloser.Close() }
func (s streamConn) SetReadDeadline(time.Time) error  { return nil }
func (s streamConn) SetWriteDeadline(time.Time) error { return nil }

// CloseWrite ends what is sent, where the stream can do that alone.
func (s streamConn) CloseWrite() error {
	if c, ok := s.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
