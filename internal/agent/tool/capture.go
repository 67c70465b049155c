package tool

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Bounds of what a model reads of one output, in characters.
const (
	maxText  = 10_000
	headText = 5_000
	tailText = 5_000
)

// capture takes a command's output in bounded memory: its text whole while it is
// short, its beginning and end once it is long, and then the whole in a store.
type capture struct {
	clean cleaner
	store OutputStore

	raw   int64 // bytes as they were printed
	chars int64 // characters of the clean text
	long  bool
	head  []byte // everything while it is not long
	tail  []byte
	whole Output // nil where nothing is kept
	name  string
	note  string // why nothing is kept
}

func newCapture(store OutputStore) *capture {
	c := &capture{store: store}
	c.clean.out = c.add
	return c
}

// Write takes raw output. It never fails: a store that does is said in the text.
func (c *capture) Write(p []byte) (int, error) {
	c.raw += int64(len(p))
	return c.clean.Write(p)
}

func (c *capture) add(text []byte) {
	c.chars += int64(utf8.RuneCount(text))
	if !c.long {
		c.head = append(c.head, text...)
		if c.chars <= maxText {
			return
		}
		c.long = true
		c.keep(c.head)
		cut := lineBefore(c.head, runeOffset(c.head, headText))
		c.tail = append(c.tail, c.head[cut:]...)
		c.head = c.head[:cut]
	} else {
		c.keep(text)
		c.tail = append(c.tail, text...)
	}
	const most = tailText * utf8.UTFMax
	if len(c.tail) > 4*most {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-most:]...)
	}
}

// keep writes to the store.
func (c *capture) keep(text []byte) {
	var err error
	if c.whole == nil {
		if c.store == nil || c.note != "" {
			return
		}
		if c.whole, err = c.store.Create(); err != nil {
			c.whole, c.note = nil, "could not be saved"
			return
		}
		c.name = c.whole.Name()
	}
	if _, err = c.whole.Write(text); err != nil {
		c.whole.Close()
		c.whole, c.name, c.note = nil, "", "could not be saved"
	}
}

// end closes the store's side and gives the text to read. It ends with a line
// break unless it is empty.
func (c *capture) end() string {
	c.clean.end()
	if c.whole != nil {
		if c.whole.Close() != nil {
			c.name, c.note = "", "could not be saved"
		}
		c.whole = nil
	}
	if !c.long {
		return ended(string(c.head))
	}
	n := utf8.RuneCount(c.tail)
	from := 0
	if n > tailText {
		from = lineAfter(c.tail, runeOffset(c.tail, n-tailText))
	}
	tail := c.tail[from:]
	cut := c.chars - int64(utf8.RuneCount(c.head)) - int64(utf8.RuneCount(tail))
	rest := fmt.Sprintf("the full output is %s; read it with view or search", c.name)
	if c.name == "" {
		rest = "the rest " + orElse(c.note, "is not saved")
	}
	return fmt.Sprintf("%s[... %d characters truncated; %s ...]\n%s", ended(string(c.head)), cut, rest, ended(validTail(tail)))
}

// validTail drops the rest of a rune that the bound cut through.
func validTail(b []byte) string {
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return string(b)
}

func ended(s string) string {
	if s != "" && s[len(s)-1] != '\n' {
		s += "\n"
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// runeOffset returns the byte at which the n-th rune begins.
func runeOffset(b []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(b); n-- {
		_, size := utf8.DecodeRune(b[i:])
		i += size
	}
	return i
}

// lineBefore moves a cut back to the end of a line, if one is near enough.
func lineBefore(b []byte, at int) int {
	if i := bytes.LastIndexByte(b[:at], '\n'); i >= at/2 {
		return i + 1
	}
	return at
}

// lineAfter moves a cut on to the beginning of a line, if one is near enough.
func lineAfter(b []byte, at int) int {
	if at > 0 && b[at-1] == '\n' {
		return at
	}
	if i := bytes.IndexByte(b[at:], '\n'); i >= 0 && i < (len(b)-at)/2 {
		return at + i + 1
	}
	return at
}
