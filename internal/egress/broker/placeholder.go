package broker

import (
	"bytes"
	"crypto/rand"
	"strings"
)

const (
	// Prefix begins every placeholder.
	Prefix = "hortus-secret-"
	// randomChars is the number of random characters behind the prefix, 5 bits each.
	randomChars = 26
	// PlaceholderSize is the size of a placeholder in bytes.
	PlaceholderSize = len(Prefix) + randomChars
	// dash is where the prefix has its first hyphen.
	dash = 6

	alphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

// NewPlaceholder returns a placeholder with 130 random bits. It has lower-case letters, digits
// and hyphens only, so that a header, a URL, a host name, a shell and JSON have it unchanged.
func NewPlaceholder() string {
	random := make([]byte, randomChars)
	_, _ = rand.Read(random) // it never fails
	for i, b := range random {
		random[i] = alphabet[b%32]
	}
	return Prefix + string(random)
}

// ValidPlaceholder reports whether s is a placeholder.
func ValidPlaceholder(s string) bool {
	return len(s) == PlaceholderSize && isPlaceholder(s) && s == strings.ToLower(s)
}

// isPlaceholder reports whether s begins with a placeholder, in any case.
func isPlaceholder[T string | []byte](s T) bool {
	if len(s) < PlaceholderSize {
		return false
	}
	for i := range PlaceholderSize {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if i < len(Prefix) {
			if c != Prefix[i] {
				return false
			}
		} else if !(c >= 'a' && c <= 'z' || c >= '2' && c <= '7') {
			return false
		}
	}
	return true
}

// index returns where the first placeholder in s is, in any case; -1 if there is none.
func index(s string) int {
	for from := 0; len(s)-from >= PlaceholderSize; {
		i := strings.IndexByte(s[from+dash:], '-')
		if i < 0 {
			return -1
		}
		if at := from + i; isPlaceholder(s[at:]) {
			return at
		}
		from += i + 1
	}
	return -1
}

// maxUnescape is how many times text is percent-decoded to find a placeholder.
const maxUnescape = 3

// find returns the first placeholder in s, also if it is percent-encoded, as it was written but
// decoded; "" if there is none.
func find(s string) string {
	for n := 0; len(s) >= PlaceholderSize; n++ {
		if i := index(s); i >= 0 {
			return s[i : i+PlaceholderSize]
		}
		if n == maxUnescape || strings.IndexByte(s, '%') < 0 {
			return ""
		}
		s = unescape(s)
	}
	return ""
}

// unescape decodes what is percent-encoded. What is not well-formed remains.
func unescape(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

var prefixBytes = []byte(Prefix)

// scanner finds a placeholder in a stream of bytes, wherever it is divided.
type scanner struct {
	tail [PlaceholderSize - 1]byte // the last bytes of the stream
	n    int                       // how many there are
}

// scan reads the next bytes of the stream, and returns the first placeholder that ends in them,
// or "".
func (s *scanner) scan(p []byte) string {
	if s.n > 0 {
		var joint [2 * (PlaceholderSize - 1)]byte
		n := copy(joint[:], s.tail[:s.n])
		n += copy(joint[n:], p[:min(len(p), PlaceholderSize-1)])
		if at := indexBytes(joint[:n]); at >= 0 {
			return string(joint[at : at+PlaceholderSize])
		}
	}
	if at := indexBytes(p); at >= 0 {
		return string(p[at : at+PlaceholderSize])
	}
	if len(p) >= len(s.tail) {
		s.n = copy(s.tail[:], p[len(p)-len(s.tail):])
		return ""
	}
	if over := s.n + len(p) - len(s.tail); over > 0 {
		s.n = copy(s.tail[:], s.tail[over:s.n])
	}
	s.n += copy(s.tail[s.n:], p)
	return ""
}

// indexBytes returns where the first placeholder in p is; -1 if there is none. It is in lower
// case: a search for one text uses vector instructions.
func indexBytes(p []byte) int {
	for from := 0; ; {
		i := bytes.Index(p[from:], prefixBytes)
		if i < 0 {
			return -1
		}
		if at := from + i; isPlaceholder(p[at:]) {
			return at
		}
		from += i + 1
	}
}
