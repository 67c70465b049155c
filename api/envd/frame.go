package envd

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxFrame bounds a frame's payload, in bytes, unless a reader sets
// otherwise.
const DefaultMaxFrame = 4 << 20

// HeadLen is the length of a frame's envelope: a flag byte and a big-endian
// uint32.
const HeadLen = 5

// FlagEnd marks the last frame of a stream.
const FlagEnd = 0x02

const flagCompressed = 0x01

var errCompressed = errors.New("unexpected compressed frame")

// FrameReader reads the frames of a stream, each bounded.
type FrameReader struct {
	R   io.Reader
	Max int // bytes; 0 means DefaultMaxFrame
	buf []byte
	hdr [HeadLen]byte
}

// Next reads a frame. The payload is valid until the next call. A stream that
// ends between frames gives io.EOF, one that is cut inside io.ErrUnexpectedEOF.
func (f *FrameReader) Next() (flags byte, payload []byte, err error) {
	if _, err := io.ReadFull(f.R, f.hdr[:]); err != nil {
		return 0, nil, err
	}
	limit := f.Max
	if limit <= 0 {
		limit = DefaultMaxFrame
	}
	flags, n := f.hdr[0], binary.BigEndian.Uint32(f.hdr[1:])
	if flags&flagCompressed != 0 {
		return flags, nil, errCompressed
	}
	if uint64(n) > uint64(limit) {
		return flags, nil, fmt.Errorf("a frame of %d bytes; the maximum is %d", n, limit)
	}
	if cap(f.buf) < int(n) {
		f.buf = make([]byte, n)
	}
	payload = f.buf[:n]
	if _, err := io.ReadFull(f.R, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return flags, nil, err
	}
	return flags, payload, nil
}

// AppendFrame writes m in its envelope behind b.
func AppendFrame(b []byte, c Codec, m Message) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0)
	out, err := Append(b, c, m)
	if err != nil {
		return b[:start], err
	}
	binary.BigEndian.PutUint32(out[start+1:], uint32(len(out)-start-HeadLen))
	return out, nil
}

// AppendEnd writes the last frame of a stream: e is nil for a clean end.
func AppendEnd(b []byte, e *Error) []byte {
	payload := []byte("{}")
	if e != nil {
		payload, _ = json.Marshal(struct { // cannot fail: two strings
			Error *Error `json:"error"`
		}{e})
	}
	b = append(b, FlagEnd)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// ParseEnd reads the payload of the last frame: nil for a clean end.
func ParseEnd(payload []byte) *Error {
	var end struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(payload, &end); err != nil {
		return &Error{Code: CodeInternal, Message: "the last frame of the stream is not JSON"}
	}
	if len(end.Error) == 0 || string(end.Error) == "null" {
		return nil
	}
	return parseError(end.Error, CodeUnknown)
}

// Output is which stream of a process some bytes belong to. The values are
// the fields of [DataEvent].
type Output byte

const (
	OutputStdout Output = 1
	OutputStderr Output = 2
	OutputPTY    Output = 3
)

// AppendDataHead writes what stands before n bytes of output in a frame of
// ProcessResponse{Event{Data}}: envelope included, the bytes themselves not.
// It lets a sender of much output send the bytes from where they are. An offset
// below 0 is left out.
func AppendDataHead(b []byte, out Output, offset int64, n int) []byte {
	var inner [32]byte // DataEvent up to its bytes
	d := inner[:0]
	if offset > 0 {
		d = appendUint(d, 1001, uint64(offset))
	}
	d = appendVarint(appendTag(d, int(out), wireBytes), uint64(n))
	dataLen := len(d) + n
	eventLen := 1 + varintLen(dataLen) + dataLen
	frameLen := 1 + varintLen(eventLen) + eventLen
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(frameLen))
	b = appendVarint(appendTag(b, 1, wireBytes), uint64(eventLen))
	b = appendVarint(appendTag(b, 2, wireBytes), uint64(dataLen))
	return append(b, d...)
}

func varintLen(n int) int {
	l := 1
	for ; n >= 0x80; n >>= 7 {
		l++
	}
	return l
}
