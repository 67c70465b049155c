package broker

import (
	"encoding/binary"
	"errors"
	"io"
)

// serverFrames redacts the frames that a server sends. The size of nothing changes. A value that
// is divided between the fragments of a message is found; one that is divided between messages
// is not, because a message is sent on when it is complete. Of one that is not, as much is withheld
// as of any stream.
type serverFrames struct {
	r   *redactor
	src io.Reader

	queue []byte // what was read and not passed on
	rest  []byte // of what may be passed on
	text  []byte // the bytes of the message that were not searched to the end
	at    []int  // where each of them is in queue
	run   int    // see redactor.replace

	head    [10]byte
	n       int // bytes of head that there are
	left    uint64
	final   bool // the frame ends a message
	control bool
	begin   int // where the payload of a control frame is in queue; -1 if there is none
	err     error
	buf     []byte
	broken  func() // called if the server ends in the middle of a message
}

func newServerFrames(r *redactor, src io.Reader, broken func()) *serverFrames {
	return &serverFrames{r: r, src: src, begin: -1, buf: make([]byte, readSize), broken: broken}
}

// Read implements io.Reader.
func (s *serverFrames) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.src.Read(s.buf)
		s.err = err
		if why := s.add(s.buf[:n]); why != nil {
			s.err = why
			return 0, why
		}
		if s.pass(); err == io.EOF && len(s.queue) > 0 {
			s.broken()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// add reads bytes of frames.
func (s *serverFrames) add(b []byte) error {
	for len(b) > 0 {
		if s.left == 0 {
			s.queue = append(s.queue, b[0])
			s.head[s.n] = b[0]
			s.n++
			b = b[1:]
			if err := s.open(); err != nil {
				return err
			}
			continue
		}
		n := int(min(uint64(len(b)), s.left))
		if !s.control {
			s.text = append(s.text, b[:n]...)
			for i := range n {
				s.at = append(s.at, len(s.queue)+i)
			}
		}
		s.queue = append(s.queue, b[:n]...)
		b, s.left = b[n:], s.left-uint64(n)
		if s.left == 0 {
			s.close()
		}
	}
	return nil
}

// open reads the header of a frame once it is complete.
func (s *serverFrames) open() error {
	if s.n < 2 {
		return nil
	}
	if s.head[0]&0x70 != 0 || s.head[1]&0x80 != 0 {
		return errors.New("a WebSocket frame of the server is masked, or has an extension")
	}
	size, need := uint64(s.head[1]&0x7f), 2
	switch size {
	case 126:
		need = 4
	case 127:
		need = 10
	}
	if s.n < need {
		return nil
	}
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		size = binary.BigEndian.Uint64(s.head[2:])
	}
	s.control, s.final = s.head[0]&0x08 != 0, s.head[0]&0x80 != 0
	if size>>63 != 0 || s.control && size > 125 {
		return errors.New("a WebSocket frame of the server has a length that is not valid")
	}
	s.n, s.left = 0, size
	if s.control {
		s.begin = len(s.queue)
	}
	if size == 0 {
		s.close()
	}
	return nil
}

// close ends a frame.
func (s *serverFrames) close() {
	switch {
	case s.control:
		payload := s.queue[s.begin:]
		run := 0
		out, _ := s.r.replace(nil, payload, &run, true, true)
		copy(payload, out)
		s.begin = -1
	case s.final:
		s.search(true)
	}
}

// search redacts the message as far as it is there.
func (s *serverFrames) search(end bool) {
	out, used := s.r.replace(nil, s.text, &s.run, end, true)
	for i, c := range out {
		s.queue[s.at[i]] = c
	}
	s.text = s.text[:copy(s.text, s.text[used:])]
	s.at = s.at[:copy(s.at, s.at[used:])]
	if end {
		s.run = 0
	}
}

// pass passes on what is before the first byte that is held.
func (s *serverFrames) pass() {
	s.search(false)
	limit := len(s.queue)
	if len(s.at) > 0 {
		limit = s.at[0]
	}
	if s.begin >= 0 {
		limit = min(limit, s.begin)
	}
	s.rest = append([]byte(nil), s.queue[:limit]...)
	s.queue = s.queue[:copy(s.queue, s.queue[limit:])]
	for i := range s.at {
		s.at[i] -= limit
	}
	if s.begin >= 0 {
		s.begin -= limit
	}
}
