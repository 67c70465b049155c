package rpc

import (
	"net/http"

	"hortus.dev/api/envd"
)

// chunkHead is the size of a chunk's head: eight hexadecimal digits and a line break. HTTP
// allows leading zeros, so the head is filled in when the chunk is sent.
const chunkHead = 10

// flushAt is the buffer size, in bytes, at which Full reports true.
const flushAt = 64 << 10

// Stream buffers the frames of a streamed answer, so that the head, several frames and the
// end are sent with one write.
type Stream struct {
	c     *Conn
	codec envd.Codec
	buf   []byte
	chunk int // offset of the current chunk's head in buf
	empty bool
}

// Begin starts a streamed answer. Nothing is sent yet.
func (c *Conn) Begin(codec envd.Codec) *Stream {
	o := &c.out
	o.c, o.codec = c, codec
	o.buf = c.appendHead(o.buf[:0], http.StatusOK, codec.ContentType(true), -1)
	o.open()
	return o
}

// open starts a chunk.
func (o *Stream) open() {
	o.chunk = len(o.buf)
	o.buf = append(o.buf, "00000000\r\n"...)
	o.empty = true
}

// Message adds a frame.
func (o *Stream) Message(m envd.Message) error {
	b, err := envd.AppendFrame(o.buf, o.codec, m)
	o.buf, o.empty = b, false
	return err
}

// Data adds a frame with output.
func (o *Stream) Data(out envd.Output, offset int64, p []byte) error {
	if !o.c.hortus {
		offset = 0
	}
	if o.codec == envd.Proto {
		o.buf = envd.AppendDataHead(o.buf, out, offset, len(p))
		o.buf = append(o.buf, p...)
		o.empty = false
		return nil
	}
	d := &envd.DataEvent{Offset: offset}
	switch out {
	case envd.OutputStdout:
		d.Stdout = p
	case envd.OutputStderr:
		d.Stderr = p
	case envd.OutputPTY:
		d.PTY = p
	}
	return o.Message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Data: d}})
}

// Full reports whether the caller should flush.
func (o *Stream) Full() bool { return len(o.buf) >= flushAt }

// Flush sends the buffer.
func (o *Stream) Flush() error {
	if o.empty {
		return nil
	}
	o.seal()
	err := o.send()
	o.open()
	return err
}

// seal writes the length and the closing line break of the chunk.
func (o *Stream) seal() {
	const digits = "0123456789abcdef"
	n := len(o.buf) - o.chunk - chunkHead
	for i := 7; i >= 0; i-- {
		o.buf[o.chunk+i] = digits[n&15]
		n >>= 4
	}
	o.buf = append(o.buf, "\r\n"...)
}

func (o *Stream) send() error {
	_, err := o.c.Write(o.buf)
	if cap(o.buf) > 256<<10 {
		o.buf = nil
	}
	o.buf = o.buf[:0]
	return err
}

// Finish sends the buffer and the end of the stream; e is nil for success.
func (o *Stream) Finish(e *envd.Error) error {
	o.buf = envd.AppendEnd(o.buf, e)
	o.seal()
	o.buf = append(o.buf, "0\r\n\r\n"...)
	return o.send()
}
