package vector_test

import (
	"bytes"
	"math"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/vector"
)

func TestCheck(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		name string
		v    []float32
		ok   bool
	}{
		{"one", []float32{1}, true},
		{"zeros", []float32{0, 0}, true},
		{"the largest", make([]float32, vector.MaxDimension), true},
		{"none", nil, false},
		{"too many", make([]float32, vector.MaxDimension+1), false},
		{"not a number", []float32{1, nan}, false},
		{"infinite", []float32{inf, 1}, false},
	} {
		err := vector.Check(c.v)
		if (err == nil) != c.ok || !c.ok && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", c.name, err)
		}
		got, derr := vector.Decode(vector.Encode(c.v))
		if (derr == nil) != c.ok || c.ok && len(got) != len(c.v) {
			t.Errorf("%s: stored: %d numbers, %v", c.name, len(got), derr)
		}
	}
	if got := vector.Encode([]float32{1, -2}); !bytes.Equal(got, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}) {
		t.Errorf("% x", got)
	}
}

func TestCosine(t *testing.T) {
	huge, tiny := float32(math.MaxFloat32), float32(math.SmallestNonzeroFloat32)
	for _, c := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{1, 0}, []float32{2, 0}, 1},
		{[]float32{1, 0}, []float32{0, 3}, 0},
		{[]float32{1, 1}, []float32{-2, -2}, -1},
		{[]float32{3, 4}, []float32{3, 0}, 0.6},
		{[]float32{huge, huge}, []float32{huge, huge}, 1},
		{[]float32{tiny, tiny}, []float32{huge, huge}, 1},
		{[]float32{0, 0}, []float32{1, 1}, 0},
		{[]float32{1}, []float32{1, 1}, 0},
		{nil, nil, 0},
	} {
		if got := vector.Cosine(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// FuzzDecode holds that whatever is decoded can be used, and is stored as the same bytes again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0x3f})
	f.Add([]byte{0, 0, 0xc0, 0x7f, 1, 2, 3, 4}) // not a number
	f.Add([]byte{1, 2, 3})
	f.Add([]byte{})
	f.Add(make([]byte, 4*vector.MaxDimension+4))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := vector.Decode(b)
		if err != nil {
			if v != nil || api.KindOf(err) != api.KindInvalid {
				t.Fatal(v, err)
			}
			return
		}
		if err := vector.Check(v); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(vector.Encode(v), b) {
			t.Fatalf("% x is stored as % x", b, vector.Encode(v))
		}
		if c := vector.Cosine(v, v); c != 0 && math.Abs(c-1) > 1e-6 {
			t.Fatalf("a vector and itself: %v", c)
		}
	})
}
