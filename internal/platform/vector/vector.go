package vector

import (
	"encoding/binary"
	"math"

	"hortus.dev/api"
)

// MaxDimension is the most numbers that a vector may have.
const MaxDimension = 4096

// Check reports why a vector cannot be used: it has no numbers or too many, or one of them is not finite. The error
// is of KindInvalid.
func Check(v []float32) error {
	if len(v) == 0 || len(v) > MaxDimension {
		return api.Errorf(api.KindInvalid, "a vector of %d numbers: there must be 1 to %d", len(v), MaxDimension)
	}
	for i, x := range v {
		if x64 := float64(x); math.IsNaN(x64) || math.IsInf(x64, 0) {
			return api.Errorf(api.KindInvalid, "number %d of a vector of %d is not finite", i+1, len(v))
		}
	}
	return nil
}

// Encode is the stored form: IEEE 754 numbers of 32 bits, little endian.
func Encode(v []float32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// Decode reads the stored form. The error is of KindInvalid.
func Decode(b []byte) ([]float32, error) {
	if len(b)%4 != 0 || len(b) > 4*MaxDimension {
		return nil, api.Errorf(api.KindInvalid, "a stored vector of %d bytes: there must be four for each number, and at most %d", len(b), 4*MaxDimension)
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	if err := Check(v); err != nil {
		return nil, err
	}
	return v, nil
}

// Cosine is the cosine of the angle between two vectors, from -1 to 1. It is 0 if one of them has no direction, or if
// they have not the same dimension.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	// One root of each: their product could be too large or too small for a number.
	return max(-1, min(1, ab/math.Sqrt(aa)/math.Sqrt(bb)))
}
