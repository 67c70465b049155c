package wire

import (
	"io"
	"unsafe"
)

// slabSize is the size of an allocation of a Slab, in bytes.
const slabSize = 16 << 10

// Slab allocates many values together. A restore reads an object, decodes it and does not use it
// again. If each were an allocation of its own, that would take more time than the decoding, and
// would leave gaps between the values that remain, which Go cannot give back to the host. The
// zero value is ready for use.
type Slab[T any] struct {
	values []T
	used   int // how many of values are in use
	kept   int // how many of them stay in use after Rewind
}

// New returns a value, which is zero until the first Rewind.
func (s *Slab[T]) New() *T { return &s.Slice(1)[0] }

// Slice returns n values, which are zero until the first Rewind.
func (s *Slab[T]) Slice(n int) []T {
	if n < 0 || n > len(s.values)-s.used {
		var v T
		count := slabSize / max(1, int(unsafe.Sizeof(v)))
		if n < 0 || n > count/4 {
			return make([]T, n)
		}
		s.values, s.used, s.kept = make([]T, count), 0, 0
	}
	s.used += n
	return s.values[s.used-n : s.used : s.used]
}

// Keep says that what was allocated stays in use.
func (s *Slab[T]) Keep() { s.kept = s.used }

// Rewind says that what was allocated since the last Keep is not used any more. The same memory is
// then allocated again, with what is in it.
func (s *Slab[T]) Rewind() { s.used = s.kept }

// slabs are what a Reader allocates.
type slabs struct {
	structs    Slab[Struct]
	refs       Slab[Ref]
	slices     Slab[Slice]
	interfaces Slab[Interface]
	arrays     Slab[Array]
	fields     Slab[multipleObjects]
	objects    Slab[Object]
}

// slab is a Slab of any type.
type slab interface {
	Keep()
	Rewind()
}

func (s *slabs) all() [7]slab {
	return [...]slab{&s.structs, &s.refs, &s.slices, &s.interfaces, &s.arrays, &s.fields, &s.objects}
}

// Keep says that all objects that were loaded stay in use.
func (r *Reader) Keep() {
	for _, s := range r.slabs.all() {
		s.Keep()
	}
}

// Rewind says that the objects that were loaded since the last Keep are not used any more. A caller
// that does not call it may use all objects as long as it likes.
func (r *Reader) Rewind() {
	for _, s := range r.slabs.all() {
		s.Rewind()
	}
}

// readsBytes reports whether single bytes can be read from bytes.
func (r *Reader) readsBytes() bool {
	if r.bytes == nil {
		r.bytes, _ = r.Reader.(io.ByteReader)
	}
	return r.bytes != nil
}
