package strict

import (
	"bytes"
	"strconv"
	"strings"
)

const (
	// maxHead bounds a request's head. It is more than servers allow.
	maxHead = 128 << 10
	// maxLine bounds the line of a chunk's size, and a trailer's.
	maxLine = 8 << 10
)

// phase is what the next byte belongs to.
type phase int

const (
	inHead phase = iota
	inBody       // of a known length
	inSize       // the line before a chunk
	inChunk
	inChunkEnd // the line end after a chunk
	inTrailer
	refused
)

// scanner follows a connection's requests.
type scanner struct {
	phase phase
	// left counts what is still to come of a body or a chunk, in bytes.
	left uint64
	// line is what came of the current line, head how much of the head.
	line []byte
	head int

	// Of the head so far.
	begun            bool // the request line was there
	old              bool // it says HTTP/1.0
	lengths, codings int
	hosts            int
	length           uint64
	why              string // it was refused
}

// scan looks at bytes and says how many of them may pass: all, or those before what
// is refused.
func (s *scanner) scan(p []byte) int {
	for i := 0; i < len(p); {
		switch s.phase {
		case refused:
			return i
		case inBody, inChunk:
			n := uint64(len(p) - i)
			if n > s.left {
				n = s.left
			}
			s.left -= n
			i += int(n)
			if s.left > 0 {
				continue
			}
			if s.phase == inBody {
				s.next()
			} else {
				s.phase = inChunkEnd
			}
			continue
		}
		// A line: its bytes pass, but for the last one of a line that is refused.
		end := bytes.IndexByte(p[i:], '\n')
		part := p[i:]
		if end >= 0 {
			part = p[i : i+end+1]
		}
		if !s.room(len(part)) {
			return i
		}
		s.line = append(s.line, part...)
		i += len(part)
		if end < 0 {
			continue
		}
		line := s.line
		s.line = s.line[:0]
		if text, ok := bytes.CutSuffix(line, []byte("\r\n")); !ok || bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, 0) >= 0 {
			s.refuse("a line does not end in CR LF, or contains CR or NUL")
		} else {
			s.take(string(text))
		}
		if s.phase == refused {
			return i - 1
		}
	}
	return len(p)
}

// room bounds what is kept.
func (s *scanner) room(n int) bool {
	if s.phase == inHead {
		s.head += n
	}
	if s.phase == inHead && s.head <= maxHead || s.phase != inHead && len(s.line)+n <= maxLine {
		return true
	}
	s.refuse("a line or the header is too long")
	return false
}

func (s *scanner) refuse(why string) {
	s.phase, s.why = refused, why
}

// next begins another request.
func (s *scanner) next() { *s = scanner{line: s.line[:0]} }

// take takes a line without its end.
func (s *scanner) take(line string) {
	switch s.phase {
	case inHead:
		s.takeHead(line)
	case inSize:
		n, err := strconv.ParseUint(line, 16, 62)
		switch {
		case err != nil || !isHex(line):
			s.refuse("invalid chunk size")
		case n == 0:
			s.phase = inTrailer
		default:
			s.phase, s.left = inChunk, n
		}
	case inChunkEnd:
		if line != "" {
			s.refuse("chunk longer than its size")
			return
		}
		s.phase = inSize
	case inTrailer:
		if line == "" {
			s.next()
		} else if _, _, ok := field(line); !ok {
			s.refuse("invalid trailer field")
		}
	}
}

// isHex reports whether a text is digits alone: the parser of numbers takes more.
func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func (s *scanner) takeHead(line string) {
	switch {
	case !s.begun && line == "":
		return // servers skip a few before a request, or refuse them
	case !s.begun && strings.HasPrefix(line, "PRI "):
		s.refuse("HTTP/2 on a connection of HTTP/1") // which the server would serve
		return
	case !s.begun:
		s.begun, s.old = true, !strings.HasSuffix(line, " HTTP/1.1")
		return
	case line == "":
		s.endHead()
		return
	}
	name, value, ok := field(line)
	if !ok {
		s.refuse("invalid header field")
		return
	}
	switch strings.ToLower(name) {
	case "host":
		if s.hosts++; s.hosts > 1 {
			s.refuse("duplicate Host header")
		}
	case "content-length":
		n, err := strconv.ParseUint(value, 10, 62)
		if s.lengths++; s.lengths > 1 || err != nil || strings.Trim(value, "0123456789") != "" {
			s.refuse("invalid or duplicate Content-Length")
		}
		s.length = n
	case "transfer-encoding":
		if s.codings++; s.codings > 1 || !strings.EqualFold(value, "chunked") || s.old {
			s.refuse("unsupported Transfer-Encoding")
		}
	}
	if s.phase != refused && s.lengths > 0 && s.codings > 0 {
		s.refuse("both a Content-Length and a Transfer-Encoding")
	}
}

func (s *scanner) endHead() {
	switch {
	case s.codings > 0:
		s.next()
		s.phase = inSize
	case s.length > 0:
		n := s.length
		s.next()
		s.phase, s.left = inBody, n
	default:
		s.next()
	}
}

// field splits a header line. Its name is a token, right before the colon.
func field(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	if !ok || name == "" {
		return "", "", false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return "", "", false
		}
	}
	return name, strings.Trim(value, " \t"), true
}
