package web

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"hortus.dev/internal/egress/policy"
)

// echConfig is that of a client that hides a name behind a public one.
func echConfig(t testing.TB, public string) *tls.Config {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	b = append(b, 7)                           // config id
	b = binary.BigEndian.AppendUint16(b, 0x20) // X25519, HKDF-SHA256
	b = binary.BigEndian.AppendUint16(b, 32)
	b = append(b, key.PublicKey().Bytes()...)
	b = append(b, 0, 4, 0, 1, 0, 1) // HKDF-SHA256, AES-128-GCM
	b = append(b, 0, byte(len(public)))
	b = append(b, public...)
	b = append(b, 0, 0)
	config := binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(b)))
	config = append(config, b...)
	list := append(binary.BigEndian.AppendUint16(nil, uint16(len(config))), config...)
	return &tls.Config{ServerName: "hidden.example", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: list}
}

// hello returns the first bytes of a client.
func hello(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		tls.Client(near, cfg).Handshake()
		near.Close()
	}()
	defer far.Close()
	b := make([]byte, 64<<10)
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

func TestReadHello(t *testing.T) {
	long := strings.Repeat("abcdefgh.", 27) + "org"
	for name, c := range map[string]struct {
		cfg       *tls.Config
		want      string
		encrypted bool
	}{
		"plain":   {&tls.Config{ServerName: "example.org"}, "example.org", false},
		"TLS 1.2": {&tls.Config{ServerName: "example.org", MaxVersion: tls.VersionTLS12}, "example.org", false},
		"none":    {&tls.Config{InsecureSkipVerify: true}, "", false},
		"long":    {&tls.Config{ServerName: long}, long, false},
		"ECH":     {echConfig(t, "public.example"), "public.example", true},
	} {
		raw := hello(t, c.cfg)
		got, read, err := readHello(io.MultiReader(bytes.NewReader(raw), strings.NewReader("rest")))
		if err != nil || got.name != c.want || got.encrypted != c.encrypted {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if !bytes.HasPrefix(append(raw, "rest"...), read) || len(read) < len(raw) {
			t.Errorf("%s: %d of %d bytes were returned", name, len(read), len(raw))
		}
	}
	// A hello without end is bounded.
	endless := io.MultiReader(strings.NewReader("\x16\x03\x01\x40\x00\x01\xff\xff\xff"), zeros{})
	if _, read, err := readHello(endless); err == nil || len(read) > maxHello+(17<<10) {
		t.Errorf("%d bytes were read, %v", len(read), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// FuzzHello checks that the parser of a ClientHello returns what it read and bounds it.
func FuzzHello(f *testing.F) {
	f.Add(hello(f, &tls.Config{ServerName: "example.org"}))
	f.Add(hello(f, echConfig(f, "public.example")))
	f.Add([]byte("\x16\x03\x01\x00\x05hello"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, read, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, read) || len(read) > maxHello+(17<<10) {
			t.Fatalf("%d of %d bytes", len(read), len(b))
		}
		if (h == nil) == (err == nil) {
			t.Fatal(h, err)
		}
		if h != nil && protocolOf(b) != "tls" {
			t.Fatalf("a ClientHello is %q", protocolOf(b))
		}
	})
}

// FuzzProtocol checks that what is recognized does not depend on how many bytes come at once,
// and that what an HTTP server would read is recognized.
func FuzzProtocol(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "GET http://a/ HTTP/1.1", "CONNECT a:1 HTTP/1.1", "PRI * HTTP/2.0\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01", "EHLO x\r\n", "", "PRI"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		for n < len(b) && n < maxPeek && undecided(b[:n]) {
			n++
		}
		whole := b[:min(len(b), maxPeek)]
		if got, want := protocolOf(b[:n]), protocolOf(whole); got != want && n < len(whole) {
			t.Fatalf("%q is %q after %d bytes, %q after %d", b, got, n, want, len(whole))
		}
		if strings.HasPrefix(string(b), preface) && protocolOf(whole) != "" {
			t.Fatal("HTTP/2 in clear was recognized")
		}
	})
}

// FuzzSameHost checks the comparison of a Host header against what net/url reads in it.
func FuzzSameHost(f *testing.F) {
	for _, s := range []string{"example.org", "EXAMPLE.org.", "example.org:443", "a@example.org", "example.org:443:443", "[example.org]", "example.org/x", "example.org#", "[::1]:443", "192.0.2.1", "::ffff:192.0.2.1", "exam\u212Ale.org"} {
		f.Add(s)
	}
	name := policy.Target{Host: "example.org", Port: 443}
	addr := policy.Target{Host: "192.0.2.1", Port: 443}
	six := policy.Target{Host: "2001:db8::1", Port: 443}
	f.Fuzz(func(t *testing.T, host string) {
		if sameHost(host, name) {
			u, err := url.Parse("https://" + host + "/")
			if host == "[example.org]" {
				return // net/http refuses it before
			}
			if err != nil || !strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "example.org") || u.User != nil || u.Port() != "" && u.Port() != "443" {
				t.Fatalf("%q is the target, and is %v, %v", host, u, err)
			}
		}
		if sameHost(host, addr) && !strings.Contains(host, "192.0.2.1") && !strings.Contains(strings.ToLower(host), "c000:201") && !strings.Contains(strings.ToLower(host), "c000:0201") {
			t.Fatalf("%q is the address", host)
		}
		sameHost(host, six)
		if to, err := targetOf(host, "443"); err == nil && !sameHost(hostPort(to), to) {
			t.Fatalf("%q is %+v", host, to)
		}
	})
}

// FuzzRequest sends any bytes as requests: the server must never see another host.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
		"GET http://evil.example/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	r := newRig(f)
	foreign := make(chan string, 1)
	r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !sameHost(req.Host, policy.Target{Host: "example.org", Port: 80}) {
			select {
			case foreign <- req.Host:
			default:
			}
		}
	}), "example.org")
	f.Fuzz(func(t *testing.T, b []byte) {
		r.t = t
		c, _ := r.open("example.org:80")
		go func() {
			c.Write(b)
			c.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(io.Discard, c)
		c.Close()
		select {
		case host := <-foreign:
			t.Fatalf("the server got a request for %q from %q", host, b)
		default:
		}
	})
}
