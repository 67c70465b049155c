package serial

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Hello is what a host says when it connects.
type Hello struct {
	// Now is the host's time. Seed are fresh random bytes for the kernel of the machine, which may be a copy of another.
	Now  time.Time
	Seed [32]byte
}

const (
	magic     = "hortus serial 1\n"
	nonceSize = 16
	helloSize = len(magic) + nonceSize + 8 + 32
	replySize = headSize + len(magic) + nonceSize
)

// sayHello returns what a host sends first, and the answer to it.
func sayHello() (sent, answer []byte) {
	p := make([]byte, helloSize)
	copy(p, magic)
	rand.Read(p[len(magic):])
	binary.BigEndian.PutUint64(p[len(magic)+nonceSize:], uint64(time.Now().UnixNano()))
	sent = appendFrame(make([]byte, headSize+MaxPacket), hello, 0, p)
	return sent, answerTo(p)
}

// answerTo returns the frame that answers a hello.
func answerTo(p []byte) []byte { return appendFrame(nil, hello, 0, p[:len(magic)+nonceSize]) }

// parseHello parses the payload of a host's hello.
func parseHello(p []byte) (h Hello, err error) {
	if len(p) != helloSize || string(p[:len(magic)]) != magic {
		return h, fmt.Errorf("the host speaks another version of the serial link")
	}
	p = p[len(magic)+nonceSize:]
	h.Now = time.Unix(0, int64(binary.BigEndian.Uint64(p)))
	copy(h.Seed[:], p[8:])
	return h, nil
}

// skipTo reads until an answer was read.
func skipTo(br *bufio.Reader, answer []byte) error {
	for {
		b, err := br.Peek(len(answer))
		if err != nil {
			return noEOF(err)
		}
		if b, err = br.Peek(br.Buffered()); err != nil {
			return noEOF(err)
		}
		if i := bytes.Index(b, answer); i >= 0 {
			_, err := br.Discard(i + len(answer))
			return err
		}
		if _, err := br.Discard(len(b) - len(answer) + 1); err != nil {
			return noEOF(err)
		}
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
