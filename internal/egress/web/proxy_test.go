package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// openProxy returns a connection to the host as an HTTP proxy.
func (r *rig) openProxy() (net.Conn, <-chan error) {
	near, far := pair(r.t)
	done := make(chan error, 1)
	go func() { done <- r.server.ServeProxy(r.t.Context(), far, r) }()
	_ = near.SetDeadline(time.Now().Add(patience.Of(20 * time.Second)))
	return near, done
}

func (r *rig) proxyClient() *http.Client {
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128"}),
		DialContext:     func(context.Context, string, string) (net.Conn, error) { c, _ := r.openProxy(); return c, nil },
		TLSClientConfig: &tls.Config{RootCAs: r.trust}, ForceAttemptHTTP2: true,
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience.Of(20 * time.Second)}
}

func TestProxyOp(t *testing.T) {
	r := newRig(t)
	r.cdn("example.org", "other.example", "denied.example")
	r.denied["denied.example"] = true
	c := r.proxyClient()
	for _, u := range []string{"https://example.org/", "http://example.org/", "http://other.example/", "https://other.example/", "https://example.org/"} {
		resp, text := get(t, c, u)
		host := resp.Request.URL.Host
		if resp.StatusCode != 200 || text != "content of "+host || strings.HasPrefix(u, "https") != (resp.ProtoMajor == 2) {
			t.Errorf("%s: %s %q", u, resp.Proto, text)
		}
	}
	if resp, text := get(t, c, "http://denied.example/"); resp.StatusCode != 403 || text != "hortus: no rule matches\nhortus egress allow\n" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	if resp, err := c.Get("https://denied.example/"); err == nil {
		t.Errorf("CONNECT was allowed: %d", resp.StatusCode)
	}
	// Inside of the tunnel the same checks hold.
	req, _ := http.NewRequest("GET", "https://example.org/", nil)
	req.Host = "denied.example"
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, resp); resp.StatusCode != 421 {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

// tunnel sends CONNECT and returns the status of the answer.
func connectTo(t *testing.T, c net.Conn, authority string) int {
	t.Helper()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	// Byte by byte: what comes after the answer belongs to the tunnel.
	resp, err := http.ReadResponse(bufio.NewReaderSize(oneByte{c}, 16), &http.Request{Method: "CONNECT"})
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

type oneByte struct{ net.Conn }

func (o oneByte) Read(p []byte) (int, error) { return o.Conn.Read(p[:1]) }

func TestProxyTunnels(t *testing.T) {
	r := newRig(t)
	r.cdn("example.org")
	r.addresses["example.org:22"] = greeter(t)
	r.classes["example.org:22"] = api.EgressTCP
	r.addresses["pinned.example:443"] = r.addresses["example.org:443"]
	r.classes["pinned.example:443"] = api.EgressPassthrough

	c, done := r.openProxy()
	if status := connectTo(t, c, "example.org:22"); status != 200 {
		t.Fatal(status)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello from the server" {
		t.Errorf("%q, %v", b, err)
	}
	c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}

	c, _ = r.openProxy()
	if status := connectTo(t, c, "pinned.example:443"); status != 200 {
		t.Fatal(status)
	}
	_, roots := newCA(t, 2)
	if err := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "pinned.example"}).Handshake(); err != nil {
		t.Error("passed through: ", err)
	}
	c.Close()

	c, done = r.openProxy()
	if status := connectTo(t, c, "pinned.example:443"); status != 200 {
		t.Fatal(status)
	}
	if tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "example.org"}).Handshake() == nil {
		t.Error("another name was passed through")
	}
	if got := wantRefusal(t, done); !strings.Contains(got.Reason, "the TLS server name is example.org") {
		t.Error(got)
	}

	// Not HTTP, in a tunnel for HTTP.
	c, done = r.openProxy()
	if status := connectTo(t, c, "example.org:443"); status != 200 {
		t.Fatal(status)
	}
	io.WriteString(c, "SSH-2.0-x\r\n")
	if got := wantRefusal(t, done); got.Reason != "neither HTTP nor TLS" {
		t.Error(got)
	}

	// CONNECT through CONNECT, in clear.
	c, _ = r.openProxy()
	if status := connectTo(t, c, "example.org:80"); status != 200 {
		t.Fatal(status)
	}
	if status := connectTo(t, c, "pinned.example:443"); status != 403 {
		t.Errorf("nested CONNECT: %d", status)
	}

	for _, authority := range []string{"example.org", "example.org:0", "example.org:65536", "example.org:x", "a@example.org:443", "[::1", "missing.example:22"} {
		c, _ := r.openProxy()
		r.classes["missing.example:22"] = api.EgressTCP
		if status := connectTo(t, c, authority); status != 400 && status != 502 {
			t.Errorf("CONNECT %s: %d", authority, status)
		}
		c.Close()
	}
	for _, line := range []string{"GET / HTTP/1.1", "GET https://example.org/ HTTP/1.1", "GET http://pinned.example:443/ HTTP/1.1", "GET http://a:b@example.org/ HTTP/1.1", "GET ftp://example.org/ HTTP/1.1"} {
		c, _ := r.openProxy()
		fmt.Fprintf(c, "%s\r\nHost: example.org\r\n\r\n", line)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 400 && resp.StatusCode != 403 {
			t.Errorf("%s: %v %v", line, resp, err)
		}
		c.Close()
	}
}

// greeter is a server that speaks first.
func greeter(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello from the server")
			c.Close()
		}
	}()
	return l.Addr().String()
}
