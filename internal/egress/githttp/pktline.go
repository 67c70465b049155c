package githttp

import (
	"errors"
	"fmt"
	"io"
)

const (
	// maxLine is the maximum size of a pkt-line, with its length.
	maxLine = 65520
	flush   = "0000"
)

// lineKind is the kind of a pkt-line.
type lineKind int

const (
	dataLine lineKind = iota
	flushLine
	delimLine
)

var errLine = errors.New("a line is malformed")

// readLine parses a pkt-line. The text is without its line end, and valid until the next read.
// It returns io.EOF if the body ends before the line.
func readLine(s *source) (lineKind, []byte, error) {
	head, err := s.next(4)
	if err != nil {
		return 0, nil, err
	}
	n := 0
	for _, c := range head {
		v, ok := hexDigit(c)
		if !ok {
			return 0, nil, fmt.Errorf("%w: its length is %q", errLine, head)
		}
		n = n<<4 | v
	}
	switch {
	case n == 0:
		return flushLine, nil, nil
	case n == 1:
		return delimLine, nil, nil
	case n <= 4 || n > maxLine:
		return 0, nil, fmt.Errorf("%w: its length is %d", errLine, n)
	}
	text, err := s.next(n - 4)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, err
	}
	if text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	return dataLine, text, nil
}

func hexDigit(c byte) (int, bool) {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0'), true
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10, true
	}
	return 0, false
}

// appendLine appends a pkt-line of a text, which must be shorter than maxLine-4.
func appendLine(b []byte, text string) []byte {
	return append(fmt.Appendf(b, "%04x", len(text)+4), text...)
}

// isID reports whether a text is the name of an object, in SHA-1 or SHA-256.
func isID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if _, ok := hexDigit(s[i]); !ok {
			return false
		}
	}
	return true
}

// isPlain reports whether a text is short and has printable ASCII characters and no spaces.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != "" && len(s) <= maxRef
}

// isNumber reports whether a text is a number of at most 12 digits.
func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && len(s) <= 12
}
