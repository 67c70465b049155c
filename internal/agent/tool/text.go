package tool

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// document is a text file as an editor sees it.
type document struct {
	text string // without its mark
	bom  bool   // it begins with UTF-8's byte order mark
}

const bom = "\uFEFF"

// parseDocument reads a file's content; why says what is against editing it.
func parseDocument(b []byte) (d document, why string) {
	if what := binaryKind(b); what != "" {
		return d, what
	}
	s := string(b)
	if rest, ok := strings.CutPrefix(s, bom); ok {
		return document{rest, true}, ""
	}
	return document{text: s}, ""
}

func (d document) bytes() []byte {
	if d.bom {
		return []byte(bom + d.text)
	}
	return []byte(d.text)
}

// crlf reports whether every line of it ends with CR LF.
func (d document) crlf() bool {
	n := strings.Count(d.text, "\n")
	return n > 0 && strings.Count(d.text, "\r\n") == n
}

// toCRLF ends each line of s with CR LF.
func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// binaryKind names what a file is that is no text, or is empty. Text is UTF-8
// without NUL.
func binaryKind(b []byte) string {
	for _, m := range []struct{ magic, what string }{
		{"\x7fELF", "an ELF program"}, {"\x89PNG\r\n", "a PNG image"}, {"\xff\xd8\xff", "a JPEG image"},
		{"GIF8", "a GIF image"}, {"PK\x03\x04", "a ZIP archive"}, {"\x1f\x8b", "gzip data"},
		{"%PDF-", "a PDF document"}, {"SQLite format 3\x00", "an SQLite database"}, {"\x28\xb5\x2f\xfd", "zstd data"},
		{"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"},
	} {
		if bytes.HasPrefix(b, []byte(m.magic)) {
			return m.what
		}
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return "binary data"
	}
	if !utf8.Valid(b) {
		return "text in an encoding other than UTF-8"
	}
	return ""
}

// lines splits a text at its line breaks, without them. A last line break begins
// no line.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// maxShownLine is how much of one line is shown, in bytes.
const maxShownLine = 2000

// numbered shows lines with their numbers from first on, at most max bytes and at
// least one; n is how many were shown.
func numbered(all []string, first, max int) (text string, n int) {
	var b strings.Builder
	for i, l := range all {
		l = strings.TrimSuffix(l, "\r")
		shown := visible(l)
		if len(shown) > maxShownLine {
			short := clip(shown, maxShownLine)
			shown = fmt.Sprintf("%s [%d more bytes in this line]", short, len(shown)-len(short)+3)
		}
		line := fmt.Sprintf("%d\t%s\n", first+i, shown)
		if i > 0 && b.Len()+len(line) > max {
			break
		}
		b.WriteString(line)
		n++
	}
	return b.String(), n
}

// changed counts the lines that differ between two texts: those after their
// common beginning and before their common end. First is the first of them in
// after, from 0.
func changed(before, after string) (added, removed, first int) {
	a, b := lines(before), lines(after)
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	i, j := len(a), len(b)
	for i > first && j > first && a[i-1] == b[j-1] {
		i--
		j--
	}
	return j - first, i - first, first
}

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
