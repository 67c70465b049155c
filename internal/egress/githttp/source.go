package githttp

import (
	"errors"
	"io"
)

// errWindow is the error of a piece of a body that does not fit into the window.
var errWindow = errors.New("a piece of the body is too large")

// source reads a body for a parser, and keeps what was parsed until it has been passed on.
//
//	buf: | passed on | checked | being parsed | not parsed yet |
//	     0          sent    checked          pos              end
type source struct {
	r   io.Reader
	buf []byte
	max int // of buf

	sent, checked, pos, end int

	n   int64 // number of bytes that were parsed
	err error // of r, after what is in buf
}

func newSource(r io.Reader, window int) *source {
	return &source{r: r, buf: make([]byte, min(window, 64<<10)), max: window}
}

// fill reads more. It returns an error if there is nothing more or no space.
func (s *source) fill() error {
	if s.err != nil {
		return s.err
	}
	if s.end == len(s.buf) && s.sent > 0 {
		copy(s.buf, s.buf[s.sent:s.end])
		s.checked, s.pos, s.end, s.sent = s.checked-s.sent, s.pos-s.sent, s.end-s.sent, 0
	}
	if s.end == len(s.buf) {
		if len(s.buf) >= s.max {
			return errWindow
		}
		buf := make([]byte, min(2*len(s.buf), s.max))
		copy(buf, s.buf[:s.end])
		s.buf = buf
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end, s.err = s.end+n, err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.err = io.ErrNoProgress
	return s.err
}

// ReadByte implements io.ByteReader: with it, an inflater reads nothing behind its data.
func (s *source) ReadByte() (byte, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	c := s.buf[s.pos]
	s.pos++
	s.n++
	return c, nil
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.buf[s.pos:s.end])
	s.pos += n
	s.n += int64(n)
	return n, nil
}

// next parses n bytes. They are valid until the next call of a method.
func (s *source) next(n int) ([]byte, error) {
	for s.end-s.pos < n {
		if err := s.fill(); err != nil {
			if err == io.EOF && s.end > s.pos {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	b := s.buf[s.pos : s.pos+n]
	s.pos += n
	s.n += int64(n)
	return b, nil
}

// ended reports whether the body ends here.
func (s *source) ended() (bool, error) {
	if s.pos < s.end {
		return false, nil
	}
	switch err := s.fill(); err {
	case nil:
		return false, nil
	case io.EOF:
		return true, nil
	default:
		return false, err
	}
}

// failure returns the error of the body itself, if there was one: the client left.
func (s *source) failure() error {
	if s.err != nil && s.err != io.EOF {
		return s.err
	}
	return nil
}
