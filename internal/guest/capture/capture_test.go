package capture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/jail/network"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/outbound"
	"hortus.dev/internal/guest/rpc"
	"hortus.dev/test/patience"
)

// insideName is the name of the test binary in a network namespace of its own, where the tests
// run.
const insideName = "capture-inside"

func TestMain(m *testing.M) {
	if os.Args[0] == insideName {
		if err := errors.Join(network.Up(), network.Capture()); err != nil {
			fmt.Println("SKIP: this kernel cannot capture connections:", err)
			os.Exit(0)
		}
		os.Exit(m.Run())
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{insideName}, os.Args[1:]...), Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Println("SKIP: this user cannot make a network namespace:", err)
	}
	os.Exit(0)
}

// sandbox is a guest that only captures, and its host.
type sandbox struct {
	rpc  *rpc.Server
	link *link.Link

	mu       sync.Mutex
	requests []envd.EgressRequest
}

// start starts both. serve plays the servers, after an answer that is OK.
func start(t testing.TB, serve func(q envd.EgressRequest, c net.Conn)) *sandbox {
	t.Helper()
	queue := outbound.New()
	c, err := Listen(Config{Open: queue.Open, Hostname: "sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{rpc: rpc.NewServer(rpc.Config{Handlers: queue.Handlers(),
		Await: func(<-chan struct{}, *rpc.Conn, *http.Request) bool { return true }})}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s.link = link.New(path, 0)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		s.link.Close()
		s.rpc.Cut()
		wg.Wait()
	})
	wg.Go(func() { s.rpc.Serve(ctx, l) })
	wg.Go(func() { c.Run(ctx) })
	if serve == nil {
		return s
	}
	for range 8 {
		wg.Go(func() {
			for {
				conn, err := s.link.Accept(ctx)
				if err != nil {
					return
				}
				wg.Go(func() {
					defer conn.Close()
					s.serve(conn, serve)
				})
			}
		})
	}
	return s
}

// serve answers one stream. Names below example.org resolve, and port 1 is refused.
func (s *sandbox) serve(c net.Conn, serve func(envd.EgressRequest, net.Conn)) {
	br := bufio.NewReader(c)
	for {
		line, err := br.ReadSlice('\n')
		var q envd.EgressRequest
		if err != nil || json.Unmarshal(line, &q) != nil {
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, q)
		s.mu.Unlock()
		a := envd.EgressAnswer{OK: strings.HasSuffix(q.Name, ".example.org") && q.Port != 1}
		if !a.OK {
			a.Error = envd.EgressErrDenied
		}
		if q.Op != envd.EgressProxy {
			out, _ := json.Marshal(a)
			// The first bytes of the server may come with the answer.
			if a.OK && q.Port == 25 {
				out = append(out, "\n220 hello"...)
			}
			if _, err := c.Write(append(out, '\n')); err != nil {
				return
			}
		}
		if q.Op != envd.EgressResolve {
			if a.OK || q.Op == envd.EgressProxy {
				serve(q, &buffered{c, br})
			}
			return
		}
	}
}

type buffered struct {
	net.Conn
	br *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.br.Read(p) }

func echo(_ envd.EgressRequest, c net.Conn) { io.Copy(c, c) }

// dial connects as a program of the sandbox does, by the sandbox's own name server.
func dial(t testing.TB, to string) *net.TCPConn {
	t.Helper()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, birth.Nameserver+":53")
	}}
	d := net.Dialer{Resolver: r, Timeout: patience.Of(time.Minute)}
	c, err := d.Dial("tcp4", to)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func TestConnect(t *testing.T) {
	s := start(t, echo)
	c := dial(t, "a.example.org:443")
	io.WriteString(c, "hello")
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	// The server speaks first, with its answer.
	c = dial(t, "a.example.org:25")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "220 hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	for _, to := range []string{"a.example.org:1", "203.0.113.7:443", "198.18.200.1:443", fmt.Sprintf("127.0.0.1:%d", birth.CapturePort)} {
		c, err := net.DialTimeout("tcp4", resolved(t, to), patience.Of(time.Minute))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v", to, err)
		}
	}
	var got []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.requests {
		if q.Op == envd.EgressConnect {
			got = append(got, fmt.Sprint(q.Name, ":", q.Port))
		}
	}
	slices.Sort(got)
	if want := []string{"203.0.113.7:443", "a.example.org:1", "a.example.org:25", "a.example.org:443"}; !slices.Equal(slices.Compact(got), want) {
		t.Errorf("the host was asked for %q; want %q", got, want)
	}
}

