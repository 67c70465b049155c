package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/patience"
)

// insideName is the name of the test binary inside a network namespace.
const insideName = "network-inside"

func TestMain(m *testing.M) {
	if os.Args[0] == insideName {
		if err := inside(os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run runs a check in new user and network namespaces, as the stage does.
func run(t testing.TB, check string) string {
	t.Helper()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{insideName, check}, SysProcAttr: &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		if text := err.Error(); errors.Is(err, unix.EPERM) || strings.Contains(text, "operation not permitted") {
			t.Skipf("this user cannot make a network namespace: %v", err)
		}
		t.Fatalf("%s: %v\n%s", check, err, out)
	}
	return string(out)
}

func TestCapture(t *testing.T)        { run(t, "capture") }
func TestWithoutCapture(t *testing.T) { run(t, "control") }
func TestRefusesTheRest(t *testing.T) { run(t, "rest") }

// BenchmarkCapture prints what the set-up costs inside a fresh namespace.
func BenchmarkCapture(b *testing.B) {
	var total time.Duration
	for b.Loop() {
		d, err := time.ParseDuration(strings.TrimSpace(run(b, "time")))
		if err != nil {
			b.Fatal(err)
		}
		total += d
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "capture-us")
}

func inside(check string) error {
	if err := Up(); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	begin := time.Now()
	if check != "control" {
		if err := Capture(); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
	}
	switch check {
	case "time":
		fmt.Println(time.Since(begin))
		return nil
	case "capture":
		return captured()
	case "rest":
		return refused()
	}
	// The control: without the capture there is no route.
	if _, err := net.DialTimeout("tcp4", "203.0.113.7:443", patience.Of(10*time.Second)); !errors.Is(err, unix.ENETUNREACH) {
		return fmt.Errorf("without the capture: %v", err)
	}
	return nil
}

// captured checks that connections to every address reach the guest's port, with the address,
// and that queries reach the resolver's.
func captured() error {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", birth.CapturePort))
	if err != nil {
		return err
	}
	defer l.Close()
	for _, to := range []string{"203.0.113.7:443", "169.254.169.254:80", "10.0.0.1:53", "192.168.1.1:65535", "198.18.77.1:443", "1.1.1.1:1"} {
		for _, from := range []string{"0.0.0.0", "127.0.0.1"} {
			d := net.Dialer{Timeout: patience.Of(10 * time.Second), LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			c, err := d.Dial("tcp4", to)
			if err != nil {
				return err
			}
			s, err := l.Accept()
			if err != nil {
				return err
			}
			if got, err := originalDestination(s.(*net.TCPConn)); err != nil || got.String() != to {
				return fmt.Errorf("from %s to %s: captured as %v, %v", from, to, got, err)
			}
			if from == "0.0.0.0" && c.LocalAddr().(*net.TCPAddr).IP.String() != birth.OwnAddress {
				return fmt.Errorf("to %s: from %v", to, c.LocalAddr())
			}
			s.Write([]byte("hello"))
			s.Close()
			if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
				return fmt.Errorf("from %s to %s: %q, %v", from, to, got, err)
			}
			c.Close()
		}
	}
	u, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", birth.ResolverPort))
	if err != nil {
		return err
	}
	defer u.Close()
	for _, to := range []string{birth.Nameserver + ":53", "8.8.8.8:53"} {
		c, err := net.Dial("udp4", to)
		if err != nil {
			return err
		}
		c.SetDeadline(time.Now().Add(patience.Of(10 * time.Second)))
		if _, err := c.Write([]byte("query")); err != nil {
			return fmt.Errorf("query to %s: %w", to, err)
		}
		buf := make([]byte, 16)
		_, from, err := u.ReadFrom(buf)
		if err != nil {
			return err
		}
		if _, err := u.WriteTo([]byte("answer"), from); err != nil {
			return fmt.Errorf("answer of %s: %w", to, err)
		}
		if n, err := c.Read(buf); err != nil || string(buf[:n]) != "answer" {
			return fmt.Errorf("the answer of %s: %q, %v", to, buf[:n], err)
		}
	}
	return local()
}

// local checks that the sandbox's own traffic is not captured.
func local() error {
	for _, at := range []string{"127.0.0.1", "127.9.9.9", birth.OwnAddress} {
		l, err := net.Listen("tcp4", at+":0")
		if err != nil {
			return err
		}
		c, err := net.DialTimeout("tcp4", l.Addr().String(), patience.Of(10*time.Second))
		if err != nil {
			return fmt.Errorf("to %s of the sandbox: %w", at, err)
		}
		s, err := l.Accept()
		if err != nil {
			return err
		}
		if s.LocalAddr().String() != l.Addr().String() {
			return fmt.Errorf("to %s of the sandbox: reached %v", at, s.LocalAddr())
		}
		if _, err := originalDestination(s.(*net.TCPConn)); err == nil {
			return fmt.Errorf("a connection to %s has another destination", at)
		}
		s.Close()
		c.Close()
		l.Close()
		u, err := net.ListenPacket("udp4", at+":0")
		if err != nil {
			return err
		}
		uc, err := net.Dial("udp4", u.LocalAddr().String())
		if err != nil {
			return err
		}
		uc.SetDeadline(time.Now().Add(patience.Of(10 * time.Second)))
		if _, err := uc.Write([]byte("x")); err != nil {
			return fmt.Errorf("a packet to %s: %w", at, err)
		}
		buf := make([]byte, 4)
		_, from, err := u.ReadFrom(buf)
		if err != nil {
			return err
		}
		if _, err := u.WriteTo([]byte("y"), from); err != nil {
			return fmt.Errorf("a packet from %s: %w", at, err)
		}
		if n, err := uc.Read(buf); err != nil || string(buf[:n]) != "y" {
			return fmt.Errorf("a packet from %s: %q, %v", at, buf[:n], err)
		}
		uc.Close()
		u.Close()
	}
	return nil
}

// refused checks that everything else fails at the system call.
func refused() error {
	for name, send := range map[string]func() error{
		"udp":       func() error { return sendTo(unix.SOCK_DGRAM, 0, "203.0.113.7", 443) },
		"udp, fake": func() error { return sendTo(unix.SOCK_DGRAM, 0, "198.18.77.1", 443) },
		"multicast": func() error { return sendTo(unix.SOCK_DGRAM, 0, "224.0.0.251", 5353) },
		"broadcast": func() error { return sendTo(unix.SOCK_DGRAM, 0, "255.255.255.255", 67) },
		"icmp":      func() error { return sendTo(unix.SOCK_RAW, unix.IPPROTO_ICMP, "203.0.113.7", 0) },
		"sctp":      func() error { return sendTo(unix.SOCK_RAW, 132, "203.0.113.7", 0) },
	} {
		if err := send(); err == nil {
			return fmt.Errorf("%s went out", name)
		}
	}
	for _, to := range []string{"[2001:db8::1]:443", "[fe80::1]:443", "[ff02::fb]:5353"} {
		for _, network := range []string{"tcp6", "udp6"} {
			if c, err := net.DialTimeout(network, to, patience.Of(10*time.Second)); err == nil {
				if _, err := c.Write([]byte("x")); err == nil {
					return fmt.Errorf("%s to %s went out", network, to)
				}
			}
		}
	}
	return nil
}

func sendTo(kind, protocol int, to string, port int) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil // it has the capabilities for every socket
	}
	defer unix.Close(fd)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	return unix.Sendto(fd, []byte("\x08\x00\xf7\xff\x00\x00\x00\x00"), 0, &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(to).As4()})
}

func originalDestination(c *net.TCPConn) (to netip.AddrPort, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return to, err
	}
	var mreq *unix.IPv6Mreq
	cerr := raw.Control(func(fd uintptr) {
		mreq, err = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, 80)
	})
	if err = errors.Join(cerr, err); err != nil {
		return to, err
	}
	b := mreq.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])), nil
}
