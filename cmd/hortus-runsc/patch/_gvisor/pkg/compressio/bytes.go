package compressio

import "io"

// ReadByte reads a byte. It is for objects of package state, most of which are a few bytes: one
// call of Read for each byte takes longer than the decoding.
func (r *SimpleReader) ReadByte() (byte, error) {
	if r.h == nil {
		return r.bin.ReadByte()
	}
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}
