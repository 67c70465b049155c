// Package vector has vectors of numbers as embedding models make them: what one may be, how one is stored, and how
// alike two are.
//
//	if err := vector.Check(v); err != nil { ... }
//	stored := vector.Encode(v)
//	...
//	v, err := vector.Decode(stored)
//	alike := vector.Cosine(v, query) // 1 for the same direction
//
// A vector is a slice of its owner's; the package keeps none. It must not know what a vector stands for, or where it
// is from.
package vector
