package docker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// wire is the way to the guest of a container at another host: the engine's stream of its standard input and output, with the frames
// of package serial. Its owner calls run, which attaches again when a connection breaks: the guest and its commands live on, and the
// streams over the connection have ended.
type wire struct {
	b         *Backend
	id        api.SandboxID
	container string

	mu      sync.Mutex
	mux     *serial.Mux   // nil while there is no connection
	over    bool          // run has ended
	changed chan struct{} // closed, and replaced, when one of them changes
}

func newWire(b *Backend, id api.SandboxID, container string) *wire {
	return &wire{b: b, id: id, container: container, changed: make(chan struct{})}
}

func (w *wire) set(m *serial.Mux, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mux, w.over = m, over
	close(w.changed)
	w.changed = make(chan struct{})
}

// get waits for a connection.
func (w *wire) get(ctx context.Context) (*serial.Mux, error) {
	for {
		w.mu.Lock()
		m, over, changed := w.mux, w.over, w.changed
		w.mu.Unlock()
		if over {
			return nil, link.EndedError()
		}
		if m != nil {
			return m, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, api.Errorf(api.KindOf(ctx.Err()), "the connection to the engine of sandbox %s is broken, and is made again: %w", w.id, ctx.Err())
		}
	}
}

// open opens a stream.
func (w *wire) open(ctx context.Context) (link.Conn, error) {
	for {
		m, err := w.get(ctx)
		if err != nil {
			return link.Conn{}, err
		}
		if c, end, err := m.Open(); err == nil {
			return link.Conn{UnixConn: c, End: end}, nil
		} else if !errors.Is(err, net.ErrClosed) {
			return link.Conn{}, api.Errorf(api.KindInternal, "sandbox %s: %w", w.id, err)
		}
		w.drop(m)
	}
}

// drop forgets a connection that has ended.
func (w *wire) drop(m *serial.Mux) {
	w.mu.Lock()
	is := w.mux == m
	w.mu.Unlock()
	if is {
		w.set(nil, false)
	}
}

// connect attaches, and returns when the container answers.
func (w *wire) connect(ctx context.Context) error {
	got, err := w.b.engine.ContainerAttach(ctx, w.container, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true})
	if err != nil {
		return engineError("attach to a container", err)
	}
	m, err := serial.Dial(ctx, &attached{Conn: got.Conn, r: got.Reader}, serial.Config{})
	if err != nil {
		return err
	}
	w.set(m, false)
	return nil
}

const (
	// connectTimeout is the maximum wait for a container that runs to answer.
	connectTimeout = 30 * time.Second
	// minAttach and maxAttach bound the time between two attempts.
	minAttach = 50 * time.Millisecond
	maxAttach = 5 * time.Second
)

// end ends the connection of a wire that does not run.
func (w *wire) end() {
	w.mu.Lock()
	m := w.mux
	w.mu.Unlock()
	w.set(nil, true)
	if m != nil {
		m.Close()
	}
}

// run keeps a connection until ctx ends, or until the container breaks the protocol; then it returns why.
func (w *wire) run(ctx context.Context) error {
	defer w.end()
	for wait := minAttach; ; {
		w.mu.Lock()
		m := w.mux
		w.mu.Unlock()
		if m != nil {
			select {
			case <-m.Ended():
			case <-ctx.Done():
				return nil
			}
			m.Close()
			w.drop(m)
			if err := m.Err(); serial.Violation(err) || errors.Is(err, errStream) {
				return err
			}
			wait = minAttach
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		wait = min(2*wait, maxAttach)
		// One that is paused does not read: what is sent to it would be in the way of the next attempt.
		if paused, err := w.b.paused(ctx, w.container); err != nil || paused {
			continue
		}
		short, cancel := context.WithTimeout(ctx, connectTimeout)
		err := w.connect(short)
		cancel()
		if errors.Is(err, errStream) {
			return err
		}
		if err != nil {
			w.b.log.Debug("cannot attach to a sandbox", "sandbox", w.id, "error", err)
		}
	}
}

// instruct sends the stage what it needs to become the guest, and waits until the guest is ready.
func (w *wire) instruct(ctx context.Context, spec sandbox.Spec, cfg []byte) error {
	text, err := json.Marshal(w.b.stageSpec(spec))
	if err != nil {
		return err
	}
	m, err := w.get(ctx)
	if err != nil {
		return err
	}
	if err := m.Send(ctx, text); err != nil {
		return err
	}
	if err := m.Send(ctx, cfg); err != nil {
		return err
	}
	report, err := m.Receive(ctx)
	if err != nil {
		return err
	}
	return child.Reported(report)
}

// stageSpec is what the stage of every container gets.
func (b *Backend) stageSpec(spec sandbox.Spec) *initns.Spec {
	return &initns.Spec{
		RunDir: -1, Guest: -1, Dev: -1, Saved: -1, UID: ids.GuestUID, GID: ids.GuestUID, Switch: true, Caps: launch.Mask(launch.GuestCaps),
		Filter: b.filter, Threads: birth.Reserve, Capture: true,
		Dirs: launch.OwnDirs(), Files: launch.NameFiles(spec), Run: launch.RunFiles(spec),
	}
}

// errStream is why the stream of an engine is not read any more.
var errStream = errors.New("the engine's stream of a container is not what Docker sends")

// attached is the standard input and output of a container. The engine puts a head of 8 bytes before each part of the output: the
// number of the stream, three zeros, and the length. Only output was asked for.
type attached struct {
	net.Conn
	r    io.Reader
	left uint32 // of the part
}

func (a *attached) Read(p []byte) (int, error) {
	if a.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(a.r, head[:]); err != nil {
			return 0, err
		}
		const output = 1
		a.left = binary.BigEndian.Uint32(head[4:])
		if head[0] != output || head[1] != 0 || head[2] != 0 || head[3] != 0 || a.left == 0 {
			return 0, fmt.Errorf("%w: a part has the head %x", errStream, head)
		}
	}
	n, err := a.r.Read(p[:min(len(p), int(a.left))])
	a.left -= uint32(n)
	if err == io.EOF && a.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
