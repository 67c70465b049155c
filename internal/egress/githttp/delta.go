package githttp

import "errors"

var (
	errDelta      = errors.New("a delta does not fit its base")
	errDeltaLarge = errors.New("the result of a delta is too large")
)

// applyDelta makes an object from its base and a delta. It returns errDelta for a delta that is
// malformed, and errDeltaLarge if the result is larger than limit.
func applyDelta(base, delta []byte, limit int64) ([]byte, error) {
	size := func() (n int64, ok bool) {
		for shift := 0; shift <= 56 && len(delta) > 0; shift += 7 {
			c := delta[0]
			delta = delta[1:]
			n |= int64(c&0x7f) << shift
			if c&0x80 == 0 {
				return n, true
			}
		}
		return 0, false
	}
	from, ok := size()
	if !ok || from != int64(len(base)) {
		return nil, errDelta
	}
	to, ok := size()
	if !ok {
		return nil, errDelta
	}
	if to > limit {
		return nil, errDeltaLarge
	}
	out := make([]byte, 0, to)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		var piece []byte
		if op&0x80 == 0 { // new bytes
			if op == 0 || int(op) > len(delta) {
				return nil, errDelta
			}
			piece, delta = delta[:op], delta[op:]
		} else { // bytes of the base
			var at, n int
			for bit := range 7 {
				if op&(1<<bit) == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, errDelta
				}
				if bit < 4 {
					at |= int(delta[0]) << (8 * bit)
				} else {
					n |= int(delta[0]) << (8 * (bit - 4))
				}
				delta = delta[1:]
			}
			if n == 0 {
				n = 0x10000
			}
			if at+n > len(base) {
				return nil, errDelta
			}
			piece = base[at : at+n]
		}
		if int64(len(out)+len(piece)) > to {
			return nil, errDelta
		}
		out = append(out, piece...)
	}
	if int64(len(out)) != to {
		return nil, errDelta
	}
	return out, nil
}
