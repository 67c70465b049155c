package serial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// link makes both ends. The machine echoes streams.
func link(t *testing.T, accept func(*net.UnixConn)) (host, machine *Mux) {
	t.Helper()
	a, b := net.Pipe()
	machine = Serve(b, Config{Accept: accept})
	host, err := Dial(t.Context(), a, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); machine.Close() })
	return host, machine
}

func echo(c *net.UnixConn) {
	go func() {
		io.Copy(c, c)
		c.Close()
	}()
}

// TestStreams: several streams carry their bytes in both directions at the same time, more than a window each.
func TestStreams(t *testing.T) {
	host, _ := link(t, echo)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c, end, err := host.Open()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			defer end()
			want := make([]byte, 3*Window+i)
			rand.New(rand.NewSource(int64(i))).Read(want)
			wg.Go(func() {
				c.Write(want)
				c.CloseWrite()
			})
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("stream %d: %d bytes of %d came back: %v", i, len(got), len(want), err)
			}
		})
	}
	wg.Wait()
}

// TestStalledStream: a stream that nobody reads does not stop another one.
func TestStalledStream(t *testing.T) {
	host, _ := link(t, func(c *net.UnixConn) {
		go func() { // sends until nobody takes it
			for {
				if _, err := c.Write(make([]byte, 4096)); err != nil {
					c.Close()
					return
				}
			}
		}()
	})
	stalled, end, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	other, end2, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, other, 20*Window); err != nil {
		t.Fatalf("the other stream stopped after %d bytes: %v", n, err)
	}
	for _, f := range []func(){end, end2} {
		f()
	}
	stalled.Close()
	other.Close()
}

// TestCloseSendsWhatWasWritten: bytes that were written before a close arrive, and the other end learns of the close.
func TestCloseSendsWhatWasWritten(t *testing.T) {
	got := make(chan []byte, 1)
	host, _ := link(t, func(c *net.UnixConn) {
		go func() {
			b, _ := io.ReadAll(c)
			got <- b
			c.Close()
		}()
	})
	c, end, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("x", 100_000)
	io.WriteString(c, want)
	end()
	c.Close()
	if b := <-got; string(b) != want {
		t.Errorf("%d bytes arrived, want %d", len(b), len(want))
	}
}

