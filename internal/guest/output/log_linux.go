package output

import (
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxReaders is the maximum number of readers and reservations of one command.
	maxReaders = 64
	// reservationTTL is how long output stays reserved for a client after the client can
	// read it again.
	reservationTTL = 10 * time.Second
)

// Log keeps the last output of one command for readers. A reader or a reservation that is
// too far behind makes the writer wait, which slows down the command.
type Log struct {
	mu    sync.Mutex
	space sync.Cond // a reader advanced or left
	ring  ring
	subs  map[*Reader]struct{}
	// clients expires the reservations for clients, and host those for the clients of a
	// host that died.
	clients, host *time.Timer
	end           *envd.EndEvent
}

// Reader reads a log at its own pace.
type Reader struct {
	log  *Log
	at   int64
	wake chan struct{} // of length 1
	// reserved is true for a reservation: output is kept for a client that reconnects.
	reserved bool
	// ofHost is true for a reservation for the clients of a host that died.
	ofHost bool
}

// NewLog returns a log that keeps up to limit bytes.
func NewLog(limit int) *Log {
	l := &Log{ring: ring{limit: limit}, subs: make(map[*Reader]struct{})}
	l.space.L = &l.mu
	return l
}

// Limit returns the maximum number of bytes that the log keeps.
func (l *Log) Limit() int { return l.ring.limit }

// Append adds output, wakes the readers and returns the offset of the first byte. It blocks
// while that would drop output that a reader still needs. If hasClient is true, it does not
// wait for reservations: the caller must notice when its own client ends the connection.
func (l *Log) Append(out envd.Output, data []byte, hasClient bool) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.wouldOverrun(len(data), hasClient) {
		l.space.Wait()
	}
	from := l.ring.end
	l.ring.append(out, data)
	l.notify()
	return from
}

// wouldOverrun reports whether n more bytes would drop some that a reader still needs. Half
// of the log keeps what a reader has read but its client may not have received: the client
// needs it again if its connection is ended; see Reserve.
func (l *Log) wouldOverrun(n int, hasClient bool) bool {
	for r := range l.subs {
		room := int64(l.ring.limit / 2)
		if r.reserved {
			room = int64(l.ring.limit)
		}
		if (!r.reserved || !hasClient) && l.ring.end+int64(n)-r.at > room && r.at < l.ring.end {
			return true
		}
	}
	return false
}

func (l *Log) notify() {
	for r := range l.subs {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Finish records the command's end, after the last output.
func (l *Log) Finish(end *envd.EndEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
	l.notify()
}

// Forget drops the output. The end event and the offsets are kept.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring.buf, l.ring.segs, l.ring.start = nil, nil, l.ring.end
}

// Size returns the memory of the kept output, in bytes.
func (l *Log) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ring.buf)
}

// End returns the offset after the newest byte.
func (l *Log) End() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ring.end
}

// Subscribe attaches a reader at an offset; -1 means after the newest byte. record is true
// if the reader is the command's host, which reads for the record, not for its clients.
// The caller must call Close.
func (l *Log) Subscribe(offset int64, record bool) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset >= 0 {
		l.claim(offset, record)
	}
	if len(l.subs) >= maxReaders {
		return nil, api.Errorf(api.KindExhausted, "%d clients are already attached to it", maxReaders)
	}
	if offset > l.ring.end {
		return nil, api.Errorf(api.KindInvalid, "offset %d is beyond the end of the output (%d bytes)", offset, l.ring.end)
	}
	fromNow := offset < 0
	if fromNow {
		offset = l.ring.end
	}
	r := l.add(Reader{at: offset})
	switch {
	case record:
		l.expireHost()
	case !fromNow:
		l.claimOfHost(r)
	}
	return r, nil
}

// add adds a reader, at the oldest byte or later. The caller holds the lock.
func (l *Log) add(r Reader) *Reader {
	r.log, r.at, r.wake = l, max(r.at, l.ring.start), make(chan struct{}, 1)
	l.subs[&r] = struct{}{}
	return &r
}

// remove removes the readers that match. The caller holds the lock.
func (l *Log) remove(match func(*Reader) bool) {
	for r := range l.subs {
		if match(r) {
			delete(l.subs, r)
		}
	}
	l.space.Broadcast()
}

// Close detaches the reader.
func (r *Reader) Close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	delete(r.log.subs, r)
	r.log.space.Broadcast()
}

// Offset returns the offset of the next byte that Read returns. It must not be called during
// Read.
func (r *Reader) Offset() int64 { return r.at }

// Ready returns a channel that receives a value when there is more to read.
func (r *Reader) Ready() <-chan struct{} { return r.wake }

// Read copies kept output into buf: n bytes of the stream out, the first of which has the
// offset from. If n is 0 and the command has ended, end is its end event.
func (r *Reader) Read(buf []byte) (out envd.Output, from int64, n int, end *envd.EndEvent) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	out, from, data := l.ring.at(r.at)
	n = copy(buf, data)
	r.at = from + int64(n)
	if n == 0 {
		return out, from, 0, l.end
	}
	l.space.Broadcast()
	return out, from, n, nil
}
