package broker

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// mark replaces a value in an encoding that a placeholder would not be in.
const mark = "hortus-redacted"

// pattern is a text that is replaced.
type pattern struct{ text, by []byte }

// redactor replaces values of secrets. It is not changed once it is made.
type redactor struct {
	patterns []pattern // the longest first
	longest  int
	starts   [256][]*pattern // by their first byte, the longest first
	// shortest is the size of a window. shift is how far a window can be moved whose last two
	// bytes have a hash; 0 means that the text of the window may begin a pattern.
	shortest int
	shift    [1 << 12]uint8
}

// newRedactor returns a redactor for values, of which each is replaced by a placeholder.
func newRedactor(values map[string]string) *redactor {
	r := &redactor{}
	seen := map[string]bool{}
	add := func(text, by string) {
		if len(text) >= minPattern && !seen[text] {
			seen[text] = true
			r.patterns = append(r.patterns, pattern{[]byte(text), []byte(by)})
		}
	}
	for value, by := range values {
		if by == "" {
			by = mark
		}
		for _, text := range written(value) {
			add(text, by)
		}
	}
	for value := range values {
		for _, text := range encoded(value) {
			add(text, mark)
		}
	}
	slices.SortFunc(r.patterns, func(a, b pattern) int {
		if d := len(b.text) - len(a.text); d != 0 {
			return d
		}
		return bytes.Compare(a.text, b.text)
	})
	if len(r.patterns) == 0 {
		return nil
	}
	r.longest = len(r.patterns[0].text)
	r.shortest = min(len(r.patterns[len(r.patterns)-1].text), 255)
	for i := range r.shift {
		r.shift[i] = uint8(r.shortest - 1)
	}
	for n := range r.patterns {
		p := &r.patterns[n]
		r.starts[p.text[0]] = append(r.starts[p.text[0]], p)
		for i := 1; i < r.shortest; i++ {
			h := hash(p.text[i-1], p.text[i])
			r.shift[h] = min(r.shift[h], uint8(r.shortest-1-i))
		}
	}
	return r
}

// minPattern is the minimum size of a pattern, in bytes. A value has at least as many.
const minPattern = 8

func hash(a, b byte) int { return (int(a)<<5 ^ int(b)) & (1<<12 - 1) }

// written returns the texts of a value that a placeholder would be written as too.
func written(value string) []string {
	out := []string{value, url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value)}
	var upper, lower strings.Builder
	for i := range len(value) {
		c := value[i : i+1]
		if x := value[i]; x >= '0' && x <= '9' || x >= 'a' && x <= 'z' || x >= 'A' && x <= 'Z' {
			upper.WriteString(c)
			lower.WriteString(c)
			continue
		}
		code := hex.EncodeToString([]byte(c))
		upper.WriteString("%" + strings.ToUpper(code))
		lower.WriteString("%" + code)
	}
	out = append(out, upper.String(), lower.String(), lowerEscapes(out[1]), lowerEscapes(out[2]))
	for _, escape := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escape)
		if e.Encode(value) == nil {
			text := strings.TrimSuffix(b.String(), "\n")
			text = text[1 : len(text)-1]
			out = append(out, text, strings.ReplaceAll(text, "/", `\/`))
		}
	}
	return out
}

// lowerEscapes writes percent-encoding in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// encoded returns the other texts of a value: in hexadecimal, percent-encoded as a whole, and
// the characters of base64 that depend on nothing but the value, for each of the three
// positions that it can begin at. The characters at both ends, which also depend on what is
// beside the value, have at most 4 bits of it each.
func encoded(value string) []string {
	code := hex.EncodeToString([]byte(value))
	var whole strings.Builder
	for i := 0; i < len(code); i += 2 {
		whole.WriteString("%" + code[i:i+2])
	}
	out := []string{code, strings.ToUpper(code), whole.String(), strings.ToUpper(whole.String())}
	for before := range 3 {
		padded := append(make([]byte, before), value...)
		first, end := (8*before+5)/6, 8*len(padded)/6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			out = append(out, e.EncodeToString(padded)[first:end])
		}
	}
	return out
}

// find returns the first pattern in b from a position on, the longest of those that begin there;
// nil if there is none.
func (r *redactor) find(b []byte, from int) (at int, _ *pattern) {
	for at = from; at+r.shortest <= len(b); {
		if d := r.shift[hash(b[at+r.shortest-2], b[at+r.shortest-1])]; d > 0 {
			at += int(d)
			continue
		}
		for _, p := range r.starts[b[at]] {
			if bytes.HasPrefix(b[at:], p.text) {
				return at, p
			}
		}
		at++
	}
	return len(b), nil
}

// held returns where the longest rest of b begins that more bytes could make a longer pattern of;
// len(b) if there is none.
func (r *redactor) held(b []byte, from int) int {
	for at := max(from, len(b)-r.longest+1); at < len(b); at++ {
		rest := b[at:]
		for _, p := range r.starts[b[at]] {
			if len(p.text) > len(rest) && bytes.HasPrefix(p.text, rest) {
				return at
			}
		}
	}
	return len(b)
}

// replace appends b to dst with every pattern replaced, up to what may be the beginning of one
// unless it is the end of the stream. It returns how much of b it used. If fixed, the size does
// not change.
func (r *redactor) replace(dst, b []byte, end, fixed bool) (_ []byte, used int) {
	held := len(b)
	if !end {
		held = r.held(b, 0)
	}
	for {
		at, p := r.find(b, used)
		if p == nil || at >= held {
			return append(dst, b[used:held]...), held
		}
		dst = append(dst, b[used:at]...)
		if fixed {
			dst = append(dst, bytes.Repeat([]byte("*"), len(p.text))...)
		} else {
			dst = append(dst, p.by...)
		}
		if used = at + len(p.text); used > held && !end {
			held = r.held(b, used)
		}
	}
}

// text returns s with every pattern replaced.
func (r *redactor) text(s string) string {
	if _, p := r.find([]byte(s), 0); p == nil {
		return s
	}
	out, _ := r.replace(nil, []byte(s), true, false)
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
	if len(name) < r.shortest {
		return false
	}
	lower := bytes.ToLower([]byte(name))
	return slices.ContainsFunc(r.patterns, func(p pattern) bool { return bytes.Contains(lower, bytes.ToLower(p.text)) })
}

// redacted is a stream in which values are replaced. A value that is divided between reads is
// found too; what cannot be a part of one is passed on at once.
type redacted struct {
	r     *redactor
	src   io.Reader
	fixed bool
	size  int    // of a read; 0 is readSize
	buf   []byte // from src, not searched to the end
	out   []byte // to be read
	rest  []byte // of out
	err   error  // of src
}

const readSize = 32 << 10

// Read implements io.Reader.
func (s *redacted) Read(p []byte) (int, error) {
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
		s.buf = s.buf[:len(s.buf)+n]
		s.err = err
		var used int
		// What a broken stream held back is dropped.
		s.out, used = s.r.replace(s.out[:0], s.buf, err == io.EOF, s.fixed)
		s.buf = s.buf[:copy(s.buf, s.buf[used:])]
		s.rest = s.out
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
