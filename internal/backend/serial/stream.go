package serial

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// lingerTime is how long a stream that was closed may take to send what was written before.
const lingerTime = 10 * time.Second

// stream is one end of a stream: it copies between the frames of a link and a socket.
type stream struct {
	m    *Mux
	id   uint32
	conn *net.UnixConn

	mu      sync.Mutex
	changed sync.Cond
	in      []byte // received, and not yet written to conn
	unread  int    // len(in), and what is being written
	inEnd   bool   // nothing follows in
	closed  bool   // by the other end, which reads nothing any more
	closing bool   // by the user of conn, who reads nothing any more
	window  int    // what may still be sent
	gone    bool   // it has ended
	told    bool   // the other end knows that
	linger  *time.Timer
}

func newStream(m *Mux, id uint32, conn *net.UnixConn) *stream {
	s := &stream{m: m, id: id, conn: conn, window: Window}
	s.changed.L = &s.mu
	return s
}

// handle handles a frame of the stream.
func (s *stream) handle(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	switch f.kind {
	case data:
		if len(f.payload) == 0 || s.inEnd || s.unread+len(f.payload) > Window {
			return violation("a stream has more data than its window")
		}
		s.in = append(s.in, f.payload...)
		s.unread += len(f.payload)
	case credit:
		n := int(uint32Of(f.payload))
		if n == 0 || n > Window-s.window {
			return violation("it extended a window by %d bytes", n)
		}
		s.window += n
	case end:
		if s.inEnd {
			return violation("a stream ended twice")
		}
		s.inEnd = true
	case closed:
		s.inEnd, s.closed = true, true
	}
	return nil
}

// cut ends the stream at once.
func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.conn.Close()
	s.changed.Broadcast()
}

// abandon says that the user of the stream reads nothing any more, and is about to close it.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing && !s.gone {
		s.closing = true
		s.linger = time.AfterFunc(lingerTime, s.cut)
	}
	s.changed.Broadcast()
}

// isGone reports whether the stream has ended.
func (s *stream) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// run copies in both directions until both have ended, or the stream has. first is true if the other end does not know it.
func (s *stream) run(first bool) {
	var receiving sync.WaitGroup
	receiving.Go(s.receive)
	if !first || s.m.write(open, s, nil) == nil {
		s.send()
	}
	receiving.Wait()
	s.cut()
	s.mu.Lock()
	tell := !s.told && !s.closed
	if s.linger != nil {
		s.linger.Stop()
	}
	s.mu.Unlock()
	if s.m.remove(s) && tell {
		s.m.write(closed, &stream{id: s.id}, nil)
	}
}

// send copies from the socket to the link, until the socket's end.
func (s *stream) send() {
	buf := make([]byte, maxData)
	for {
		n, err := s.conn.Read(buf)
		for at := 0; at < n; {
			part := s.take(n - at)
			if part == 0 || s.m.write(data, s, buf[at:at+part]) != nil {
				return
			}
			at += part
		}
		if err != nil {
			s.mu.Lock()
			last := byte(end)
			if s.closing {
				last, s.told = closed, true
			}
			s.mu.Unlock()
			s.m.write(last, s, nil)
			return
		}
	}
}

// take waits until something may be sent, and returns how much of n bytes; 0 if the stream has ended.
func (s *stream) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.window == 0 && !s.gone && !s.closed {
		s.changed.Wait()
	}
	if s.gone || s.closed {
		return 0
	}
	n = min(n, s.window)
	s.window -= n
	return n
}

// receive copies from the link to the socket, until the other end has sent everything or nobody reads.
func (s *stream) receive() {
	var buf []byte
	for {
		s.mu.Lock()
		for len(s.in) == 0 && !s.inEnd && !s.gone && !s.closing {
			s.changed.Wait()
		}
		buf, s.in = s.in, buf[:0]
		stop, last := s.gone || s.closing, s.closed
		s.mu.Unlock()
		switch {
		case stop:
			return
		case len(buf) == 0 && last:
			s.cut()
			return
		case len(buf) == 0:
			s.conn.CloseWrite()
			return
		}
		if _, err := s.conn.Write(buf); err != nil {
			s.abandon() // it was closed, and what it sent before is still to be read
			return
		}
		s.mu.Lock()
		s.unread -= len(buf)
		s.mu.Unlock()
		if s.m.write(credit, s, binary.BigEndian.AppendUint32(nil, uint32(len(buf)))) != nil {
			return
		}
	}
}