// TestReconnect: a host that connects in the middle of a frame of its predecessor gets a link that works, and the streams of
// the predecessor end in the machine.
func TestReconnect(t *testing.T) {
	port := newPort()
	ended := make(chan error, 1)
	machine := Serve(port, Config{Accept: func(c *net.UnixConn) {
		go func() {
			_, err := io.Copy(c, c)
			ended <- err
			c.Close()
		}()
	}})
	t.Cleanup(func() { machine.Close() })
	first := port.connect()
	host, err := Dial(t.Context(), first, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "hello")
	io.ReadFull(c, make([]byte, 5))
	// The predecessor ends within a frame.
	<-host.writing
	first.Write(appendFrame(nil, data, 1, make([]byte, 1000))[:500])
	host.writing <- struct{}{}
	host.Close()
	c.Close()
	again, err := Dial(t.Context(), port.connect(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	<-ended
	c, _, err = again.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "again")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "again" {
		t.Errorf("after a reconnect: %q, %v", b, err)
	}
}

// port is the machine's port, whose host changes.
type port struct {
	mu   sync.Mutex
	next chan net.Conn
	host net.Conn
	once sync.Once
	done chan struct{}
}

func newPort() *port { return &port{next: make(chan net.Conn, 1), done: make(chan struct{})} }

func (p *port) connect() net.Conn {
	a, b := net.Pipe()
	p.next <- b
	return a
}

// current returns the host's connection; it waits for one after the end of old.
func (p *port) current(old net.Conn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host == old {
		select {
		case p.host = <-p.next:
		case <-p.done:
			return nil
		}
	}
	return p.host
}

func (p *port) Read(b []byte) (int, error) {
	var c net.Conn
	for {
		if c = p.current(c); c == nil {
			return 0, io.EOF
		}
		if n, err := c.Read(b); err == nil {
			return n, nil
		}
	}
}

func (p *port) Write(b []byte) (int, error) {
	p.mu.Lock()
	c := p.host
	p.mu.Unlock()
	c.Write(b) // what a host that has gone does not take is lost
	return len(b), nil
}

func (p *port) Close() error { p.once.Do(func() { close(p.done) }); return nil }

// hostile makes a link whose machine answers the hello, and then sends what send does.
func hostile(t *testing.T, send func(io.Writer)) *Mux {
	t.Helper()
	a, b := net.Pipe()
	go func() {
		defer b.Close()
		in := make([]byte, 1<<20)
		n := 0
		for {
			got, err := b.Read(in[n:])
			if err != nil {
				return
			}
			n += got
			if i := bytes.Index(in[:n], []byte(magic)); i >= 0 && n >= i+helloSize {
				b.Write(answerTo(in[i : i+helloSize]))
				break
			}
		}
		go io.Copy(io.Discard, b)
		send(b)
	}()
	m, err := Dial(t.Context(), a, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestHostileMachine: what a machine sends against the protocol ends its link. The control is a machine that keeps to it.
func TestHostileMachine(t *testing.T) {
	forever := func(b []byte) func(io.Writer) {
		return func(w io.Writer) {
			for {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}
	}
	for name, send := range map[string]func(io.Writer){
		"unknown kind":      func(w io.Writer) { w.Write([]byte{99, 0, 0, 0, 0, 0, 0, 1}) },
		"long frame":        func(w io.Writer) { w.Write([]byte{data, 255, 255, 255, 0, 0, 0, 1}) },
		"opens a stream":    func(w io.Writer) { w.Write(appendFrame(nil, open, 7, nil)) },
		"second hello":      func(w io.Writer) { w.Write(appendFrame(nil, hello, 0, make([]byte, 32))) },
		"beyond a window":   forever(appendFrame(nil, data, 1, make([]byte, maxData))),
		"empty data":        func(w io.Writer) { w.Write(appendFrame(nil, data, 1, nil)) },
		"endless credit":    forever(appendFrame(nil, credit, 1, []byte{0, 0, 0, 1})),
		"huge credit":       func(w io.Writer) { w.Write(appendFrame(nil, credit, 1, []byte{255, 255, 255, 255})) },
		"two ends":          func(w io.Writer) { w.Write(appendFrame(appendFrame(nil, end, 1, nil), end, 1, nil)) },
		"padding":           forever(make([]byte, 64<<10)),
		"unknown streams":   forever(appendFrame(nil, data, 4242, make([]byte, 1))),
		"packets":           forever(appendFrame(nil, packet, 0, make([]byte, 100))),
		"packets of no end": func(w io.Writer) { w.Write(appendFrame(nil, packet, 0, make([]byte, MaxReport+1))) },
	} {
		t.Run(name, func(t *testing.T) {
			opened := make(chan struct{})
			m := hostile(t, func(w io.Writer) { <-opened; send(w) })
			c, _, err := m.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			close(opened)
			<-m.Ended()
			if !errors.Is(m.Err(), errProtocol) {
				t.Errorf("the link ended with: %v", m.Err())
			}
			if _, _, err := m.Open(); err == nil {
				t.Error("a link that has ended opens streams")
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		opened := make(chan struct{})
		m := hostile(t, func(w io.Writer) {
			<-opened
			w.Write(appendFrame(appendFrame(nil, data, 1, []byte("fine")), closed, 1, nil))
			select {}
		})
		c, _, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		close(opened)
		if b, err := io.ReadAll(c); err != nil || string(b) != "fine" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestMemoryIsBounded: streams of a machine that fills every window take no more than that of the daemon.
func TestMemoryIsBounded(t *testing.T) {
	const streams = 32
	opened, full := make(chan struct{}), make(chan struct{})
	m := hostile(t, func(w io.Writer) {
		<-opened
		for id := uint32(1); id <= streams; id++ {
			for range Window / 1024 {
				w.Write(appendFrame(nil, data, id, make([]byte, 1024)))
			}
		}
		close(full)
		select {}
	})
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for range streams {
		c, _, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	close(opened)
	<-full
	if grown := int64(heap()) - int64(before); grown > streams*3*Window {
		t.Errorf("%d streams take %d KiB", streams, grown>>10)
	}
}

// TestSilentMachine: a machine that never answers costs the time of the context, and nothing stays.
func TestSilentMachine(t *testing.T) {
	for name, noise := range map[string]bool{"silent": false, "noise without an answer": true} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			defer b.Close()
			go io.Copy(io.Discard, b)
			if noise {
				go func() {
					for {
						if _, err := b.Write(bytes.Repeat([]byte(magic), 100)); err != nil {
							return
						}
					}
				}()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := Dial(ctx, a, Config{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the dial ended with: %v", err)
			}
		})
	}
}

// TestPackets: packets arrive in order, in both directions.
func TestPackets(t *testing.T) {
	host, machine := link(t, echo)
	for _, p := range []string{"a", "", strings.Repeat("b", MaxPacket)} {
		sent := make(chan error, 1)
		go func() { sent <- host.Send(t.Context(), []byte(p)) }()
		if got, err := machine.Receive(t.Context()); err != nil || string(got) != p {
			t.Errorf("a packet of %d bytes came as %d: %v", len(p), len(got), err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	if err := host.Send(t.Context(), make([]byte, MaxPacket+1)); err == nil {
		t.Error("a packet that is too long was sent")
	}
	if err := machine.Send(t.Context(), []byte("report")); err != nil {
		t.Fatal(err)
	}
	if got, err := host.Receive(t.Context()); err != nil || string(got) != "report" {
		t.Errorf("the report came as %q: %v", got, err)
	}
}
