package broker

import (
	"bytes"
	"sort"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// view is a text with its escapes decoded and the lines of base64 joined.
type view struct {
	text    []byte // nil if that changes nothing
	at, end []int  // where each of its bytes is in the text itself
	limit   int    // the last place up to the limit at which no escape is divided
}

// index returns the first byte of a view that begins at a place or behind it.
func (v view) index(place int) int { return sort.SearchInts(v.at, place) }

// begins reports whether something begins at a place.
func (v view) begins(place int) bool {
	if v.text == nil {
		return true
	}
	i := v.index(place)
	return i < len(v.at) && v.at[i] == place
}

// shifted returns the view of a text behind n bytes.
func (v view) shifted(n int) view {
	for i := range v.at {
		v.at[i] += n
		v.end[i] += n
	}
	v.limit += n
	return v
}

// special begins what may be decoded.
var special = [256]bool{'%': true, '\\': true, '&': true, '\n': true, '\r': true}

// decode returns a view. run is how many bytes before it are of a line of base64.
func decode(b []byte, run, limit int) view {
	v := view{limit: limit}
	plain := 0 // what is from here to i means itself
	for i := 0; ; {
		for i < len(b) && !special[b[i]] {
			i++
		}
		if i == len(b) {
			break
		}
		n, text := escape(b, i, run)
		if n > 1 || len(text) == 0 {
			v.add(b, plain, i)
			for range text {
				v.at, v.end = append(v.at, i), append(v.end, i+n)
			}
			v.text = append(v.text, text...)
			plain = i + n
		}
		if i < limit && i+n > limit {
			v.limit = i
		}
		i += n
	}
	if v.text != nil {
		v.add(b, plain, len(b))
	}
	return v
}

// add adds bytes that mean themselves.
func (v *view) add(b []byte, from, to int) {
	if v.text == nil {
		v.text, v.at, v.end = make([]byte, 0, len(b)), make([]int, 0, len(b)), make([]int, 0, len(b))
	}
	v.text = append(v.text, b[from:to]...)
	for i := from; i < to; i++ {
		v.at, v.end = append(v.at, i), append(v.end, i+1)
	}
}

// escape returns what is written at a place: how many bytes, and what they mean.
func escape(b []byte, i, run int) (n int, text []byte) {
	rest := b[i:]
	if runAt(b[:i], run) >= minRun {
		if n := breakAt(rest); n > 0 {
			return n, nil
		}
	}
	switch {
	case rest[0] == '%' && len(rest) >= 3:
		if c, ok := number(rest[1:3], 16); ok {
			return 3, []byte{byte(c)}
		}
	case rest[0] == '\\' && len(rest) >= 2:
		switch c := rest[1]; {
		case c == '"' || c == '\\' || c == '/' || c == '\'':
			return 2, rest[1:2]
		case c == 'n':
			return 2, []byte{'\n'}
		case c == 'x' && len(rest) >= 4:
			if c, ok := number(rest[2:4], 16); ok {
				return 4, []byte{byte(c)}
			}
		case c == 'u' && len(rest) >= 6:
			c, ok := number(rest[2:6], 16)
			if !ok {
				break
			}
			if utf16.IsSurrogate(c) && len(rest) >= 12 && rest[6] == '\\' && rest[7] == 'u' {
				low, ok := number(rest[8:12], 16)
				if pair := utf16.DecodeRune(c, low); ok && pair != utf8.RuneError {
					return 12, utf8.AppendRune(nil, pair)
				}
			}
			return 6, utf8.AppendRune(nil, c)
		}
	case rest[0] == '&':
		if end := bytes.IndexByte(rest[:min(len(rest), maxEntity)], ';'); end > 0 {
			if text := entity(rest[1:end]); text != nil {
				return end + 1, text
			}
		}
	}
	return 1, rest[:1]
}

// maxEntity is the maximum size of a character reference of HTML.
const maxEntity = 10

var entities = map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'"}

// entity returns what a character reference means, nil if it is none.
func entity(name []byte) []byte {
	if text, ok := entities[string(name)]; ok {
		return []byte(text)
	}
	digits, ok := bytes.CutPrefix(name, []byte("#"))
	base := 10
	if len(digits) > 0 && (digits[0] == 'x' || digits[0] == 'X') {
		digits, base = digits[1:], 16
	}
	if c, isNumber := number(digits, base); ok && isNumber && c <= utf8.MaxRune {
		return utf8.AppendRune(nil, c)
	}
	return nil
}

// number reads digits.
func number(digits []byte, base int) (rune, bool) {
	for _, c := range digits {
		if unhex(c) < 0 {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(digits), base, 31)
	return rune(n), err == nil
}

// minRun is the minimum length of a line that is joined with the next one. No other line end is in a value,
// so that most lines of text are passed on as soon as they end.
const minRun = 32

// runAt returns how many bytes at the end of b may be of a line of base64, up to minRun, if run bytes before
// b are.
func runAt(b []byte, run int) int {
	for i := range min(len(b), minRun) {
		switch c := b[len(b)-1-i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '+', c == '/', c == '-', c == '_', c == '=', c == '\\', c == '%':
		default:
			return i
		}
	}
	return min(run+len(b), minRun)
}

// joins reports whether a line end behind b is inside a text in lines.
func joins(b []byte, run int) bool {
	return runAt(bytes.TrimSuffix(b, []byte("\r")), run) >= minRun
}

// lineEnds are ways to write a line end, in JSON and in a URL too.
var lineEnds = []string{"\n", "\r\n", `\n`, `\r\n`, "%0D%0A", "%0d%0a", "%0A", "%0a"}

// breakAt returns the size of a line end at the beginning of b, with what indents the next line; 0 if there
// is none.
func breakAt(b []byte) (n int) {
	for _, text := range lineEnds {
		if len(b) >= len(text) && string(b[:len(text)]) == text {
			n = len(text)
			break
		}
	}
	if n == 0 || b[n-1] != '\n' {
		return n
	}
	if bytes.HasPrefix(b[n:], []byte("data:")) { // of an event
		n += len("data:")
	}
	for range maxIndent {
		if n == len(b) || b[n] != ' ' && b[n] != '\t' {
			break
		}
		n++
	}
	return n
}

const maxIndent = 16
