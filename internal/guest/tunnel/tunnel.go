package tunnel

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	// Path is where a guest accepts streams.
	Path = "/hortus/stream"
	// Port is the port that a guest listens on.
	Port = 19816
	// HeaderProof has the proof of a side.
	HeaderProof = "Hortus-Proof"
	// MaxFrame is the maximum payload of a frame, in bytes. This package sends smaller ones; a proxy may join them.
	MaxFrame = 1 << 20

	maxSent = 32 << 10
)

// Side is an end of a tunnel. A host sends masked frames, as the client of a WebSocket.
type Side string

const (
	Host  Side = "host"
	Guest Side = "guest"
)

// Accept returns the Sec-WebSocket-Accept of a Sec-WebSocket-Key.
func Accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Proof returns what a side sends to prove that it knows the token.
func Proof(token []byte, side Side, key string) string {
	mac := hmac.New(sha256.New, token)
	io.WriteString(mac, string(side)+"\x00"+key)
	return hex.EncodeToString(mac.Sum(nil))
}

// Check reports whether a proof is that of a side.
func Check(proof string, token []byte, side Side, key string) bool {
	return hmac.Equal([]byte(proof), []byte(Proof(token, side, key)))
}

// The kinds of frames.
const (
	continuation = 0x0
	binaryFrame  = 0x2
	closeFrame   = 0x8
	ping         = 0x9
	pong         = 0xA
)

// Carry copies between a connection after its handshake and a local stream, until both directions have ended, one of
// them fails, or one of the two is closed. br reads from conn. A peer that has closed local reads as one that has sent
// everything; closed, unless it is nil, tells them apart. Carry closes both, and returns why, or nil.
func Carry(conn io.ReadWriteCloser, br *bufio.Reader, local *net.UnixConn, side Side, closed func() bool) error {
	w := &writer{w: conn, masked: side == Host, closed: closed}
	sent := make(chan error, 1)
	go func() {
		err := w.copy(local)
		if err != nil { // the other direction waits for a frame that cannot come
			conn.Close()
		}
		sent <- err
	}()
	err := receive(br, w, local)
	if err != nil {
		// A local peer reads the end; what it sends has nobody to receive it.
		local.Close()
		conn.Close()
	}
	serr := <-sent
	if err == nil {
		err = serr
	}
	conn.Close()
	local.Close()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// receive copies frames to local until the other side has sent everything, which it passes on. It returns io.EOF after a
// close frame.
func receive(br *bufio.Reader, w *writer, local *net.UnixConn) error {
	buf := make([]byte, maxSent)
	for {
		h, err := readHead(br)
		if err != nil {
			return err
		}
		switch h.kind {
		case binaryFrame, continuation:
			if h.size == 0 && h.kind == binaryFrame && h.final {
				return local.CloseWrite()
			}
			for at := 0; at < h.size; {
				part := buf[:min(len(buf), h.size-at)]
				if err := h.read(br, part, at); err != nil {
					return err
				}
				if _, err := local.Write(part); err != nil {
					return err
				}
				at += len(part)
			}
		case ping, pong, closeFrame:
			part := buf[:h.size]
			if err := h.read(br, part, 0); err != nil {
				return err
			}
			if h.kind == closeFrame {
				return io.EOF
			}
			if h.kind == ping {
				if err := w.frame(pong, part); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("the tunnel has a frame of the unknown kind %d", h.kind)
		}
	}
}

// head is the head of a frame.
type head struct {
	kind   byte
	final  bool
	size   int
	mask   [4]byte
	masked bool
}

// readHead reads the head of a frame.
func readHead(br *bufio.Reader) (h head, err error) {
	var b [8]byte
	if _, err := io.ReadFull(br, b[:2]); err != nil {
		return h, err
	}
	h.kind, h.final, h.masked = b[0]&0xF, b[0]&0x80 != 0, b[1]&0x80 != 0
	if b[0]&0x70 != 0 {
		return h, errors.New("the tunnel has a frame of an extension that nobody asked for")
	}
	size := uint64(b[1] & 0x7F)
	switch size {
	case 126:
		_, err = io.ReadFull(br, b[:2])
		size = uint64(binary.BigEndian.Uint16(b[:2]))
	case 127:
		_, err = io.ReadFull(br, b[:8])
		size = binary.BigEndian.Uint64(b[:8])
	}
	most := uint64(MaxFrame)
	if h.kind >= closeFrame {
		most = 125
	}
	if err == nil && size > most {
		err = fmt.Errorf("the tunnel has a frame of %d bytes; the maximum is %d", size, most)
	}
	if err == nil && h.masked {
		_, err = io.ReadFull(br, h.mask[:])
	}
	h.size = int(min(size, most))
	return h, err
}

// read reads a part of the payload, which begins at byte at of it.
func (h *head) read(br *bufio.Reader, part []byte, at int) error {
	if _, err := io.ReadFull(br, part); err != nil {
		return err
	}
	if h.masked {
		for i := range part {
			part[i] ^= h.mask[(at+i)&3]
		}
	}
	return nil
}

// writer writes frames, from several goroutines.
type writer struct {
	masked bool
	closed func() bool
	mu     sync.Mutex
	w      io.Writer
	buf    []byte
}

// copy sends what local has, and then the end.
func (w *writer) copy(local *net.UnixConn) error {
	buf := make([]byte, maxSent)
	for {
		n, err := local.Read(buf)
		if n > 0 {
			if werr := w.frame(binaryFrame, buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF && w.closed != nil && w.closed() {
			w.frame(closeFrame, nil)
			return io.EOF
		}
		if err == io.EOF {
			return w.frame(binaryFrame, nil)
		}
		if err != nil {
			return err
		}
	}
}

// frame writes a frame. The mask is a constant: it protects proxies from the pages of a browser, and there is none here.
func (w *writer) frame(kind byte, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	mask := [4]byte{0x68, 0x6f, 0x72, 0x74}
	bit := byte(0)
	if w.masked {
		bit = 0x80
	}
	b := append(w.buf[:0], 0x80|kind)
	if n := len(payload); n < 126 {
		b = append(b, bit|byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, bit|126), uint16(n))
	}
	if w.masked {
		b = append(b, mask[:]...)
	}
	start := len(b)
	b = append(b, payload...)
	if w.masked {
		for i := range b[start:] {
			b[start+i] ^= mask[i&3]
		}
	}
	w.buf = b
	_, err := w.w.Write(b)
	return err
}
