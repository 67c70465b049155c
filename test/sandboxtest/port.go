package sandboxtest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

// upperServer answers each connection with what came on it, in capitals, once all of
// it did. It prints its port and lives until it is killed.
//
//go:embed programs/upper_server.py
var upperServer string

func portCases() []Case {
	needs := []api.Capability{api.CapStart, api.CapNoNetwork}
	return []Case{
		{Name: "port/stream", Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			for _, addr := range []string{"127.0.0.1", "0.0.0.0", "::1"} {
				port := b.server(t, addr)
				if port == 0 {
					t.Logf("nothing can listen on %s in there", addr)
					continue
				}
				c := b.dial(t, port)
				sent := strings.Repeat("words ", 50_000)
				go func() {
					io.WriteString(c, sent)
					c.(interface{ CloseWrite() error }).CloseWrite()
				}()
				if got, err := io.ReadAll(c); err != nil || string(got) != strings.ToUpper(sent) {
					t.Errorf("%s: %d bytes came back of %d, %v", addr, len(got), len(sent), err)
				}
			}
		}},
		{Name: "port/closed", Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			// One that is open on the host, whose ports are not the sandbox's.
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var refused *envd.Refused
			if _, err := b.openPort(t, l.Addr().(*net.TCPAddr).Port); !errors.As(err, &refused) || refused.Status != 502 {
				t.Errorf("a port of the host's: %v", err)
			}
			b.sh(t, "echo alive").want(t, 0, "alive\n")
		}},
		{Name: "port/ends-with-the-sandbox", Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			c := b.dial(t, b.server(t, "127.0.0.1"))
			s.kill(t, b)
			if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the stream outlived the sandbox: %v", err)
			}
		}},
	}
}

// server starts one that listens on an address, and gives its port; 0 where it
// cannot.
func (b *Sandbox) server(t *testing.T, addr string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	ps, err := b.Guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "python3", Args: []string{"-c", upperServer, addr}}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	var out []byte
	for !bytes.Contains(out, []byte("\n")) {
		ev, err := ps.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.End != nil {
			return 0
		}
		if ev.Data != nil {
			out = append(out, ev.Data.Stdout...)
		}
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (b *Sandbox) openPort(t *testing.T, port int) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	c, err := b.Machine.Link().Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return envd.OpenPort(ctx, c, envd.PortPath(port), nil)
}

func (b *Sandbox) dial(t *testing.T, port int) net.Conn {
	t.Helper()
	c, err := b.openPort(t, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience.Of(60 * time.Second)))
	return c
}
