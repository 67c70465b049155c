package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a cleaner.
const (
	// maxLineHeld is the longest line that a carriage return can take back.
	maxLineHeld = 64 << 10
	// maxEscape is the longest terminal sequence that is left out.
	maxEscape = 4096
)

// cleaner turns what a command printed into text: terminal sequences and control
// characters are left out, a line that was written over shows its last state, and
// what is no UTF-8 is replaced. It holds one line at most.
type cleaner struct {
	out   func(text []byte) // takes clean text; it may not keep it
	line  []byte
	cr    bool // a carriage return came; what follows writes over the line
	state byte // 0, or where in a terminal sequence: 'e', '[', ']', '\\', '('
	taken int  // its bytes so far
}

// Write takes raw output. It never fails.
func (c *cleaner) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i++ {
		if c.state != 0 && c.escape(p[i]) {
			continue
		}
		// What is plain goes at once, but for its last byte, which sees to the
		// bound: an output may have gigabytes.
		if c.state == 0 && !c.cr {
			n := i
			for most := min(len(p), i+maxLineHeld-len(c.line)-1); n < most && p[n] >= ' ' && p[n] != 0x7f; n++ {
			}
			c.line = append(c.line, p[i:n]...)
			if i = n; i == len(p) {
				break
			}
			if p[i] == 0x1b {
				c.state, c.taken = 'e', 0
				continue
			}
		}
		c.plain(p[i])
	}
	return len(p), nil
}

func (c *cleaner) plain(b byte) {
	switch {
	case b == 0x1b:
		c.state, c.taken = 'e', 0
		return
	case b == '\r':
		c.cr = true
		return
	case b == '\n':
		c.line, c.cr = append(c.line, '\n'), false
		c.flush(len(c.line))
		return
	case b == '\b':
		if n := len(c.line); n > 0 && !c.cr {
			_, size := utf8.DecodeLastRune(c.line)
			c.line = c.line[:n-size]
		}
		return
	case b < ' ' && b != '\t' || b == 0x7f:
		return
	}
	if c.cr {
		c.line, c.cr = c.line[:0], false
	}
	if c.line = append(c.line, b); len(c.line) >= maxLineHeld {
		n := len(c.line)
		for i := 1; i < utf8.UTFMax && i < n; i++ { // a rune that is not whole yet stays
			if utf8.RuneStart(c.line[n-i]) {
				if !utf8.FullRune(c.line[n-i:]) {
					n -= i
				}
				break
			}
		}
		c.flush(n)
	}
}

// escape takes a byte of a terminal sequence; false gives it back as plain.
func (c *cleaner) escape(b byte) bool {
	c.taken++
	if b == '\n' || c.taken > maxEscape {
		// One that never ends must not hide what follows.
		c.state = 0
		return false
	}
	switch c.state {
	case 'e':
		switch {
		case b == '[':
			c.state = '['
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state = ']'
		case b >= 0x20 && b <= 0x2f:
			c.state = '('
		case b == 0x1b:
		default:
			c.state = 0
		}
	case '[':
		if b == 0x1b {
			c.state = 'e'
		} else if b >= 0x40 && b <= 0x7e {
			c.state = 0
		} else if b < 0x20 || b > 0x7e {
			c.state = 0
			return false
		}
	case '(':
		if b < 0x20 || b > 0x2f {
			c.state = 0
		}
	case ']':
		if b == 0x07 {
			c.state = 0
		} else if b == 0x1b {
			c.state = '\\'
		}
	case '\\':
		c.state = 0
		if b != '\\' {
			c.state = 'e'
			return c.escape(b)
		}
	}
	return true
}

// end writes what is left.
func (c *cleaner) end() {
	c.state = 0
	c.flush(len(c.line))
}

func (c *cleaner) flush(n int) {
	if n > 0 {
		c.out(validText(c.line[:n]))
	}
	c.line = append(c.line[:0], c.line[n:]...)
}

// validText replaces what is no UTF-8 and leaves out controls beyond ASCII's.
func validText(b []byte) []byte {
	plain := true
	for _, x := range b {
		if x >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return b
	}
	return []byte(strings.Map(func(r rune) rune {
		if r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), "\uFFFD")))
}

// visible makes controls in a name or a line visible, so that it stays one line.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case r < ' ':
			return 0x2400 + r // the pictures of controls
		case r == 0x7f:
			return 0x2421
		case unicode.IsControl(r) || r == 0x2028 || r == 0x2029:
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// clip cuts s to at most max bytes, at the border of a rune, and says so.
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max] + "..."
}

// clipExact cuts s to at most max bytes, at the border of a rune.
func clipExact(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}
