package serial

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"hortus.dev/internal/guest/tunnel"
)

// Config configures an end.
type Config struct {
	// Accept, in the machine, serves a stream that the host opened, and owns it. Packet, if it is not nil, gets the
	// packets, instead of Receive. They are called in the order in which the host sent, and must not block for long.
	Accept func(*net.UnixConn)
	Packet func([]byte)
	// Hello, in the machine, is called for each host that connects, before it gets its answer.
	Hello func(Hello)
}

const (
	// maxJunk is the maximum number of frames that a host ignores in a row, from the last stream that it opened or
	// packet that it awaited.
	maxJunk = 1 << 18
	// maxQueue is the maximum number of packets that were received and not fetched.
	maxQueue = 16
)

// Mux is an end of a serial link.
type Mux struct {
	port io.ReadWriteCloser
	host bool
	cfg  Config
	work sync.WaitGroup

	writing chan struct{} // has one value, which the goroutine that writes holds
	out     []byte

	packets chan []byte
	ended   chan struct{} // closed when nothing is read any more

	mu      sync.Mutex
	streams map[uint32]*stream
	next    uint32
	junk    int
	err     error
}

func newMux(port io.ReadWriteCloser, host bool, cfg Config) *Mux {
	m := &Mux{port: port, host: host, cfg: cfg, writing: make(chan struct{}, 1), packets: make(chan []byte, maxQueue),
		ended: make(chan struct{}), streams: map[uint32]*stream{}}
	m.writing <- struct{}{}
	return m
}

// Dial makes the host's end of a link to a machine, and returns when the machine answers. It owns port, also after an
// error.
func Dial(ctx context.Context, port io.ReadWriteCloser, cfg Config) (*Mux, error) {
	stop := context.AfterFunc(ctx, func() { port.Close() })
	sent, answer := sayHello()
	wrote := make(chan error, 1)
	go func() { _, err := port.Write(sent); wrote <- err }()
	br := bufio.NewReaderSize(port, 64<<10)
	err := skipTo(br, answer)
	if err != nil {
		port.Close()
	}
	if werr := <-wrote; werr != nil {
		err = werr
	}
	if !stop() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		port.Close()
		return nil, err
	}
	m := newMux(port, true, cfg)
	m.work.Go(func() { m.read(br) })
	return m, nil
}

// Serve makes the machine's end of a link. It owns port. A read of port may return 0 bytes: no host is connected.
func Serve(port io.ReadWriteCloser, cfg Config) *Mux {
	m := newMux(port, false, cfg)
	m.work.Go(func() { m.read(bufio.NewReaderSize(port, 64<<10)) })
	return m
}

// Close ends all streams, and waits for every goroutine.
func (m *Mux) Close() error {
	err := m.port.Close()
	m.work.Wait()
	return err
}

// Ended is closed when the link has ended; Err says why.
func (m *Mux) Ended() <-chan struct{} { return m.ended }

// Err returns why the link has ended. It is valid once Ended is closed.
func (m *Mux) Err() error { return m.err }

// Open opens a stream. The host calls it. The caller calls end before it closes the stream, so that the machine learns
// that it is closed and not only sent.
func (m *Mux) Open() (c *net.UnixConn, end func(), err error) {
	ours, theirs, err := tunnel.Pair()
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.ended:
		ours.Close()
		theirs.Close()
		return nil, nil, net.ErrClosed
	default:
	}
	m.junk = 0
	m.next++
	s := newStream(m, m.next, ours)
	m.start(s, true)
	return theirs, s.abandon, nil
}

// start starts a stream. The caller holds mu.
func (m *Mux) start(s *stream, first bool) {
	m.streams[s.id] = s
	m.work.Go(func() { s.run(first) })
}

// remove forgets a stream. It returns false if the link has forgotten it before.
func (m *Mux) remove(s *stream) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[s.id] != s {
		return false
	}
	delete(m.streams, s.id)
	return true
}

