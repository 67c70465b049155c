package link

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

// maxStreams is the maximum number of open streams to one guest.
const maxStreams = 256

// maxSocketPath is the maximum length of a socket address, in bytes without its final zero.
const maxSocketPath = 107

// Link dials the listening socket of a guest, once for each stream. It implements
// tether.Link.
type Link struct {
	path string
	pid  int

	mu      sync.Mutex
	streams map[*stream]struct{}
	pending int
	closed  bool
	paused  bool
}

// New returns the link to a socket. pid is the process that has to listen on it; 0
// accepts any.
func New(path string, pid int) *Link {
	return &Link{path: path, pid: pid, streams: map[*stream]struct{}{}}
}

// stream is a connection that the link counts.
type stream struct {
	*net.UnixConn
	l *Link
}

// Close closes the stream.
func (s *stream) Close() error {
	s.l.mu.Lock()
	delete(s.l.streams, s)
	s.l.mu.Unlock()
	return s.UnixConn.Close()
}

// Open opens a stream. See tether.Link.
func (l *Link) Open(ctx context.Context) (net.Conn, error) {
	if err := l.reserve(); err != nil {
		return nil, err
	}
	c, err := l.Dial(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending--
	if err == nil && l.closed {
		c.Close()
		err = EndedError()
	}
	if err != nil {
		return nil, err
	}
	s := &stream{c, l}
	l.streams[s] = struct{}{}
	return s, nil
}

func (l *Link) reserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return EndedError()
	case l.paused:
		return api.Errorf(api.KindConflict, "the sandbox is paused").WithHint("Resume it first.")
	case len(l.streams)+l.pending >= maxStreams:
		return api.Errorf(api.KindExhausted, "the sandbox has %d open streams, which is the maximum", maxStreams).
			WithHint("End some commands or close some connections.")
	}
	l.pending++
	return nil
}

// Dial opens a connection that is not counted and that a pause does not refuse.
func (l *Link) Dial(ctx context.Context) (*net.UnixConn, error) {
	path := l.path
	if len(path) > maxSocketPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, EndedError()
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
	if l.pid == 0 {
		return c, nil
	}
	if pid, err := Peer(c); err != nil || pid != l.pid {
		c.Close()
		return nil, api.Errorf(api.KindUnavailable, "process %d answers on the sandbox's socket, not its guest %d", pid, l.pid)
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
	streams := l.streams
	l.streams = map[*stream]struct{}{}
	l.mu.Unlock()
	for s := range streams {
		s.UnixConn.Close()
	}
	return nil
}

// Pause makes Open refuse new streams, or accept them again.
func (l *Link) Pause(on bool) {
	l.mu.Lock()
	l.paused = on
	l.mu.Unlock()
}

// EndedError is the error of a sandbox whose guest has ended.
func EndedError() error { return api.Errorf(api.KindUnavailable, "the sandbox's guest has ended") }