// resolved replaces a name by its address.
func resolved(t *testing.T, to string) string {
	if name, port, _ := net.SplitHostPort(to); strings.HasSuffix(name, ".example.org") {
		c := dial(t, name+":443")
		return net.JoinHostPort(c.RemoteAddr().(*net.TCPAddr).IP.String(), port)
	}
	return to
}

// TestQuiesce cuts streams while they carry data: programs must not take that for the end of
// what was sent. Later connections work, to the addresses that programs know.
func TestQuiesce(t *testing.T) {
	s := start(t, func(_ envd.EgressRequest, c net.Conn) {
		io.WriteString(c, "partial")
		io.Copy(io.Discard, c)
	})
	open := dial(t, "a.example.org:443")
	buf := make([]byte, 7)
	if _, err := io.ReadFull(open, buf); err != nil {
		t.Fatal(err)
	}
	s.rpc.Cut()
	s.rpc.AwaitNone()
	if n, err := open.Read(buf); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("after the cut: %d bytes, %v; want a reset", n, err)
	}
	s.rpc.Resume()
	again, err := net.Dial("tcp4", open.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
	if _, err := io.ReadFull(again, buf); err != nil || string(buf) != "partial" {
		t.Errorf("%q, %v", buf, err)
	}
}

// TestServerCloses checks that a program which sends to a server that has left gets an error.
func TestServerCloses(t *testing.T) {
	start(t, func(envd.EgressRequest, net.Conn) {})
	c := dial(t, "a.example.org:443")
	if got, err := io.ReadAll(c); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	var err error
	for deadline := time.Now().Add(patience.Of(time.Minute)); err == nil && time.Now().Before(deadline); {
		_, err = c.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// TestClientResets checks that the host learns of a program that has ended.
func TestClientResets(t *testing.T) {
	ended := make(chan error, 1)
	start(t, func(_ envd.EgressRequest, c net.Conn) {
		io.WriteString(c, "x")
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	c := dial(t, "a.example.org:443")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.SetLinger(0)
	c.Close()
	select {
	case <-ended:
	case <-time.After(patience.Of(time.Minute)):
		t.Error("the stream of a connection that was reset stays open")
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", envd.MaxEgressLine)
	for in, want := range map[string]string{"a\nb": "a\n", "\n": "\n", long[1:] + "\n": long[1:] + "\n", long + "\n": "", "": "", "abc": ""} {
		r := bytes.NewReader([]byte(in))
		got, err := readLine(r)
		if string(got) != want || (err == nil) != (want != "") || err == nil && r.Len() != len(in)-len(want) {
			t.Errorf("%.10q: %.10q, %v, %d left", in, got, err, r.Len())
		}
	}
}

// BenchmarkConnect measures a connection by name from dial to the first byte.
func BenchmarkConnect(b *testing.B) {
	start(b, func(_ envd.EgressRequest, c net.Conn) { io.WriteString(c, "x") })
	address := dial(b, "a.example.org:443").RemoteAddr().String()
	for b.Loop() {
		c, err := net.Dial("tcp4", address)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// BenchmarkReceive measures the throughput of a connection.
func BenchmarkReceive(b *testing.B) {
	chunk := make([]byte, 256<<10)
	start(b, func(_ envd.EgressRequest, c net.Conn) {
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	})
	c := dial(b, "a.example.org:443")
	b.SetBytes(1 << 20)
	buf := make([]byte, 1<<20)
	for b.Loop() {
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}
