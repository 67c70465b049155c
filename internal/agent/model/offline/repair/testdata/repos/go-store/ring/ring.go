// Package ring is a queue of a fixed size that forgets what is oldest.
package ring

import "errors"

// ErrEmpty says that there is nothing to take.
var ErrEmpty = errors.New("ring: empty")

// Ring holds at most as many values as it was made for.
type Ring struct {
	values []int
	start  int
	count  int
}

// New makes an empty ring.
func New(size int) *Ring {
	return &Ring{values: make([]int, size)}
}

// Push adds a value, in place of the oldest one when the ring is full.
func (r *Ring) Push(v int) {
	end := (r.start + r.count) % len(r.values)
	r.values[end] = v
	if r.count < len(r.values) {
		r.count++
	} else {
		r.start = (r.start + 1) % len(r.values)
	}
}

// Pop takes the oldest value.
func (r *Ring) Pop() (int, error) {
	if r.count == 0 {
		return 0, ErrEmpty
	}
	v := r.values[r.start]
	r.start = (r.start + 1) % len(r.values)
	r.count--
	return v, nil
}

// Len is how many values there are.
func (r *Ring) Len() int { return r.count }

// All gives the values, the oldest first.
func (r *Ring) All() []int {
	out := make([]int, 0, r.count)
	for i := 0; i < r.count; i++ {
		out = append(out, r.values[(r.start+i)%len(r.values)])
	}
	return out
}
