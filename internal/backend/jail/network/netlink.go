package network

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// headerSize is the size of a netlink message's header, in bytes.
const headerSize = unix.SizeofNlMsghdr

// answerTimeout is the maximum wait for the kernel, in seconds. It answers at once.
const answerTimeout = 5

// batch is a sequence of netlink messages.
type batch struct {
	b    []byte
	seq  uint32
	last int // offset of the last message
}

// message appends a message. Attributes are added by body.
func (b *batch) message(kind, flags uint16, head []byte, body func()) {
	start := len(b.b)
	b.last = start
	b.seq++
	b.b = append(b.b, make([]byte, headerSize)...)
	h := b.b[start:]
	binary.NativeEndian.PutUint16(h[4:], kind)
	binary.NativeEndian.PutUint16(h[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(h[8:], b.seq)
	b.b = append(b.b, head...)
	if body != nil {
		body()
	}
	binary.NativeEndian.PutUint32(b.b[start:], uint32(len(b.b)-start))
}

// begin begins an attribute, and end sets its size.
func (b *batch) begin(kind uint16) (start int) {
	start = len(b.b)
	b.b = append(b.b, 0, 0, 0, 0)
	binary.NativeEndian.PutUint16(b.b[start+2:], kind)
	return start
}

func (b *batch) end(start int) {
	binary.NativeEndian.PutUint16(b.b[start:], uint16(len(b.b)-start))
	for len(b.b)%unix.NLA_ALIGNTO != 0 {
		b.b = append(b.b, 0)
	}
}

// nest appends an attribute that contains others.
func (b *batch) nest(kind uint16, body func()) {
	start := b.begin(kind | unix.NLA_F_NESTED)
	body()
	b.end(start)
}

func (b *batch) bytes(kind uint16, p ...byte) {
	start := b.begin(kind)
	b.b = append(b.b, p...)
	b.end(start)
}

// text appends a string with its final zero.
func (b *batch) text(kind uint16, s string) {
	start := b.begin(kind)
	b.b = append(append(b.b, s...), 0)
	b.end(start)
}

// number and number64 append numbers in network byte order, native32 one in the host's.
func (b *batch) number(kind uint16, n uint32) {
	start := b.begin(kind)
	b.b = binary.BigEndian.AppendUint32(b.b, n)
	b.end(start)
}

func (b *batch) number64(kind uint16, n uint64) {
	start := b.begin(kind)
	b.b = binary.BigEndian.AppendUint64(b.b, n)
	b.end(start)
}

func (b *batch) native32(kind uint16, n uint32) {
	start := b.begin(kind)
	b.b = binary.NativeEndian.AppendUint32(b.b, n)
	b.end(start)
}

// acknowledge makes the kernel acknowledge the last message. It reports errors of the others
// too, before that.
func (b *batch) acknowledge() {
	flags := b.b[b.last+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK)
}

// exchange sends a batch and waits until the kernel has processed it. It returns the first
// error.
func exchange(protocol int, b *batch) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerTimeout}); err != nil {
		return err
	}
	if err := unix.Sendto(fd, b.b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 8<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := acknowledged(buf[:n]); done || err != nil {
			return err
		}
	}
}

// acknowledged reports whether a packet of the kernel contains the acknowledgement. It returns
// an error that the packet reports.
func acknowledged(p []byte) (bool, error) {
	for len(p) >= headerSize {
		size := int(binary.NativeEndian.Uint32(p))
		if size < headerSize || size > len(p) {
			return false, fmt.Errorf("the kernel's answer: %w", unix.EBADMSG)
		}
		if binary.NativeEndian.Uint16(p[4:]) == unix.NLMSG_ERROR && size >= headerSize+4 {
			if code := int32(binary.NativeEndian.Uint32(p[headerSize:])); code != 0 {
				return false, unix.Errno(-code)
			}
			return true, nil
		}
		p = p[min((size+3)&^3, len(p)):]
	}
	return false, nil
}
