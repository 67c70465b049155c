package jail

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// maxStreams bounds the streams that are open to one guest at the same time.
const maxStreams = 256

// maxSocketPath is what an address holds, without its final zero.
const maxSocketPath = 107

// link dials a guest's listening socket, once for each stream.
type link struct {
	path string
	pid  int
	done <-chan struct{}

	mu      sync.Mutex
	streams map[*stream]struct{}
	pending int
	closed  bool
	paused  bool
}

func newLink(path string, pid int, done <-chan struct{}) *link {
	return &link{path: path, pid: pid, done: done, streams: map[*stream]struct{}{}}
}

// stream is a connection that gives its place back once.
type stream struct {
	*net.UnixConn
	l *link
}

// Close ends the stream.
func (s *stream) Close() error {
	s.l.mu.Lock()
	delete(s.l.streams, s)
	s.l.mu.Unlock()
	return s.UnixConn.Close()
}

// Open opens a stream. See tether.Link.
func (l *link) Open(ctx context.Context) (net.Conn, error) {
	if err := l.reserve(); err != nil {
		return nil, err
	}
	c, err := l.dial(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending--
	if err == nil && l.closed {
		c.Close()
		err = errGone()
	}
	if err != nil {
		return nil, err
	}
	s := &stream{c, l}
	l.streams[s] = struct{}{}
	return s, nil
}

func (l *link) reserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errGone()
	case l.paused:
		return api.Errorf(api.KindConflict, "the sandbox is paused").WithHint("Resume it first.")
	case len(l.streams)+l.pending >= maxStreams:
		return api.Errorf(api.KindExhausted, "%d streams to the sandbox are open, which is the most", maxStreams).
			WithHint("End some commands or close some connections.")
	}
	l.pending++
	return nil
}

func (l *link) dial(ctx context.Context) (*net.UnixConn, error) {
	path := l.path
	if len(path) > maxSocketPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, errGone()
		}
		defer dir.Close()
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		if cerr := ctx.Err(); cerr != nil {
			return nil, cerr
		}
		return nil, api.Errorf(api.KindUnavailable, "the sandbox's guest does not answer: %w", err)
	}
	c := conn.(*net.UnixConn)
	if pid, err := peer(c); err != nil || pid != l.pid {
		c.Close()
		return nil, api.Errorf(api.KindUnavailable, "process %d answers on the sandbox's link, not its guest %d", pid, l.pid)
	}
	return c, nil
}

// peer is the process that listens at the other end, as the kernel recorded it.
func peer(c *net.UnixConn) (int, error) {
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

// Close ends every stream and refuses new ones.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	streams := l.streams
	l.streams = map[*stream]struct{}{}
	l.mu.Unlock()
	for s := range streams {
		s.UnixConn.Close()
	}
	return nil
}

func (l *link) pause(on bool) {
	l.mu.Lock()
	l.paused = on
	l.mu.Unlock()
}

func errGone() error { return api.Errorf(api.KindUnavailable, "the sandbox's guest is gone") }
