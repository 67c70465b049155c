package output

import "sync"

// BufferSize is the size of the buffers that output is read into, in bytes: that of a pipe.
const BufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, BufferSize); return &b }}

// GetBuffer returns a buffer for output. The caller releases it with PutBuffer.
func GetBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer releases a buffer.
func PutBuffer(b *[]byte) { buffers.Put(b) }
