package broker

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// mark replaces a value in an encoding that a placeholder would not be in.
const mark = "hortus-redacted"

// redactor replaces values of secrets. It is not changed once it is made.
//
// What it passes on of a stream, and when, depends on the number of bytes that came, on line ends and on
// escapes, and on values only where a whole one is: a sandbox that has a server repeat its guesses must not
// learn that a guess is the beginning of a value. So it withholds as many bytes of the end as any form of a
// value may have, whatever they are, and searches with the hash of a key that nobody knows.
type redactor struct {
	raw     finder // texts as a server may write them
	decoded finder // texts that are searched for when escapes are decoded and lines are joined
	hold    int    // how many bytes at the end of a stream are withheld
	lines   bool   // no text has a line end, so that what is before one is complete
}

// expansion is the maximum number of bytes for each byte of a value in the longest form that is searched for.
const expansion = 6

// minHold is the minimum size of what is withheld; escapes and line ends with what belongs to them are shorter.
const minHold = 64

// newRedactor returns a redactor for values, of which each is replaced by a placeholder.
func newRedactor(values map[string]string) *redactor {
	r := &redactor{hold: minHold}
	for value, by := range values {
		if len(value) < minPattern {
			continue
		}
		if by == "" {
			by = mark
		}
		r.hold = max(r.hold, expansion*len(value))
		for _, text := range written(value) {
			r.raw.add(text, by)
			r.decoded.add(text, by)
		}
	}
	if len(r.raw.patterns) == 0 {
		return nil
	}
	for value := range values {
		for _, text := range encoded(value) {
			r.raw.add(text, mark)
			r.decoded.add(text, mark)
		}
		for _, text := range wide(value) {
			r.raw.add(text, mark)
		}
	}
	r.lines = !slices.ContainsFunc(r.raw.patterns, func(p pattern) bool { return bytes.IndexByte(p.text, '\n') >= 0 })
	r.raw.prepare()
	r.decoded.prepare()
	return r
}

// replace appends b to dst with every value replaced, up to what must be withheld unless it is the end of
// the stream. run is how many bytes before b are of a line of base64, and becomes that of what follows. It
// returns how much of b it used. If fixed, the size does not change.
func (r *redactor) replace(dst, b []byte, run *int, end, fixed bool) (_ []byte, used int) {
	most := len(b)
	if !end {
		most = r.complete(b, *run)
	}
	v := decode(b, *run, most)
	next, plain := -1, (*pattern)(nil) // the next value that is written without escapes
	for used < v.limit {
		if next < used {
			next, plain = r.raw.find(b, used, most)
		}
		at, to, by := v.limit, v.limit, []byte(nil)
		if plain != nil && next < v.limit {
			at, to, by = next, next+len(plain.text), plain.by
		}
		at, to, by = r.escaped(v, used, at, to, by)
		dst = append(dst, b[used:at]...)
		if fixed && by != nil {
			dst = append(dst, bytes.Repeat([]byte("*"), to-at)...)
		} else {
			dst = append(dst, by...)
		}
		*run = runAt(b[used:to], *run)
		if used = to; used < most && !v.begins(used) {
			v = decode(b[used:], *run, most-used).shifted(used)
		}
	}
	return dst, used
}

// escaped returns the value with escapes that begins behind from and before the one from at to, or at the
// same place if it is longer; otherwise that one.
func (r *redactor) escaped(v view, from, at, to int, by []byte) (int, int, []byte) {
	if v.text == nil {
		return at, to, by
	}
	first, last := v.index(from), v.index(at)
	if by != nil {
		last++
	}
	for {
		i, p := r.decoded.find(v.text, first, min(last, len(v.text)))
		if p == nil {
			return at, to, by
		}
		// What is longer than what is withheld is not found where it is divided either.
		if begin, end := v.at[i], v.end[i+len(p.text)-1]; end-begin <= r.hold && (begin < at || end > to) {
			return begin, end, p.by
		}
		first = i + 1
	}
}

// complete returns how much of the beginning of b is passed on before more is known: what is before the last
// line end, or all but what is withheld of any text.
func (r *redactor) complete(b []byte, run int) int {
	limit := max(len(b)-r.hold, 0)
	if !r.lines {
		return limit
	}
	for at := len(b); at > limit; at-- {
		if b[at-1] == '\n' && !joins(b[:at-1], run) {
			return at
		}
	}
	return limit
}

// text returns s with every value replaced.
func (r *redactor) text(s string) string {
	run := 0
	out, _ := r.replace(nil, []byte(s), &run, true, false)
	return string(out)
}

// header redacts a header or trailer in place. net/http changes the case of names, so a name is
// removed if it has a value in any case.
func (r *redactor) header(h http.Header) {
	for name, values := range h {
		if r.named(name) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			if t := r.text(v); t != v {
				values[i] = t
			}
		}
	}
}

// named reports whether the name of a header has a value.
func (r *redactor) named(name string) bool {
	if len(name) < r.raw.size {
		return false
	}
	lower := bytes.ToLower([]byte(name))
	return slices.ContainsFunc(r.raw.patterns, func(p pattern) bool {
		return bytes.Contains(lower, bytes.ToLower(p.text)) || bytes.Contains(decode(lower, 0, len(lower)).text, bytes.ToLower(p.text))
	})
}

// searchedStream is a stream in which values are replaced. A value that is divided between reads is found too. If
// the stream breaks, what is withheld is dropped.
type searchedStream struct {
	r     *redactor
	src   io.Reader
	fixed bool
	size  int    // of a read; 0 is readSize
	buf   []byte // from src, not passed on
	run   int    // see redactor.replace
	out   []byte // to be read
	rest  []byte // of out
	err   error  // of src
	// messages are what the stream consists of, each of which is searched when it is complete; nil if it
	// has none. Such a stream is fixed.
	messages *messages
	// broken is called if src breaks off. It may be nil.
	broken func()
}

const readSize = 32 << 10

// Read implements io.Reader.
func (s *searchedStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		size := s.size
		if size == 0 {
			size = readSize
		}
		s.buf = slices.Grow(s.buf, size)
		n, err := s.src.Read(s.buf[len(s.buf) : len(s.buf)+size])
		whole := 0
		if s.messages != nil {
			var compressed error
			if whole, compressed = s.messages.next(s.buf[len(s.buf) : len(s.buf)+n]); whole > 0 {
				whole += len(s.buf)
			}
			if compressed != nil {
				err = compressed
			}
		}
		s.buf = s.buf[:len(s.buf)+n]
		if s.err = err; err != nil && err != io.EOF && s.broken != nil {
			s.broken()
		}
		var used int
		s.out, _ = s.r.replace(s.out[:0], s.buf[:whole], &s.run, true, s.fixed)
		s.out, used = s.r.replace(s.out, s.buf[whole:], &s.run, err == io.EOF, s.fixed)
		used += whole
		s.buf = s.buf[:copy(s.buf, s.buf[used:])]
		s.rest = s.out
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
