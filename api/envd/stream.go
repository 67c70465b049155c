package envd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"

	"hortus.dev/api"
)

// isEnd reports whether err is the end of a connection, and not a timeout or a
// malformed answer.
func isEnd(err error) bool {
	return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// stream is the receiving half of a server stream.
type stream struct {
	c    *Client
	cc   *clientConn
	ctx  context.Context
	stop func() bool
	resp *http.Response
	err  error // what Next gives from now on
}

// openStream sends a request with one frame and waits for the answer's head.
func (c *Client) openStream(ctx context.Context, path string, in Message, extra []header) (*stream, error) {
	if err := checkText(in); err != nil {
		return nil, err
	}
	cc, err := c.get(ctx, false)
	if err != nil {
		return nil, err
	}
	var scratch [512]byte
	body, err := AppendFrame(scratch[:0], Proto, in)
	if err == nil {
		cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodPost, path, TypeStreamProto, len(body), extra)
	}
	if err != nil {
		cc.Close()
		return nil, err
	}
	cc.wbuf = append(cc.wbuf, body...)
	s := &stream{c: c, cc: cc, ctx: ctx, stop: watch(ctx, cc)}
	s.resp, err = c.exchange(ctx, cc, http.MethodPost)
	if err != nil {
		s.stop()
		cc.Close()
		if errors.Is(err, errStale) {
			err = api.Errorf(api.KindUnavailable, "the connection to the guest was closed before it answered")
		}
		return nil, err
	}
	if s.resp.StatusCode != http.StatusOK {
		err := readError(s.resp)
		s.release()
		return nil, err
	}
	if _, ok := CodecOf(s.resp.Header.Get("Content-Type"), true); !ok {
		s.stop()
		cc.Close()
		return nil, api.Errorf(api.KindUnavailable, "the answer is not from a guest: its content type is %q", clip(s.resp.Header.Get("Content-Type")))
	}
	cc.fr.R, cc.fr.Max = s.resp.Body, c.cfg.MaxFrame
	return s, nil
}

// next decodes the next frame into m.
func (s *stream) next(m Message) error {
	if s.err != nil {
		return s.err
	}
	flags, payload, err := s.cc.fr.Next()
	switch {
	case err != nil:
		s.fail(cut(s.ctx, err))
	case flags&FlagEnd != 0:
		if e := ParseEnd(payload); e != nil {
			s.err = e
		} else {
			s.err = io.EOF
		}
		s.release()
	default:
		if err := Decode(payload, Proto, m); err != nil {
			s.fail(api.Errorf(api.KindInternal, "the guest's event: %w", err))
		}
	}
	return s.err
}

func (s *stream) fail(err error) {
	s.err = err
	s.stop()
	if s.cc != nil {
		s.cc.Close()
		s.cc = nil
	}
}

// release returns the connection to the pool after the stream's clean end.
func (s *stream) release() {
	cc := s.cc
	s.cc = nil
	if !s.stop() {
		cc.Close()
		return
	}
	s.c.finish(cc, s.resp)
}

// Close leaves the stream. It is idempotent.
func (s *stream) Close() error {
	if s.cc != nil {
		s.fail(api.Errorf(api.KindCanceled, "the stream was closed"))
	}
	return nil
}
