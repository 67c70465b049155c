package capture

import (
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/outbound"
)

// bufferSize is the size of a buffer, in bytes. A direction holds one only while it has data.
const bufferSize = 64 << 10

// join copies in both directions until both have ended. The end of one direction is forwarded.
// After an error the connection is reset.
func (c *Capture) join(tc *net.TCPConn, s *outbound.Stream) {
	conn, rest := s.Bypass()
	var failed sync.Once
	fail := func() {
		failed.Do(func() {
			reset(tc)
			s.Close() // ends the other direction, too
		})
	}
	var down sync.WaitGroup
	down.Go(func() {
		_, err := tc.Write(rest)
		if err == nil {
			err = c.copy(tc, conn)
		}
		// What a stream carried before the guest ended it may be incomplete.
		if err != nil || s.CutOff() || tc.CloseWrite() != nil {
			fail()
		}
	})
	if c.copy(conn, tc) != nil || s.CloseWrite() != nil {
		fail()
	}
	down.Wait()
	tc.Close()
}

// copy copies until the end of src. It takes a buffer when there is something to read.
func (c *Capture) copy(dst, src net.Conn) error {
	sc, ok := src.(syscall.Conn)
	if !ok {
		return syscall.EINVAL
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var buf *[bufferSize]byte
		var n int
		var rerr error
		err := raw.Read(func(fd uintptr) bool {
			buf = c.buffers.Get().(*[bufferSize]byte)
			for {
				if n, rerr = unix.Read(int(fd), buf[:]); rerr != unix.EINTR {
					break
				}
			}
			if rerr != unix.EAGAIN {
				return true
			}
			c.buffers.Put(buf)
			return false
		})
		if err != nil {
			return err
		}
		if rerr == nil && n > 0 {
			_, rerr = dst.Write(buf[:n])
		} else if rerr == nil {
			rerr = io.EOF
		}
		c.buffers.Put(buf)
		if rerr == io.EOF {
			return nil
		}
		if rerr != nil {
			return rerr
		}
	}
}
