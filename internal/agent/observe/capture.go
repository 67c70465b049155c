package observe

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Sizes of what is kept.
const (
	HeadBytes  = 4 << 10
	TailBytes  = 4 << 10
	WholeBytes = 16 << 20 // of one stream, in a file
)

// Capture is a writer for one stream of a program: it counts all, keeps the head
// and the tail, and passes the first WholeBytes on to Whole, with a closing mark
// where more came. The zero value works. It is for one goroutine.
type Capture struct {
	// Whole receives the output; nil drops it.
	Whole io.Writer
	// Buffer keeps the first WholeBytes in memory too, for a check of all of it.
	Buffer bool

	head     []byte
	tail     []byte // a ring once it is full
	next     int
	total    int64
	visible  bool
	whole    bytes.Buffer
	wholeErr error
}

// Write takes a piece of output. It never fails because of the output's size; it
// reports the first error of Whole, once everything else was recorded.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	if !c.visible {
		c.visible = bytes.ContainsFunc(p, func(r rune) bool { return !unicode.IsSpace(r) })
	}
	if room := WholeBytes - c.total; room > 0 {
		part := p
		if int64(len(part)) > room {
			part = part[:room]
		}
		c.keep(part)
		if int64(len(p)) > room {
			c.keepMark()
		}
	} else if room == 0 && n > 0 {
		c.keepMark()
	}
	c.total += int64(n)
	if room := HeadBytes - len(c.head); room > 0 {
		part := p[:min(room, len(p))]
		c.head = append(c.head, part...)
		p = p[len(part):]
	}
	c.ring(p)
	return n, c.wholeErr
}

func (c *Capture) keep(p []byte) {
	if c.Buffer {
		c.whole.Write(p)
	}
	if c.Whole != nil && c.wholeErr == nil && len(p) > 0 {
		_, c.wholeErr = c.Whole.Write(p)
	}
}

func (c *Capture) keepMark() {
	if c.Whole != nil && c.wholeErr == nil {
		_, c.wholeErr = fmt.Fprintf(c.Whole, "\n[hortus: output beyond %d bytes was discarded]\n", WholeBytes)
	}
}

func (c *Capture) ring(p []byte) {
	if len(p) >= TailBytes {
		c.tail = append(c.tail[:0], p[len(p)-TailBytes:]...)
		c.next = 0
		return
	}
	if room := TailBytes - len(c.tail); room > 0 {
		part := p[:min(room, len(p))]
		c.tail = append(c.tail, part...)
		p = p[len(part):]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % TailBytes
		p = p[k:]
	}
}

// Total counts all bytes that were written.
func (c *Capture) Total() int64 { return c.total }

// Visible reports whether anything but white space was written.
func (c *Capture) Visible() bool { return c.visible }

// Bytes returns the whole output when Buffer was set, and false when it is longer
// than WholeBytes.
func (c *Capture) Bytes() ([]byte, bool) {
	return c.whole.Bytes(), c.total <= WholeBytes
}

// Text is the head and the tail, with a line between them that says how many
// bytes were left out. It is valid UTF-8.
func (c *Capture) Text() string {
	tail := append(append([]byte{}, c.tail[c.next:]...), c.tail[:c.next]...)
	if len(c.tail) < TailBytes {
		tail = c.tail
	}
	left := c.total - int64(len(c.head)) - int64(len(tail))
	if left <= 0 {
		return strings.ToValidUTF8(string(c.head)+string(tail), "\uFFFD")
	}
	return strings.ToValidUTF8(string(c.head), "\uFFFD") +
		fmt.Sprintf("\n[... %d bytes omitted ...]\n", left) +
		strings.ToValidUTF8(string(tail), "\uFFFD")
}
