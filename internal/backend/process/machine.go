package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// machine is a guest process and its directory.
type machine struct {
	backend *Backend
	id      api.SandboxID
	dir     string
	cmd     *exec.Cmd
	link    *link
	done    chan struct{} // closed when the guest was waited for

	killing sync.Mutex // one kill at a time
	mu      sync.Mutex
	killed  bool
	proof   api.Proof
	cause   string
}

func newMachine(b *Backend, id api.SandboxID, dir string, cmd *exec.Cmd) *machine {
	m := &machine{backend: b, id: id, dir: dir, cmd: cmd, done: make(chan struct{})}
	m.link = &link{path: filepath.Join(dir, "s"), id: id}
	go func() {
		defer close(m.done)
		err := cmd.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.killed {
			m.cause = "guest exited: " + cmd.ProcessState.String()
			if err == nil {
				m.cause = "guest exited"
			}
		}
	}()
	return m
}

// greet tells the guest what it is and waits until it serves.
func (m *machine) greet(ctx context.Context, control *birth.Control, cfg birth.Config) error {
	defer control.Close()
	if err := control.Configure(ctx, cfg); err != nil {
		return m.startError(ctx, err)
	}
	report, err := control.AwaitReport(ctx)
	if err != nil {
		return m.startError(ctx, err)
	}
	if !report.Ready {
		return m.startError(ctx, fmt.Errorf("%s: %.500q", report.Stage, report.Error))
	}
	if err := control.Go(ctx); err != nil {
		return m.startError(ctx, err)
	}
	return nil
}

func (m *machine) startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	kind := api.KindOf(err)
	return api.Errorf(kind, "the guest of sandbox %s did not start: %w", m.id, err)
}

// Link implements sandbox.Machine.
func (m *machine) Link() tether.Link { return m.link }

// Done implements sandbox.Machine.
func (m *machine) Done() <-chan struct{} { return m.done }

// Cause implements sandbox.Machine.
func (m *machine) Cause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// Pause implements sandbox.Machine.
func (m *machine) Pause(context.Context) error {
	return api.Errorf(api.KindUnsupported, "the process backend cannot pause (capability %s)", api.CapPause).WithHint("use --isolation container")
}

// Resume implements sandbox.Machine.
func (m *machine) Resume(ctx context.Context) error { return m.Pause(ctx) }

// Kill implements sandbox.Machine.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) {
	m.killing.Lock()
	defer m.killing.Unlock()
	m.mu.Lock()
	if m.killed && m.proof.How != "" {
		defer m.mu.Unlock()
		return m.proof, nil
	}
	select {
	case <-m.done:
	default:
		m.killed = true
	}
	m.mu.Unlock()
	m.link.Close()
	proof, err := killAll(ctx, m.id)
	if err != nil {
		return proof, err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return proof, api.Errorf(api.KindTimeout, "the guest of sandbox %s was not reaped: %w", m.id, ctx.Err())
	}
	if err := os.RemoveAll(m.dir); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killed, m.proof = true, proof
	return proof, nil
}

// Stats implements sandbox.Machine, from the host's view of the processes.
func (m *machine) Stats(context.Context) (api.Stats, error) {
	ps, err := members(m.id)
	if err != nil {
		return api.Stats{}, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	s := api.Stats{At: time.Now().UTC(), MemoryPeakBytes: -1, MemoryKills: -1, DiskUsedBytes: -1, DiskTotalBytes: -1, Processes: int64(len(ps))}
	page := int64(os.Getpagesize())
	for _, p := range ps {
		f, ok := statFields(p.pid)
		if !ok {
			continue
		}
		// utime, stime, and those of children that were waited for; then the
		// resident pages.
		for _, i := range []int{11, 12, 13, 14} {
			s.CPUTimeMS += f[i] * 1000 / clockTicks
		}
		s.MemoryBytes += f[21] * page
	}
	return s, nil
}

// statFields gives the numbers of /proc/PID/stat that follow the name; the first
// of them, the state, is 0.
func statFields(pid int) ([]int64, bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, false
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 {
		return nil, false
	}
	out := make([]int64, len(fields))
	for i, f := range fields {
		out[i], _ = strconv.ParseInt(f, 10, 64) // the state is no number
	}
	return out, true
}

// link dials the guest's socket.
type link struct {
	path string
	id   api.SandboxID

	mu     sync.Mutex
	closed bool
	open   map[*stream]struct{}
}

// maxStreams bounds what is open to one guest.
const maxStreams = 256

// Open implements tether.Link.
func (l *link) Open(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	closed, n := l.closed, len(l.open)
	l.mu.Unlock()
	if closed {
		return nil, api.Errorf(api.KindUnavailable, "sandbox %s has ended", l.id)
	}
	if n >= maxStreams {
		return nil, api.Errorf(api.KindExhausted, "%d streams to sandbox %s are open", n, l.id)
	}
	dir, err := os.Open(filepath.Dir(l.path))
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "sandbox %s has ended", l.id)
	}
	defer dir.Close()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(l.path)))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, api.Errorf(api.KindUnavailable, "the guest of sandbox %s does not answer: %w", l.id, err)
	}
	s := &stream{UnixConn: c.(*net.UnixConn), link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil, api.Errorf(api.KindUnavailable, "sandbox %s has ended", l.id)
	}
	if l.open == nil {
		l.open = map[*stream]struct{}{}
	}
	l.open[s] = struct{}{}
	return s, nil
}

// Close implements tether.Link.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	open := l.open
	l.open = nil
	l.mu.Unlock()
	var errs []error
	for s := range open {
		errs = append(errs, s.UnixConn.Close())
	}
	return errors.Join(errs...)
}

// stream is one connection, counted by its link.
type stream struct {
	*net.UnixConn
	link *link
}

// Close ends the stream.
func (s *stream) Close() error {
	s.link.mu.Lock()
	delete(s.link.open, s)
	s.link.mu.Unlock()
	return s.UnixConn.Close()
}

var _ sandbox.Machine = (*machine)(nil)
