package web

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// cdn starts a server for two names, as a CDN is one. It answers with the host that a request
// is for.
func (r *rig) cdn(names ...string) string {
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "content of "+req.Host) })
	r.http(h, names...)
	return r.https(h, names...).Listener.Addr().String()
}

// TestFronting asks an allowed name's connection for the content of another name of the same
// server. The control sends the same to the server without the gateway.
func TestFronting(t *testing.T) {
	r := newRig(t)
	addr := r.cdn("allowed.example")
	_, roots := newCA(t, 2)
	ask := func(c *http.Client, url, host string) (int, string) {
		req, _ := http.NewRequest("GET", url, nil)
		req.Host = host
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body(t, resp)
	}
	control := &http.Client{Transport: &http.Transport{
		Dial:            func(string, string) (net.Conn, error) { return net.Dial("tcp", addr) },
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
	}}
	defer control.CloseIdleConnections()
	if _, text := ask(control, "https://allowed.example/", "evil.example"); text != "content of evil.example" {
		t.Fatalf("the control does not show the attack: %q", text)
	}
	for name, c := range map[string]*http.Client{"HTTP/2": r.client(), "HTTP/1.1": r.h1()} {
		for _, scheme := range []string{"https", "http"} {
			// One connection: allowed, fronted, allowed, fronted.
			for i, host := range []string{"allowed.example", "evil.example", "ALLOWED.example.", "evil.example", "allowed.example.evil.example", "allowed.example:444", "allowed.example:"} {
				status, text := ask(c, scheme+"://allowed.example/", host)
				good := strings.HasPrefix(strings.ToLower(host), "allowed.example") && !strings.Contains(host, "evil") && host != "allowed.example:444"
				switch {
				case good && (status != 200 || text != "content of "+host):
					t.Errorf("%s %s request %d, host %s: %d %q", name, scheme, i, host, status, text)
				case !good && (status < 400 || strings.Contains(text, "content of")):
					t.Errorf("%s %s request %d, host %s: %d %q", name, scheme, i, host, status, text)
				}
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.exchanges {
		if e.Host != "allowed.example" || e.Err == nil && e.Status != 200 {
			t.Errorf("recorded %+v", e)
		}
	}
}

// TestServerName checks the TLS server name, on a connection that is terminated and on one that
// is passed through.
func TestServerName(t *testing.T) {
	r := newRig(t)
	r.cdn("allowed.example")
	r.addresses["192.0.2.1:443"] = r.addresses["allowed.example:443"]
	r.addresses["allowed.example:8443"] = r.addresses["allowed.example:443"]
	r.classes["allowed.example:8443"] = api.EgressPassthrough
	for _, addr := range []string{"allowed.example:443", "allowed.example:8443"} {
		for sni, want := range map[string]string{
			"":                     "the TLS connection has no server name",
			"evil.example":         "the TLS server name is evil.example, the connection is to allowed.example",
			"www.allowed.example":  "the TLS server name is www.allowed.example, the connection is to allowed.example",
			"allowed.example.evil": "the TLS server name is allowed.example.evil, the connection is to allowed.example",
			"allowed.example":      "",
			"Allowed.Example":      "",
		} {
			c, done := r.open(addr)
			tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: sni})
			err := tc.Handshake()
			if want == "" {
				if err != nil {
					t.Fatalf("%s, name %s: %v", addr, sni, err)
				}
				if self := tc.ConnectionState().PeerCertificates[0].Issuer.CommonName; self != "Hortus sandbox lin_test" {
					t.Errorf("%s: certificate of %s", addr, self)
				}
			} else {
				if err == nil {
					t.Errorf("%s, name %q: the handshake succeeded", addr, sni)
				}
				if got := wantRefusal(t, done); got.Reason != want {
					t.Errorf("%s, name %q: %q", addr, sni, got.Reason)
				}
			}
			c.Close()
		}
	}
	c, done := r.open("192.0.2.1:443")
	if tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() == nil {
		t.Error("TLS to an address was terminated")
	}
	if got := wantRefusal(t, done); got.Reason != "TLS to an address has no name that can be checked" || !strings.Contains(got.Hint, "tcp://192.0.2.1:443") {
		t.Errorf("%+v", got)
	}
}

// TestResumedSession checks the name of a connection that resumes the session of another one:
// no certificate is chosen then.
func TestResumedSession(t *testing.T) {
	r := newRig(t)
	r.cdn("allowed.example", "other.example")
	cache := tls.NewLRUClientSessionCache(4)
	request := func(addr, sni string) (bool, error) {
		c, _ := r.open(addr)
		defer c.Close()
		tc := tls.Client(c, &tls.Config{RootCAs: r.trust, ServerName: sni, ClientSessionCache: oneKey{cache}})
		if err := tc.Handshake(); err != nil {
			return false, err
		}
		fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", sni)
		_, err := io.ReadAll(tc) // the ticket comes with the answer
		return tc.ConnectionState().DidResume, err
	}
	if _, err := request("allowed.example:443", "allowed.example"); err != nil {
		t.Fatal(err)
	}
	if resumed, err := request("allowed.example:443", "allowed.example"); err != nil || !resumed {
		t.Fatal("the session was not resumed", err)
	}
	if _, err := request("other.example:443", "allowed.example"); err == nil {
		t.Error("a resumed session had another name")
	}
}

// oneKey is a cache that offers its last session to every server.
type oneKey struct{ c tls.ClientSessionCache }

func (o oneKey) Get(string) (*tls.ClientSessionState, bool)  { return o.c.Get("") }
func (o oneKey) Put(_ string, state *tls.ClientSessionState) { o.c.Put("", state) }

func TestOtherProtocols(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Silence, c.Handshake = 100*time.Millisecond, 100*time.Millisecond })
	for name, c := range map[string]struct{ send, reason string }{
		"SSH":            {"SSH-2.0-OpenSSH_9.6\r\n", "neither HTTP nor TLS"},
		"SMTP":           {"EHLO example.org\r\n", "neither HTTP nor TLS"},
		"Redis":          {"*1\r\n$4\r\nPING\r\n", "neither HTTP nor TLS"},
		"PostgreSQL":     {"\x00\x00\x00\x08\x04\xd2\x16\x2f", "neither HTTP nor TLS"},
		"HTTP/2, clear":  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "neither HTTP nor TLS"},
		"SSLv2":          {"\x80\x2e\x01\x00\x02", "neither HTTP nor TLS"},
		"one byte":       {"G", "the program sent nothing: this is not HTTP or TLS"},
		"silence":        {"", "the program sent nothing: this is not HTTP or TLS"},
		"half a hello":   {"\x16\x03\x01\x01\x00\x01", "the program did not finish the TLS handshake in time"},
		"no hello":       {"\x16\x03\x01\x00\x05hello", "the TLS handshake with the program failed: tls: "},
		"endless method": {strings.Repeat("A", 100), "neither HTTP nor TLS"},
	} {
		conn, done := r.open("example.org:80")
		io.WriteString(conn, c.send)
		if got := wantRefusal(t, done); !strings.HasPrefix(got.Reason, c.reason) {
			t.Errorf("%s: %q", name, got.Reason)
		}
		if b, err := io.ReadAll(conn); len(b) > 7 { // an alert of TLS has seven bytes
			t.Errorf("%s: read %q, %v", name, b, err)
		}
	}
	// A client that leaves is no refusal.
	conn, done := r.open("example.org:80")
	conn.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestUntrusted checks what is said when a program does not trust the authority.
