package output

import "sync"

// BufferSize is the size of the buffers that output is read into, in bytes: a whole pipe.
const BufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, BufferSize); return &b }}

// GetBuffer returns a buffer for output. The caller gives it back with PutBuffer.
func GetBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer takes a buffer back.
func PutBuffer(b *[]byte) { buffers.Put(b) }
