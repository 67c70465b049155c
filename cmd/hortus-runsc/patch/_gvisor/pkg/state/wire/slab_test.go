package wire

import (
	"bytes"
	"io"
	"reflect"
	"testing"
)

// TestSlab: values are zero and apart until they are given up, and what is kept is never given again.
func TestSlab(t *testing.T) {
	var s Slab[[100]int]
	first, more := s.New(), s.Slice(3)
	first[0], more[2][0] = 1, 2
	s.Keep()
	second := s.New()
	if *second != [100]int{} || len(more) != 3 || cap(more) != 3 {
		t.Fatalf("a new value is %v, of three there are %d in %d", second[0], len(more), cap(more))
	}
	second[0] = 3
	s.Rewind()
	if third := s.New(); third != second || third[0] != 3 {
		t.Error("the memory of the value that was given up is not used again")
	}
	if first[0] != 1 || more[2][0] != 2 {
		t.Error("values that were kept have changed")
	}
	// Over the end of an allocation, again and again: a value that is kept stays.
	kept := map[*[100]int]int{}
	for i := range 1000 {
		p := s.New()
		if _, twice := kept[p]; twice {
			t.Fatalf("value %d is one that was kept", i)
		}
		if p[1] = i; i%3 == 0 {
			kept[p] = i
			s.Keep()
		} else {
			s.Rewind()
		}
	}
	for p, i := range kept {
		if p[1] != i {
			t.Fatalf("value %d has the content of %d", i, p[1])
		}
	}
	if n := len(s.Slice(100_000)); n != 100_000 {
		t.Errorf("of 100000 values there are %d", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("fewer than no values are allocated")
		}
	}()
	s.Slice(-1)
}

// TestReader: objects are the same from readers with and without single bytes, and do not change while they are
// kept.
func TestReader(t *testing.T) {
	object := func(n int) Object {
		many := make([]Object, n%700+1)
		for i := range many {
			many[i] = Uint(i * n)
		}
		s := &Struct{TypeID: TypeID(n)}
		s.Alloc(4)
		*s.Field(0) = &Ref{Root: Uint(n), Dots: []Dot{Index(n)}, Type: TypeID(n)}
		*s.Field(1) = &Slice{Length: 1, Capacity: Uint(n), Ref: Ref{Root: 3}}
		*s.Field(2) = &Interface{Type: TypeID(n), Value: Int(-n)}
		*s.Field(3) = &Array{Contents: many}
		return s
	}
	var b bytes.Buffer
	const count = 2000
	for n := range count {
		Save(&Writer{Writer: &b}, object(n))
	}
	for name, from := range map[string]io.Reader{
		"bytes":    bytes.NewReader(b.Bytes()),
		"no bytes": struct{ io.Reader }{bytes.NewReader(b.Bytes())},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reader{Reader: from}
			kept := map[int]Object{}
			for n := range count {
				got := Load(r)
				if !reflect.DeepEqual(got, object(n)) {
					t.Fatalf("object %d is %#v", n, got)
				}
				if n%7 == 0 {
					kept[n] = got
					r.Keep()
				} else {
					r.Rewind()
				}
			}
			for n, got := range kept {
				if !reflect.DeepEqual(got, object(n)) {
					t.Fatalf("object %d became %#v", n, got)
				}
			}
		})
	}
}
