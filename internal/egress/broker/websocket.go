package broker

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"hortus.dev/internal/egress/web"
)

const extensions = "Sec-Websocket-Extensions"

// upgrades reports whether a request asks for another protocol. Package web allows WebSocket
// only.
func upgrades(r *http.Request) bool { return r.Header["Upgrade"] != nil }

// upgraded searches the messages of a connection whose request was answered with 101: those of
// the client for placeholders, and those of the server for values if there is a redactor.
func (f *flight) upgraded(resp *http.Response, red *redactor) (*http.Response, error) {
	if resp.Header[extensions] != nil {
		f.done(resp.StatusCode, 0)
		return nil, drop(resp, &web.Refusal{Failed: true, Reason: "the server uses an extension of WebSocket that was not asked for"})
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		f.done(resp.StatusCode, 0)
		return nil, drop(resp, errors.New("the connection of a WebSocket cannot be written"))
	}
	s := &socket{ReadWriteCloser: rw, f: f, once: &onceDone{f: f}, src: rw}
	if red != nil {
		s.src = newServerFrames(red, rw, func() { f.broke(resp.StatusCode, s.received.Load()) })
	}
	if (f.grant != nil || f.ruled != nil) && !f.s.opened(s) {
		s.Close()
		return nil, &web.Refusal{Reason: "the secret of the request was revoked"}
	}
	resp.Body = s
	return resp, nil
}

// socket is the server's end of a WebSocket connection. It reads the frames of both ends.
type socket struct {
	io.ReadWriteCloser
	f        *flight
	once     *onceDone
	src      io.Reader
	frames   frames
	refusal  error
	ending   sync.Once // at the end of the grant
	end      error
	received atomic.Int64
}

// Read implements io.Reader.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	if over := s.over(); over != nil {
		return 0, over
	}
	s.received.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (s *socket) Close() error {
	err := s.ReadWriteCloser.Close()
	s.f.s.ended(s)
	s.once.done(http.StatusSwitchingProtocols, s.received.Load())
	return err
}

// Write implements io.Writer. What completes a placeholder is not written.
func (s *socket) Write(p []byte) (int, error) {
	if s.refusal != nil {
		return 0, s.refusal
	}
	if over := s.over(); over != nil {
		return 0, over
	}
	found, why := s.frames.scan(p)
	switch {
	case found != "":
		s.refusal = s.f.misplaced(found, "a WebSocket message")
	case why != "":
		s.refusal = &web.Refusal{Reason: why}
	default:
		n, err := s.ReadWriteCloser.Write(p)
		s.f.sent.Add(int64(n))
		return n, err
	}
	s.Close()
	return 0, s.refusal
}

// CloseWrite closes the sending half.
func (s *socket) CloseWrite() error {
	if h, ok := s.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return http.ErrNotSupported
}

// frames searches the frames that a client sends (RFC 6455, section 5.2). Messages are searched
// as one stream: a placeholder is found in a message in fragments, between which there may be
// control frames, and also if it is divided between messages.
type frames struct {
	head    [14]byte
	n       int // bytes of head that there are
	left    uint64
	mask    [4]byte
	at      int // position in the mask
	control bool
	message scanner // text, binary and continuation frames
	signal  scanner // control frames
	plain   [1 << 10]byte
}

// scan reads the next bytes. It returns a placeholder that ends in them, or what is wrong.
func (f *frames) scan(p []byte) (found, why string) {
	for len(p) > 0 {
		if f.left == 0 {
			f.head[f.n] = p[0]
			f.n++
			p = p[1:]
			if why := f.begin(); why != "" {
				return "", why
			}
			continue
		}
		n := int(min(uint64(len(p)), f.left, uint64(len(f.plain))))
		for i, c := range p[:n] {
			f.plain[i] = c ^ f.mask[f.at&3]
			f.at++
		}
		p, f.left = p[n:], f.left-uint64(n)
		s := &f.message
		if f.control {
			s = &f.signal
		}
		if found := s.scan(f.plain[:n]); found != "" {
			return found, ""
		}
	}
	return "", ""
}

// begin reads the header of a frame once it is complete.
func (f *frames) begin() string {
	if f.n < 2 {
		return ""
	}
	if f.head[0]&0x70 != 0 {
		return "a WebSocket frame has an extension that was not agreed"
	}
	if f.head[1]&0x80 == 0 {
		return "a WebSocket frame of the client is not masked"
	}
	size, need := uint64(f.head[1]&0x7f), 6
	switch size {
	case 126:
		need = 8
	case 127:
		need = 14
	}
	if f.n < need {
		return ""
	}
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		if size = binary.BigEndian.Uint64(f.head[2:]); size>>63 != 0 {
			return "a WebSocket frame has a length that is not valid"
		}
	}
	copy(f.mask[:], f.head[need-4:need])
	f.n, f.at, f.left = 0, 0, size
	f.control = f.head[0]&0x08 != 0
	return ""
}
