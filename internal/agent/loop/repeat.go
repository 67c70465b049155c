package loop

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"hortus.dev/internal/agent/model"
)

const (
	// sameCalls is how often the same call with the same answer may come in a row,
	// sameCycles how often a cycle of 2 to maxCycle calls.
	sameCalls  = 5
	sameCycles = 4
	maxCycle   = 4
	// After a warning fewer are enough.
	sameCallsWarned  = 3
	sameCyclesWarned = 2

	keptCalls = maxCycle * sameCycles
)

// repeats finds calls that go in circles.
type repeats struct {
	last   []repeated // the last keptCalls
	warned bool
	since  int // calls after the warning
}

// repeated is a call with its answer.
type repeated struct {
	sum  [sha256.Size]byte
	name string
}

func (r *repeats) add(c model.Call, res Result) {
	next := repeated{sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t", c.Name, canonical(c.Input), res.Text, res.Failed)), c.Name}
	// Something new is progress, and a warning that helped is forgotten.
	if !slices.ContainsFunc(r.last, func(x repeated) bool { return x.sum == next.sum }) {
		r.warned = false
	}
	r.since++
	r.last = append(r.last, next)
	if n := len(r.last) - keptCalls; n > 0 {
		r.last = r.last[n:]
	}
}

// warn begins a new count, with less patience.
func (r *repeats) warn() { r.warned, r.since = true, 0 }

// found returns what repeats itself, or "".
func (r *repeats) found() string {
	calls, cycles, have := sameCalls, sameCycles, len(r.last)
	if r.warned {
		calls, cycles, have = sameCallsWarned, sameCyclesWarned, min(have, r.since)
	}
	for period := 1; period <= maxCycle; period++ {
		need := cycles * period
		if period == 1 {
			need = calls
		}
		if have < need || !r.periodic(period, need) {
			continue
		}
		if period == 1 {
			return fmt.Sprintf("the same call of %s returned the same result %d times in a row", r.last[len(r.last)-1].name, need)
		}
		return fmt.Sprintf("the same sequence of %d calls returned the same results %d times", period, cycles)
	}
	return ""
}

func (r *repeats) periodic(period, n int) bool {
	tail := r.last[len(r.last)-n:]
	for i := period; i < n; i++ {
		if tail[i].sum != tail[i-period].sum {
			return false
		}
	}
	return true
}

// canonical is a call's input without what its writer is free in: the order of
// fields, and space.
func canonical(raw []byte) string {
	var v any
	if strictJSON(raw, &v) != nil {
		return string(raw)
	}
	return string(mustText(v))
}
