package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
)

const (
	maxPort = 65535
	// maxRanges is the maximum number of ports and ranges of a rule.
	maxRanges = 64
)

// span is a range of ports, with both ends.
type span struct{ lo, hi uint16 }

// ports are ranges that are sorted and do not touch.
type ports []span

func everyPort() ports { return ports{{1, maxPort}} }

func webPorts() ports { return ports{{80, 80}, {443, 443}} }

// parsePorts reads "443", "80,8000-8999" or "*".
func parsePorts(s string) (ports, error) {
	if s == "*" {
		return everyPort(), nil
	}
	if n := strings.Count(s, ","); n >= maxRanges {
		return nil, api.Errorf(api.KindInvalid, "%d ports and ranges, the maximum is %d", n+1, maxRanges).
			WithHint("Write ports that follow each other as a range, such as 8000-8999.")
	}
	var all ports
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, okLo := parsePort(from)
		hi, okHi := parsePort(to)
		if !okLo || !okHi || lo > hi {
			return nil, api.Errorf(api.KindInvalid, "%.40q is not a port or a range of ports", part).
				WithHint("Ports are from 1 to %d. Write a port as 443, a range as 8000-8999, and every port as *.", maxPort)
		}
		all = append(all, span{lo, hi})
	}
	return all.merge(), nil
}

func parsePort(s string) (uint16, bool) {
	if s == "" || len(s) > 5 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0
}

// merge sorts the ranges and joins those that overlap or touch.
func (p ports) merge() ports {
	slices.SortFunc(p, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	out := p[:0]
	for _, s := range p {
		if n := len(out); n > 0 && int(s.lo) <= int(out[n-1].hi)+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (p ports) has(port uint16) bool {
	for _, s := range p {
		if port <= s.hi {
			return port >= s.lo
		}
	}
	return false
}

func (p ports) all() bool { return len(p) == 1 && p[0] == span{1, maxPort} }

// String returns the text that parsePorts reads.
func (p ports) String() string {
	if p.all() {
		return "*"
	}
	var b strings.Builder
	for i, s := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(s.lo)))
		if s.hi > s.lo {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(s.hi)))
		}
	}
	return b.String()
}

// portSet is a set of ports as bits: whatever the rules are, an operation on it takes at most
// a thousand steps.
type portSet [(maxPort + 1) / 64]uint64

// words calls f with the words of a set that the ports are in, and with their bits.
func (p ports) words(f func(i int, bits uint64) bool) bool {
	for _, s := range p {
		for i := int(s.lo) / 64; i <= int(s.hi)/64; i++ {
			bits := ^uint64(0)
			if low := i * 64; int(s.lo) > low {
				bits &= ^uint64(0) << (int(s.lo) - low)
			}
			if high := i*64 + 63; int(s.hi) < high {
				bits &= ^uint64(0) >> (high - int(s.hi))
			}
			if !f(i, bits) {
				return false
			}
		}
	}
	return true
}

func (s *portSet) add(p ports) {
	p.words(func(i int, bits uint64) bool { s[i] |= bits; return true })
}

func (s *portSet) remove(p ports) {
	p.words(func(i int, bits uint64) bool { s[i] &^= bits; return true })
}

// addBoth adds the ports that are in other too.
func (s *portSet) addBoth(p ports, other *portSet) {
	p.words(func(i int, bits uint64) bool { s[i] |= bits & other[i]; return true })
}

// meets reports whether one of the ports is in s.
func (s *portSet) meets(p ports) bool {
	return !p.words(func(i int, bits uint64) bool { return s[i]&bits == 0 })
}

// meetsBoth reports whether one of the ports is in s and in other.
func (s *portSet) meetsBoth(p ports, other *portSet) bool {
	return !p.words(func(i int, bits uint64) bool { return s[i]&bits&other[i] == 0 })
}
