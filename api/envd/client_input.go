package envd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"hortus.dev/api"
)

// inputFrame is how many bytes of input one frame carries.
const inputFrame = 64 << 10

// StreamInput opens a stream to a process's input, for much of it. Write waits
// while the process does not read. Close ends the stream and gives the guest's
// verdict; the process's input stays open until CloseStdin.
func (c *Client) StreamInput(ctx context.Context, sel Selector) (io.WriteCloser, error) {
	if err := checkSelector(&sel); err != nil {
		return nil, err
	}
	cc, err := c.get(ctx, false)
	if err != nil {
		return nil, err
	}
	cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodPost, ProcStreamInput, TypeStreamProto, -1,
		[]header{connectHeader, versionHeader})
	if err != nil {
		cc.Close()
		return nil, err
	}
	first, _ := AppendFrame(nil, Proto, &StreamInputRequest{Start: &StreamInputStart{Process: &sel}})
	cc.wbuf = appendChunk(cc.wbuf, first)
	w := &inputWriter{c: c, cc: cc, ctx: ctx, stop: watch(ctx, cc)}
	if _, err := cc.Write(cc.wbuf); err != nil {
		stop := w.stop
		stop()
		cc.Close()
		return nil, cut(ctx, err)
	}
	return w, nil
}

func appendChunk(b, p []byte) []byte {
	b = strconv.AppendInt(b, int64(len(p)), 16)
	b = append(b, "\r\n"...)
	b = append(b, p...)
	return append(b, "\r\n"...)
}

type inputWriter struct {
	c    *Client
	cc   *clientConn
	ctx  context.Context
	stop func() bool
	err  error
}

func (w *inputWriter) Write(p []byte) (int, error) {
	var done int
	for len(p) > 0 {
		if w.err != nil {
			return done, w.err
		}
		n := min(len(p), inputFrame)
		if _, err := w.cc.Write(w.chunk(p[:n])); err != nil {
			// The guest refused, most likely: its answer says why.
			w.err = w.answer(err)
			return done, w.err
		}
		p, done = p[n:], done+n
	}
	return done, nil
}

// chunk writes a frame with the bytes once into the connection's buffer.
func (w *inputWriter) chunk(p []byte) []byte {
	var head [32]byte
	stdin := appendVarint(appendTag(head[:0], 1, wireBytes), uint64(len(p)))
	input := len(stdin) + len(p)
	data := 1 + varintLen(input) + input
	frame := 1 + varintLen(data) + data
	b := strconv.AppendInt(w.cc.wbuf[:0], int64(HeadLen+frame), 16)
	b = append(b, "\r\n\x00"...)
	b = binary.BigEndian.AppendUint32(b, uint32(frame))
	b = appendVarint(appendTag(b, 2, wireBytes), uint64(data))
	b = appendVarint(appendTag(b, 2, wireBytes), uint64(input))
	b = append(b, stdin...)
	b = append(b, p...)
	w.cc.wbuf = append(b, "\r\n"...)
	return w.cc.wbuf
}

// answer reads the guest's verdict and gives the connection back or closes it.
// cause is why the writing ended, nil when it was complete.
func (w *inputWriter) answer(cause error) error {
	cc := w.cc
	w.cc = nil
	resp, err := w.c.readHead(cc, http.MethodPost)
	if err != nil {
		w.stop()
		cc.Close()
		if cause != nil {
			err = cause
		}
		return cut(w.ctx, err)
	}
	verdict := w.verdict(cc, resp)
	if !w.stop() || cause != nil {
		cc.Close()
	} else {
		w.c.finish(cc, resp)
	}
	if verdict == nil && cause != nil {
		verdict = cut(w.ctx, cause)
	}
	return verdict
}

func (w *inputWriter) verdict(cc *clientConn, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	cc.fr.R, cc.fr.Max = resp.Body, w.c.cfg.MaxFrame
	for {
		flags, payload, err := cc.fr.Next()
		if err != nil {
			return cut(w.ctx, err)
		}
		if flags&FlagEnd != 0 {
			if e := ParseEnd(payload); e != nil {
				return e
			}
			return nil
		}
	}
}

// Close ends the stream and waits for the guest's verdict.
func (w *inputWriter) Close() error {
	if w.cc == nil {
		if w.err != nil && !errors.Is(w.err, errInputClosed) {
			return w.err
		}
		return nil
	}
	_, err := w.cc.Write([]byte("0\r\n\r\n"))
	err = w.answer(err)
	w.err = errInputClosed
	return err
}

var errInputClosed = api.Errorf(api.KindConflict, "the input stream is closed")

var _ fmt.Stringer = Output(0)

// String names the stream.
func (o Output) String() string {
	switch o {
	case OutputStdout:
		return "stdout"
	case OutputStderr:
		return "stderr"
	case OutputPTY:
		return "pty"
	}
	return "none"
}
