package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Main is the program.
func Main() int {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, Argv0+":", err)
		return 1
	}
	return 0
}

// run prints the port and starts the process that serves it, or is that process.
func run(args []string) error {
	if len(args) > 0 {
		l, err := net.FileListener(os.NewFile(3, "listener"))
		if err != nil {
			return err
		}
		return Serve(l)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err := os.StartProcess("/proc/self/exe", []string{Argv0, "serve"}, &os.ProcAttr{
		Files: []*os.File{null, null, null, f}, Sys: &syscall.SysProcAttr{Setsid: true},
	}); err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	return nil
}

// Serve answers requests until the listener fails.
func Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(c) // it lasts as long as its stream, or the process
	}
}

func serve(c net.Conn) {
	defer c.Close()
	var q Request
	if ReadLine(c, &q) != nil {
		return
	}
	var a Answer
	var err error
	switch q.Op {
	case OpDial:
		dial(c, q)
		return
	case OpFlood:
		flood(c, q)
		return
	case OpListen:
		a.Address, err = listen(q)
	case OpDatagram:
		a.Data, err = datagram(q)
	case OpPing:
		a.Data, err = ping(q)
	default:
		err = fmt.Errorf("unknown operation %.40q", q.Op)
	}
	if err != nil {
		a.Error = err.Error()
	}
	_ = WriteLine(c, a)
}

func (q Request) wait() time.Duration { return time.Duration(q.WaitMS) * time.Millisecond }

// dial connects and carries the bytes of both directions, with the ends of each.
func dial(c net.Conn, q Request) {
	up, err := net.DialTimeout(q.Network, q.Address, q.wait())
	if err != nil {
		_ = WriteLine(c, Answer{Error: err.Error()})
		return
	}
	defer up.Close()
	if WriteLine(c, Answer{}) != nil {
		return
	}
	go func() {
		_, err := io.Copy(up, c)
		if h, ok := up.(interface{ CloseWrite() error }); ok && err == nil {
			_ = h.CloseWrite()
			return
		}
		up.Close()
	}()
	_, _ = io.Copy(c, up)
}

// listen starts a server that echoes.
func listen(q Request) (string, error) {
	switch q.Network {
	case "udp", "udp4", "udp6":
		p, err := net.ListenPacket(q.Network, q.Address)
		if err != nil {
			return "", err
		}
		go func() {
			buf := make([]byte, 4096)
			for {
				n, from, err := p.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = p.WriteTo(buf[:n], from)
			}
		}()
		return p.LocalAddr().String(), nil
	}
	l, err := net.Listen(q.Network, q.Address)
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String(), nil
}

func datagram(q Request) ([]byte, error) {
	c, err := net.DialTimeout(q.Network, q.Address, q.wait())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(q.wait()))
	if _, err := c.Write(q.Data); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return buf[:n], err
}

// ping tries the two kinds of ICMP sockets.
func ping(q Request) ([]byte, error) {
	to := net.ParseIP(q.Address).To4()
	if to == nil {
		return nil, errors.New("not an IPv4 address")
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, syscall.IPPROTO_ICMP)
	if err != nil {
		raw, err2 := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.IPPROTO_ICMP)
		if err2 != nil {
			return nil, fmt.Errorf("no ICMP socket: %w; %w", err, err2)
		}
		fd = raw
	}
	defer syscall.Close(fd)
	msg := append([]byte{8, 0, 0, 0, 0x12, 0x34, 0, 1}, q.Data...)
	sum := checksum(msg)
	msg[2], msg[3] = byte(sum>>8), byte(sum)
	wait := syscall.NsecToTimeval(q.wait().Nanoseconds())
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait); err != nil {
		return nil, err
	}
	if err := syscall.Sendto(fd, msg, 0, &syscall.SockaddrInet4{Addr: [4]byte(to)}); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		v := uint32(b[i]) << 8
		if i+1 < len(b) {
			v |= uint32(b[i+1])
		}
		sum += v
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// flood opens connections whose sending halves have ended, and holds them.
func flood(c net.Conn, q Request) {
	open := make(chan net.Conn, q.Count)
	slots := make(chan struct{}, 64)
	for range q.Count {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			up, err := net.DialTimeout(q.Network, q.Address, q.wait())
			if err != nil {
				open <- nil
				return
			}
			_ = up.SetDeadline(time.Now().Add(q.wait()))
			_, _ = up.Write(q.Data)
			if tc, ok := up.(*net.TCPConn); ok {
				_ = tc.CloseWrite()
			}
			if _, err := io.ReadFull(up, make([]byte, 1)); err != nil {
				up.Close()
				up = nil
			}
			open <- up
		}()
	}
	n := 0
	var held []net.Conn
	for range q.Count {
		if up := <-open; up != nil {
			n++
			held = append(held, up)
		}
	}
	_ = WriteLine(c, Answer{Count: n})
	_, _ = io.Copy(io.Discard, c)
	for _, up := range held {
		up.Close()
	}
}
