package web

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"hortus.dev/api"
)

// direct returns a client that connects to a test's server without the gateway.
func (r *rig) direct(addr string) *http.Client {
	_, roots := newCA(r.t, 2)
	tr := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("tcp", r.addresses[addr])
		},
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func fetch(b *testing.B, c *http.Client, size int64) {
	b.Helper()
	b.SetBytes(size)
	for b.Loop() {
		resp, err := c.Get("https://example.org/")
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size {
			b.Fatal(n, err)
		}
		resp.Body.Close()
	}
}

// BenchmarkTerminated compares requests through the gateway with requests to the server.
func BenchmarkTerminated(b *testing.B) {
	for name, size := range map[string]int64{"100B": 100, "16MB": 16 << 20} {
		r := newRig(b)
		r.https(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(zeros{}, size), make([]byte, 64<<10))
		}), "example.org")
		b.Run(name+"/direct", func(b *testing.B) { fetch(b, r.direct("example.org:443"), size) })
		b.Run(name+"/gateway", func(b *testing.B) { fetch(b, r.client(), size) })
		b.Run(name+"/gateway-http1", func(b *testing.B) { fetch(b, r.h1(), size) })
	}
}

// BenchmarkRelay measures the throughput of a connection that is not read: within the kernel,
// and counted.
func BenchmarkRelay(b *testing.B) {
	const size = 64 << 20
	for _, mode := range []string{"socket", "kernel", "counted"} {
		b.Run(mode, func(b *testing.B) {
			r := newRig(b)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					io.CopyBuffer(struct{ io.Writer }{c}, io.LimitReader(zeros{}, size), make([]byte, 256<<10))
					c.Close()
				}
			}()
			b.SetBytes(size)
			for b.Loop() {
				up, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				near := up
				if mode != "socket" {
					n, far := sockets(b)
					near = n
					go r.server.Relay(b.Context(), &counter{Conn: far, direct: mode == "kernel"}, up, Grant{Class: api.EgressTCP})
				}
				if n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{near}, make([]byte, 256<<10)); n != size || err != nil {
					b.Fatal(n, err)
				}
				near.Close()
			}
		})
	}
}