func TestUntrusted(t *testing.T) {
	r := newRig(t)
	r.cdn("example.org")
	c, done := r.open("example.org:443")
	if tls.Client(c, &tls.Config{ServerName: "example.org", RootCAs: nil}).Handshake() == nil {
		t.Error("the certificate was accepted")
	}
	got := wantRefusal(t, done)
	if !got.Failed || !strings.HasPrefix(got.Reason, "the program does not accept the certificate of the sandbox's authority (") || !strings.Contains(got.Hint, "passthrough://example.org:443") {
		t.Errorf("%+v", got)
	}
	c, done = r.open("example.org:443")
	if tls.Client(c, &tls.Config{ServerName: "example.org", RootCAs: r.trust, NextProtos: []string{"postgresql"}}).Handshake() == nil {
		t.Error("another protocol was accepted")
	}
	if got := wantRefusal(t, done); got.Reason != "the TLS connection is not for HTTP" {
		t.Errorf("%+v", got)
	}
}

// TestSmuggling sends requests that servers read in different ways. The server behind it must
// see a request that is refused as none, and any other as exactly one.
func TestSmuggling(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		seen    int // requests that the server sees
		clean   bool
	}{
		"plain":                   {"GET /one HTTP/1.1\r\nHost: example.org\r\n\r\n", 1, true},
		"two lengths":             {"POST /one HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 0, true},
		"length and chunked":      {"POST /one HTTP/1.1\r\nHost: example.org\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /two HTTP/1.1\r\nHost: evil.example\r\n\r\n", 1, true},
		"unknown encoding":        {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 0, true},
		"two encodings":           {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 0, true},
		"encoding with tab":       {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n", 0, true},
		"space before colon":      {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 0, true},
		"negative length":         {"POST /one HTTP/1.1\r\nHost: example.org\r\nContent-Length: -5\r\n\r\nhello", 0, true},
		"signed length":           {"POST /one HTTP/1.1\r\nHost: example.org\r\nContent-Length: +5\r\n\r\nhello", 0, true},
		"two hosts":               {"GET /one HTTP/1.1\r\nHost: example.org\r\nHost: evil.example\r\n\r\n", 0, true},
		"equal hosts":             {"GET /one HTTP/1.1\r\nHost: example.org\r\nHost: example.org\r\n\r\n", 0, true},
		"no host":                 {"GET /one HTTP/1.1\r\n\r\n", 0, true},
		"no host, HTTP/1.0":       {"GET /one HTTP/1.0\r\n\r\n", 0, true},
		"folded host":             {"GET /one HTTP/1.1\r\nHost: example.org\r\n evil.example\r\n\r\n", 0, true},
		"host with a path":        {"GET /one HTTP/1.1\r\nHost: example.org/evil\r\n\r\n", 0, true},
		"host with user":          {"GET /one HTTP/1.1\r\nHost: a@example.org\r\n\r\n", 0, true},
		"bare LF before a header": {"GET /one HTTP/1.1\r\nHost: example.org\r\nX: a\nHost: evil.example\r\n\r\n", 0, true},
		"CR in a header":          {"GET /one HTTP/1.1\r\nHost: example.org\r\nX: a\rHost: evil.example\r\n\r\n", 0, true},
		"NUL in a header":         {"GET /one HTTP/1.1\r\nHost: example.org\r\nX: a\x00b\r\n\r\n", 0, true},
		"absolute, other host":    {"GET http://evil.example/one HTTP/1.1\r\nHost: example.org\r\n\r\n", 0, true},
		"absolute, same host":     {"GET http://example.org/one HTTP/1.1\r\nHost: evil.example\r\n\r\n", 1, true},
		"absolute, other scheme":  {"GET https://example.org/one HTTP/1.1\r\nHost: example.org\r\n\r\n", 0, true},
		"absolute, with user":     {"GET http://a:b@example.org/one HTTP/1.1\r\nHost: example.org\r\n\r\n", 0, true},
		"opaque":                  {"GET mailto:a@example.org HTTP/1.1\r\nHost: example.org\r\n\r\n", 0, true},
		"nested CONNECT":          {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", 0, true},
		"nested CONNECT, same":    {"CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n\r\n", 0, true},
		"h2c":                     {"GET /one HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", 0, true},
		"h2c without Connection":  {"GET /one HTTP/1.1\r\nHost: example.org\r\nUpgrade: h2c\r\n\r\n", 0, true},
		"two upgrades":            {"GET /one HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", 0, true},
		"upgrade to TLS":          {"GET /one HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n", 0, true},
		"HTTP/3.0":                {"GET /one HTTP/3.0\r\nHost: example.org\r\n\r\n", 0, true},
		"HTTP/0.9":                {"GET /one\r\n\r\n", 0, true},
		"space in the path":       {"GET /one HTTP/1.1 HTTP/1.1\r\nHost: example.org\r\n\r\n", 0, true},
		"large chunk extension":   {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 70<<10) + "\r\nx\r\n0\r\n\r\n", 1, false},
		"chunk with LF":           {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nx\r\n0\r\n\r\n", 1, false},
		"bad chunk":               {"POST /one HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n", 1, false},
		"large header":            {"GET /one HTTP/1.1\r\nHost: example.org\r\nX: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", 0, true},
		"large path":              {"GET /" + strings.Repeat("a", 70<<10) + " HTTP/1.1\r\nHost: example.org\r\n\r\n", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			seen := raw(t)
			r.addresses["example.org:80"] = seen.addr
			conn, _ := r.open("example.org:80")
			go io.WriteString(conn, c.request)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil && c.seen == 0 && resp.StatusCode < 400 {
				t.Errorf("answered %d", resp.StatusCode)
			}
			conn.Close()
			r.server.Close()
			requests := seen.close()
			if len(requests) > c.seen || c.clean && len(requests) != c.seen {
				t.Fatalf("the server saw %q", requests)
			}
			for _, got := range requests {
				if strings.Contains(got, "evil") || !strings.Contains(got, "Host: example.org\r\n") {
					t.Errorf("the server saw %q", got)
				}
			}
		})
	}
}

// rawServer keeps what it gets, split by requests as a careless server would.
type rawServer struct {
	addr  string
	close func() []string
}

func raw(t *testing.T) rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []string, 1)
	go func() {
		var all []string
		for {
			c, err := l.Accept()
			if err != nil {
				got <- all
				return
			}
			c.SetReadDeadline(time.Now().Add(patience.Of(5 * time.Second)))
			var b []byte
			for part := make([]byte, 4<<10); !bytes.Contains(b, []byte("\r\n\r\n")); {
				n, err := c.Read(part)
				if b = append(b, part[:n]...); err != nil {
					break
				}
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			c.(*net.TCPConn).CloseWrite()
			more, _ := io.ReadAll(c)
			b = append(b, more...)
			c.Close()
			for i, part := range strings.Split(string(b), " HTTP/1.1\r\n") {
				if i > 0 {
					all = append(all, part)
				}
			}
		}
	}()
	return rawServer{l.Addr().String(), func() []string { l.Close(); return <-got }}
}

func TestLargeHeader(t *testing.T) {
	r := newRig(t)
	r.cdn("example.org")
	for name, c := range map[string]*http.Client{"HTTP/2": r.client(), "HTTP/1.1": r.h1()} {
		req, _ := http.NewRequest("GET", "https://example.org/", nil)
		req.Header.Set("X-Large", strings.Repeat("a", 70<<10))
		resp, err := c.Do(req)
		if err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s", name, resp.Status)
		}
		if err == nil {
			resp.Body.Close()
		}
		req.Header.Set("X-Large", strings.Repeat("a", 50<<10))
		if resp, err = c.Do(req); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: a header of 50 KiB: %v", name, err)
		}
		resp.Body.Close()
	}
}

// TestSlowHeader checks that a client that sends its header slowly is not waited for.
func TestSlowHeader(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Header = 50 * time.Millisecond })
	r.cdn("example.org")
	conn, done := r.open("example.org:80")
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.org\r\nX: ")
	io.Copy(io.Discard, conn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
