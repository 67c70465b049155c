package serial

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// Window is the maximum number of bytes of a stream that were sent and not passed on, in each direction.
	Window = 256 << 10
	// MaxPacket is the maximum size of a packet of the host, in bytes, and MaxReport that of a packet of the machine.
	MaxPacket = 160 << 10
	MaxReport = 8 << 10

	maxData  = 32 << 10
	headSize = 8
)

// The kinds of frames.
const (
	padding = iota // one byte, without the rest of a head
	hello
	open   // of the host
	data   // bytes of a stream
	credit // 4 bytes: how many bytes were passed on
	end    // no more data follow in this direction
	closed // no more data follow in either direction
	packet
)

// frame is a received frame. The payload is valid until the next one is read.
type frame struct {
	kind    byte
	stream  uint32
	payload []byte
}

// errProtocol is why a link with an end that breaks the protocol is closed.
var errProtocol = errors.New("the other end of the serial link broke its protocol")

// Violation reports whether an error of a link says that its other end broke the protocol.
func Violation(err error) bool { return errors.Is(err, errProtocol) }

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, args...))
}

// maxPayload is the maximum payload of a kind, in bytes.
func maxPayload(kind byte, host bool) int {
	switch kind {
	case hello:
		return helloSize
	case data:
		return maxData
	case credit:
		return 4
	case packet:
		if host { // receives
			return MaxReport
		}
		return MaxPacket
	}
	return 0
}

// readFrame reads a frame, whose payload is in buf.
func readFrame(br *bufio.Reader, buf []byte, host bool) (f frame, err error) {
	var h [headSize]byte
	if h[0], err = br.ReadByte(); err != nil || h[0] == padding {
		return f, err
	}
	if _, err := io.ReadFull(br, h[1:]); err != nil {
		return f, err
	}
	f.kind, f.stream = h[0], binary.BigEndian.Uint32(h[4:])
	n := int(h[1])<<16 | int(h[2])<<8 | int(h[3])
	if f.kind > packet || n > maxPayload(f.kind, host) {
		return f, violation("a frame of the kind %d has %d bytes", f.kind, n)
	}
	f.payload = buf[:n]
	_, err = io.ReadFull(br, f.payload)
	return f, err
}

// appendFrame appends a frame.
func appendFrame(b []byte, kind byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, kind, byte(n>>16), byte(n>>8), byte(n))
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}
