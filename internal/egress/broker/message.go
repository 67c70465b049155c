package broker

import (
	"encoding/binary"
	"errors"
	"strings"
)

// messages finds the ends of the messages of gRPC and of Connect's streams: a flag, a length in four bytes,
// and the message. One that is complete is passed on, so that a client that answers it does not wait.
type messages struct {
	head [5]byte
	n    int // bytes of head that there are
	left uint32
}

// messagesOf returns how messages of a type are found; nil for another one.
func messagesOf(contentType string) *messages {
	t := strings.ToLower(contentType)
	if strings.HasPrefix(t, "application/grpc-web-text") {
		return nil // base64
	}
	if strings.HasPrefix(t, "application/grpc") || strings.HasPrefix(t, "application/connect+") {
		return &messages{}
	}
	return nil
}

var errCompressed = errors.New("a message is compressed, so that it cannot be searched for the value of a secret")

// next reads bytes, and returns how many of them are before the end of the last message that is complete.
func (m *messages) next(b []byte) (whole int, err error) {
	for at := 0; at < len(b); {
		if m.n < len(m.head) {
			m.head[m.n] = b[at]
			m.n++
			at++
			if m.n < len(m.head) {
				continue
			}
			if m.head[0]&1 != 0 {
				return whole, errCompressed
			}
			m.left = binary.BigEndian.Uint32(m.head[1:])
		}
		n := int(min(uint64(m.left), uint64(len(b)-at)))
		at += n
		if m.left -= uint32(n); m.left == 0 {
			m.n, whole = 0, at
		}
	}
	return whole, nil
}
