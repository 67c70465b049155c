package link

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Maximum numbers of open streams of one guest: those that the host opened, and those that it
// accepted or waits for. They are counted separately, so that connections of programs in the
// sandbox do not keep the host from starting commands, nor the other way round.
const (
	maxStreams  = 256
	maxAccepted = 4096 + 256
)

// minRetry and maxRetry bound the delay of Accept after a guest ended its request.
const (
	minRetry = 10 * time.Millisecond
	maxRetry = time.Second
)

// Link dials the listening socket of a guest, once for each stream. It implements
// tether.Link.
type Link struct {
	dial func(ctx context.Context) (Conn, error)
	path string
	pid  int

	mu      sync.Mutex
	streams map[*stream]struct{}
	opened  count
	accepts count
	pending int // dials of both kinds
	closed  bool
	paused  bool
	quiet   bool
	changed chan struct{} // closed, and replaced, when one of the fields above changes
}

// New returns the link to a socket. pid is the process that has to listen on it; 0
// accepts any.
func New(path string, pid int) *Link {
	l := &Link{path: path, pid: pid, streams: map[*stream]struct{}{}, changed: make(chan struct{})}
	l.opened.max, l.accepts.max, l.accepts.wait = maxStreams, maxAccepted, true
	return l
}

// Conn is a connection to a guest that a backend makes in another way than by a socket.
type Conn struct {
	*net.UnixConn
	// End is called before the connection is closed.
	End func()
}

// Over returns the link over connections that dial makes. [Link.Dial] cannot be used.
func Over(dial func(ctx context.Context) (Conn, error)) *Link {
	l := New("", 0)
	l.dial = dial
	return l
}

// connect makes a connection.
func (l *Link) connect(ctx context.Context) (Conn, error) {
	if l.dial != nil {
		return l.dial(ctx)
	}
	c, err := l.Dial(ctx)
	return Conn{UnixConn: c, End: func() {}}, err
}

// count counts the streams of one kind, with the dials that may become one.
type count struct {
	open, max int
	// wait makes a dial wait until a paused sandbox resumes.
	wait bool
}

// stream is a connection that the link counts.
type stream struct {
	Conn
	l *Link
	n *count
}

// Close closes the stream.
func (s *stream) Close() error {
	s.l.mu.Lock()
	if _, ok := s.l.streams[s]; ok {
		delete(s.l.streams, s)
		s.n.open--
	}
	s.l.mu.Unlock()
	s.End()
	return s.UnixConn.Close()
}

// NetConn returns the socket, for copying within the kernel. It must not be closed: Close of the
// stream does that.
func (s *stream) NetConn() net.Conn { return s.UnixConn }

// Open opens a stream. See tether.Link.
func (l *Link) Open(ctx context.Context) (net.Conn, error) { return l.open(ctx, &l.opened) }

// open opens a stream that counts as n.
func (l *Link) open(ctx context.Context, n *count) (net.Conn, error) {
	if err := l.reserve(ctx, n); err != nil {
		return nil, err
	}
	c, err := l.connect(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending--; l.pending == 0 {
		l.signal()
	}
	if err == nil && l.closed {
		c.End()
		c.Close()
		err = EndedError()
	}
	if err != nil {
		n.open--
		return nil, err
	}
	s := &stream{c, l, n}
	l.streams[s] = struct{}{}
	return s, nil
}

// reserve waits until streams may be opened, and counts a dial.
func (l *Link) reserve(ctx context.Context, n *count) error {
	return l.await(ctx, func() (bool, error) {
		switch {
		case l.closed:
			return false, EndedError()
		case l.quiet || l.paused && n.wait:
			return false, nil
		case l.paused:
			return false, api.Errorf(api.KindConflict, "the sandbox is paused").WithHint("Resume it first.")
		case n.open >= n.max:
			return false, api.Errorf(api.KindExhausted, "the sandbox has %d open streams, which is the maximum", n.max).
				WithHint("Stop some commands or close some connections.")
		}
		n.open++
		l.pending++
		return true, nil
	})
}

// await calls ready, under the lock, after each change until it returns true or an error.
func (l *Link) await(ctx context.Context, ready func() (bool, error)) error {
	for {
		l.mu.Lock()
		ok, err := ready()
		changed := l.changed
		l.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// signal wakes those who wait for a change. The caller holds mu.
func (l *Link) signal() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Accept waits for a stream that the guest opens. See tether.Link.
func (l *Link) Accept(ctx context.Context) (net.Conn, error) {
	for delay := minRetry; ; delay = min(2*delay, maxRetry) {
		c, err := l.open(ctx, &l.accepts)
		if err != nil {
			return nil, err
		}
		// A guest that is quiesced ends the waiting request too.
		if c, err = envd.Accept(ctx, c); err == nil {
			return c, nil
		}
		var refused *envd.Refused
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
			return nil, api.Errorf(api.KindUnsupported, "the sandbox was started by an older version, whose guest opens no streams to its host").
				WithHint("Create a new sandbox.")
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Quiesce holds new streams back until resume is called. See tether.Link.
func (l *Link) Quiesce(ctx context.Context) (resume func(), err error) {
	err = l.await(ctx, func() (bool, error) {
		if l.closed {
			return false, EndedError()
		}
		if l.quiet {
			return false, nil
		}
		l.quiet = true
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	resume = sync.OnceFunc(func() { l.set(&l.quiet, false) })
	if err := l.await(ctx, func() (bool, error) { return l.pending == 0, nil }); err != nil {
		resume()
		return nil, err
	}
	return resume, nil
}

// set changes a state.
func (l *Link) set(state *bool, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*state = on
	l.signal()
}

// Dial opens a connection that is not counted and that a pause does not refuse.
func (l *Link) Dial(ctx context.Context) (*net.UnixConn, error) {
	c, err := Connect(ctx, l.path)
	if err != nil {
		if cerr := ctx.Err(); cerr != nil {
			return nil, cerr
		}
		return nil, api.Errorf(api.KindUnavailable, "the sandbox's guest does not respond: %w", err)
	}
	if l.pid == 0 {
		return c, nil
	}
	if pid, err := Peer(c); err != nil || pid != l.pid {
		c.Close()
		return nil, api.Errorf(api.KindUnavailable, "process %d responds on the sandbox's socket instead of its guest %d", pid, l.pid)
	}
	return c, nil
}

// Peer returns the pid of the process that listens at the other end, as the kernel recorded
// it.
func Peer(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// Close closes every stream and makes Open refuse new ones.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.signal()
	streams := l.streams
	l.streams = map[*stream]struct{}{}
	l.opened.open, l.accepts.open = 0, 0
	l.mu.Unlock()
	for s := range streams {
		s.End()
		s.UnixConn.Close()
	}
	return nil
}

// Pause makes Open refuse new streams, or accept them again.
func (l *Link) Pause(on bool) { l.set(&l.paused, on) }

// EndedError is the error of a sandbox whose guest has ended.
func EndedError() error { return api.Errorf(api.KindUnavailable, "the sandbox's guest has ended") }
