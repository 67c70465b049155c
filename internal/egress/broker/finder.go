package broker

import (
	"bytes"
	crand "crypto/rand"
	"crypto/subtle"
	"math/rand/v2"
	"slices"
)

// minPattern is the minimum size of a pattern, in bytes. A value has at least as many.
const minPattern = 8

// pattern is a text that is replaced.
type pattern struct{ text, by []byte }

// finder finds patterns. How long it takes depends on the number of bytes and on patterns that are there:
// each window of bytes is compared by a hash whose key is random, and a pattern with the same beginning is
// compared in constant time. A table of characters would be faster where none is in a pattern, which tells
// what is in one.
type finder struct {
	patterns []pattern // the longest first
	size     int       // of a window: that of the shortest pattern
	in, out  [256]uint64
	key      uint64
	filter   [1 << 10]uint64
	starts   map[uint64][]*pattern // by the hash of their first window, the longest first
}

// add adds a pattern, before prepare.
func (f *finder) add(text, by string) {
	if len(text) >= minPattern && !slices.ContainsFunc(f.patterns, func(p pattern) bool { return string(p.text) == text }) {
		f.patterns = append(f.patterns, pattern{[]byte(text), []byte(by)})
	}
}

// prepare makes a finder of its patterns, of which there is at least one.
func (f *finder) prepare() {
	slices.SortFunc(f.patterns, func(a, b pattern) int {
		if d := len(b.text) - len(a.text); d != 0 {
			return d
		}
		return bytes.Compare(a.text, b.text)
	})
	f.size = len(f.patterns[len(f.patterns)-1].text)
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	random := rand.NewChaCha8(seed)
	f.key = random.Uint64() | 1
	power := uint64(1)
	for range f.size {
		power *= f.key
	}
	for c := range f.in {
		f.in[c] = random.Uint64()
		f.out[c] = f.in[c] * power
	}
	f.starts = map[uint64][]*pattern{}
	for i := range f.patterns {
		p := &f.patterns[i]
		h := f.hash(p.text)
		f.starts[h] = append(f.starts[h], p)
		f.filter[h>>54] |= 1 << (h >> 48 & 63)
	}
}

// hash returns the hash of the window at the beginning of b.
func (f *finder) hash(b []byte) (h uint64) {
	for _, c := range b[:f.size] {
		h = h*f.key + f.in[c]
	}
	return h
}

// find returns the first pattern in b that begins between two places, the longest of those that begin there;
// nil if there is none.
func (f *finder) find(b []byte, from, limit int) (at int, _ *pattern) {
	if limit = min(limit, len(b)-f.size+1); from >= limit {
		return limit, nil
	}
	h, key := f.hash(b[from:]), f.key
	last, next := b[from:limit-1], b[from+f.size:limit-1+f.size]
	for i := 0; ; i++ {
		if f.filter[h>>54]>>(h>>48&63)&1 != 0 {
			for _, p := range f.starts[h] {
				if end := from + i + len(p.text); end <= len(b) && subtle.ConstantTimeCompare(b[from+i:end], p.text) == 1 {
					return from + i, p
				}
			}
		}
		if i >= len(last) || i >= len(next) {
			return limit, nil
		}
		h = h*key + (f.in[next[i]] - f.out[last[i]])
	}
}