// Send sends a packet. The link ends if ctx ends while it is sent.
func (m *Mux) Send(ctx context.Context, p []byte) error {
	if len(p) > maxPayload(packet, !m.host) {
		return errors.New("the packet is too long")
	}
	select {
	case <-m.writing:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ended:
		return net.ErrClosed
	}
	defer context.AfterFunc(ctx, func() { m.port.Close() })()
	return m.writeLocked(packet, 0, p)
}

// Receive returns the next packet. Those that nobody awaits are dropped if there are many.
func (m *Mux) Receive(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	m.junk = 0
	m.mu.Unlock()
	select {
	case p := <-m.packets:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.ended:
		select { // one that came before the end
		case p := <-m.packets:
			return p, nil
		default:
			return nil, io.EOF
		}
	}
}

// write writes a frame of a stream, unless the stream has ended.
func (m *Mux) write(kind byte, s *stream, payload []byte) error {
	select {
	case <-m.writing:
	case <-m.ended:
		return net.ErrClosed
	}
	if s.isGone() { // its number may be that of another stream now
		m.writing <- struct{}{}
		return net.ErrClosed
	}
	return m.writeLocked(kind, s.id, payload)
}

// writeLocked writes a frame for a caller that took the value of writing, and returns the value.
func (m *Mux) writeLocked(kind byte, stream uint32, payload []byte) error {
	defer func() { m.writing <- struct{}{} }()
	m.out = appendFrame(m.out[:0], kind, stream, payload)
	_, err := m.port.Write(m.out)
	return err
}

// read handles what the other end sends, until it ends.
func (m *Mux) read(br *bufio.Reader) {
	buf := make([]byte, max(maxPayload(packet, m.host), maxData))
	for {
		f, err := readFrame(br, buf, m.host)
		if err == nil {
			err = m.handle(f)
		}
		if err == nil {
			continue
		}
		m.port.Close() // ends those who write
		m.mu.Lock()
		m.err = err
		close(m.ended)
		m.mu.Unlock()
		m.resetAll()
		return
	}
}

// resetAll ends all streams.
func (m *Mux) resetAll() {
	m.mu.Lock()
	all := m.streams
	m.streams = map[uint32]*stream{}
	m.mu.Unlock()
	for _, s := range all {
		s.cut()
	}
}

// handle handles a frame. It does not wait for anything but memory.
func (m *Mux) handle(f frame) error {
	switch f.kind {
	case padding:
		return m.ignore()
	case packet:
		if m.cfg.Packet != nil {
			m.cfg.Packet(append([]byte(nil), f.payload...))
			return nil
		}
		select {
		case m.packets <- append([]byte(nil), f.payload...):
			return nil
		default:
			return m.ignore()
		}
	case hello:
		if m.host {
			return violation("it said hello twice")
		}
		return m.greet(f.payload)
	case open:
		if m.host {
			return violation("it opened a stream")
		}
		return m.accept(f.stream)
	}
	m.mu.Lock()
	s := m.streams[f.stream]
	m.mu.Unlock()
	if s == nil { // it has ended here
		return m.ignore()
	}
	return s.handle(f)
}

// ignore counts a frame that has no use.
func (m *Mux) ignore() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.junk++; m.host && m.junk > maxJunk {
		return violation("it sent %d frames without use", m.junk)
	}
	return nil
}

// greet begins again with a host that connected.
func (m *Mux) greet(p []byte) error {
	h, err := parseHello(p)
	if err != nil {
		return err
	}
	m.resetAll()
	if m.cfg.Hello != nil {
		m.cfg.Hello(h)
	}
	return m.write(hello, new(stream), answerTo(p)[headSize:])
}

// accept accepts a stream.
func (m *Mux) accept(id uint32) error {
	ours, theirs, err := tunnel.Pair()
	if err != nil { // out of descriptors until other streams end
		m.work.Go(func() { m.write(closed, &stream{id: id}, nil) })
		return nil
	}
	m.mu.Lock()
	m.start(newStream(m, id, ours), false)
	m.mu.Unlock()
	m.cfg.Accept(theirs)
	return nil
}

func uint32Of(p []byte) uint32 {
	if len(p) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(p)
}
