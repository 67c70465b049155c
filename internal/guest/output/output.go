package output

import (
	"sync"

	"hortus.dev/api/envd"
)

// maxSegments is the maximum number of changes between streams in the kept output.
const maxSegments = 1 << 14

// ring keeps the last bytes of a command's output with their offsets. Its buffer grows to
// limit as needed.
type ring struct {
	limit int
	buf   []byte // circular: the byte at offset o is buf[o%len(buf)]
	start int64  // offset of the oldest kept byte
	end   int64  // offset after the newest
	segs  []segment
}

// segment is a run of output of one stream. It ends where the next begins.
type segment struct {
	out  envd.Output
	from int64
}

// append keeps p and drops the oldest bytes above the limit.
func (r *ring) append(out envd.Output, p []byte) {
	if len(p) == 0 {
		return
	}
	if n := len(r.segs); n == 0 || r.segs[n-1].out != out {
		r.segs = append(r.segs, segment{out, r.end})
	}
	if skip := len(p) - r.limit; skip > 0 {
		r.end += int64(skip)
		r.start = r.end
		p = p[skip:]
	}
	r.grow(int(r.end-r.start) + len(p))
	for len(p) > 0 {
		at := int(r.end % int64(len(r.buf)))
		n := copy(r.buf[at:], p)
		r.end += int64(n)
		p = p[n:]
	}
	r.start = max(r.start, r.end-int64(len(r.buf)))
	r.trim()
}

// grow enlarges the buffer for n bytes, up to the limit.
func (r *ring) grow(n int) {
	if n <= len(r.buf) || len(r.buf) == r.limit {
		return
	}
	size := max(4<<10, len(r.buf))
	for size < n {
		size *= 2
	}
	buf := make([]byte, min(size, r.limit))
	for o := r.start; o < r.end; {
		from := r.buf[int(o%int64(len(r.buf))):]
		if left := r.end - o; int64(len(from)) > left {
			from = from[:left]
		}
		c := copy(buf[int(o%int64(len(buf))):], from)
		o += int64(c)
	}
	r.buf = buf
}

// trim removes segments without kept bytes.
func (r *ring) trim() {
	if over := len(r.segs) - maxSegments; over > 0 {
		r.start = max(r.start, r.segs[over].from)
	}
	var n int
	for n+1 < len(r.segs) && r.segs[n+1].from <= r.start {
		n++
	}
	if n > 0 {
		r.segs = r.segs[:copy(r.segs, r.segs[n:])]
	}
}

// at returns bytes from offset on: those of one stream that are contiguous in the buffer. If
// offset is no longer kept, it starts at the oldest byte. The bytes are valid until the next
// append.
func (r *ring) at(offset int64) (out envd.Output, from int64, p []byte) {
	from = max(offset, r.start)
	if from >= r.end || len(r.buf) == 0 {
		return 0, from, nil
	}
	// The segment of from is the last one that begins at or before it.
	lo, hi := 0, len(r.segs)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; r.segs[mid].from <= from {
			lo = mid
		} else {
			hi = mid
		}
	}
	until := r.end
	if hi < len(r.segs) {
		until = r.segs[hi].from
	}
	at := int(from % int64(len(r.buf)))
	n := min(int(until-from), len(r.buf)-at)
	return r.segs[lo].out, from, r.buf[at : at+n]
}

// BufferSize is the size of the buffers that output is read into, in bytes: that of a pipe.
const BufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, BufferSize); return &b }}

// GetBuffer returns a buffer for output. The caller releases it with PutBuffer.
func GetBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer releases a buffer.
func PutBuffer(b *[]byte) { buffers.Put(b) }
