package policy

import (
	"net/netip"
	"strings"

	"hortus.dev/api"
)

const (
	maxName  = 253 // bytes of a DNS name, without its final dot
	maxLabel = 63  // bytes of a label
)

// Normalize returns the form of a DNS name in which names are compared: ASCII in lower case,
// without a final dot. Labels have letters, digits, hyphens and underscores. An international
// name must be punycode ("xn--..."): two programs that convert it may disagree about the result.
//
// An address is not a name, however it is written. The resolvers of C libraries, curl and
// browsers accept "2130706433", "0x7f.1" and "127.1" as 127.0.0.1, so a name whose last label
// is a number is refused with KindInvalid, as is everything else that is not a name.
func Normalize(name string) (string, error) {
	if _, err := netip.ParseAddr(name); err == nil {
		return "", api.Errorf(api.KindInvalid, "%.80q is an address, not a name", name)
	}
	n := strings.TrimSuffix(name, ".")
	switch {
	case n == "":
		return "", api.Errorf(api.KindInvalid, "the name %.80q is empty", name)
	case len(n) > maxName:
		return "", api.Errorf(api.KindInvalid, "the name %.80q... has %d bytes, the maximum is %d", name, len(n), maxName)
	}
	for i := range len(n) {
		if n[i] >= 0x80 {
			return "", api.Errorf(api.KindInvalid, "the name %.80q is not ASCII", name).
				WithHint("Write an international name in punycode, such as xn--bcher-kva.example.")
		}
	}
	n = asciiLower(n)
	if numeric(n[strings.LastIndexByte(n, '.')+1:]) {
		return "", api.Errorf(api.KindInvalid, "%.80q is a number, which programs read as an address", name).
			WithHint("Write an IPv4 address as four decimal numbers, such as 192.0.2.1.")
	}
	if why := misspelt(n); why != "" {
		return "", api.Errorf(api.KindInvalid, "the name %.80q %s", name, why)
	}
	return n, nil
}

// normal reports whether a name is one that Normalize returned. It is for names on the way of
// every connection.
func normal(n string) bool {
	return n != "" && len(n) <= maxName && misspelt(n) == "" && !numeric(n[strings.LastIndexByte(n, '.')+1:])
}

// misspelt returns what is wrong with the labels of a name in lower case, or "".
func misspelt(n string) string {
	start := 0
	for i := 0; i <= len(n); i++ {
		if i < len(n) && n[i] != '.' {
			if c := n[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "has a character that is not a letter, a digit, a hyphen or an underscore"
			}
			continue
		}
		switch {
		case i == start:
			return "has an empty label"
		case i-start > maxLabel:
			return "has a label of more than 63 bytes"
		case n[start] == '-' || n[i-1] == '-':
			return "has a label that begins or ends with a hyphen"
		}
		start = i + 1
	}
	return ""
}

// numeric reports whether a label in lower case is a number of inet_aton(3) or of the URL
// standard: decimal, octal, or hexadecimal digits after "0x", which may be none.
func numeric(label string) bool {
	digits := label
	hex := strings.HasPrefix(label, "0x")
	if hex {
		digits = label[2:]
	}
	for i := range len(digits) {
		if c := digits[i]; !(c >= '0' && c <= '9' || hex && c >= 'a' && c <= 'f') {
			return false
		}
	}
	return label != ""
}

// asciiLower avoids the tables of Unicode: n is ASCII.
func asciiLower(n string) string {
	for i := range len(n) {
		if n[i] >= 'A' && n[i] <= 'Z' {
			b := []byte(n)
			for ; i < len(b); i++ {
				if b[i] >= 'A' && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return n
}

// Target is what a connection is made to.
type Target struct {
	// Host is a name that Normalize returned, or an address in canonical text: IPv4 as four
	// decimal numbers (also if it was mapped into IPv6), IPv6 as RFC 5952 has it.
	Host string
	Port int // 1 to 65535
}

// NewTarget makes a target of the untrusted text of a name or an address. It refuses with
// KindInvalid what is neither, an address with a zone, and a port out of range.
func NewTarget(host string, port int) (Target, error) {
	if port < 1 || port > maxPort {
		return Target{}, api.Errorf(api.KindInvalid, "port %d is not between 1 and %d", port, maxPort)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return Target{}, api.Errorf(api.KindInvalid, "the address %.80q has a zone, which only its own machine knows", host)
		}
		return Target{addr.Unmap().String(), port}, nil
	}
	n, err := Normalize(host)
	if err != nil {
		return Target{}, err
	}
	return Target{n, port}, nil
}

// endpoint is a target as rules are matched with it.
type endpoint struct {
	name string
	addr netip.Addr // invalid for a name
	port uint16
}

// resolve reads a target. One that NewTarget would not return is refused: a caller that did
// not normalize a name must not get past a rule.
func (t Target) resolve() (endpoint, bool) {
	if t.Port < 1 || t.Port > maxPort || t.Host == "" {
		return endpoint{}, false
	}
	// Every address begins with a digit or a colon, or is hexadecimal and has a colon.
	if c := t.Host[0]; c <= '9' || c == ':' || strings.IndexByte(t.Host, ':') > 0 {
		if addr, err := netip.ParseAddr(t.Host); err == nil {
			return endpoint{addr: addr, port: uint16(t.Port)}, addr.Zone() == "" && !addr.Is4In6()
		}
	}
	return endpoint{name: t.Host, port: uint16(t.Port)}, normal(t.Host)
}
