package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"golang.org/x/net/dns/dnsmessage"

	"hortus.dev/api"
	"hortus.dev/internal/server/certificate"
	"hortus.dev/test/patience"
)

// selfSigned writes the certificate of package httptest, which is valid for example.com and 127.0.0.1, and its key.
func selfSigned(t *testing.T) (cfg certificate.Config, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	cfg = certificate.Config{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cfg.CertFile: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, cfg.KeyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return cfg, roots
}

// serveTLS serves a handler the way a daemon does.
func serveTLS(t *testing.T, cfg Config, h http.Handler) Listeners {
	t.Helper()
	on, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{Servers: []Server{{Takes: Below("/"), Handler: h}}, Rest: time.Minute, TLS: on.TLS}
	servers := map[*http.Server]net.Listener{NewServer(f, f.TLS, cfg.Bounds, func(net.Conn, http.ConnState) {}, slog.New(slog.DiscardHandler)): on.Listener}
	if on.Redirect != nil {
		servers[on.RedirectServer] = on.Redirect
	}
	for srv, ln := range servers {
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		t.Cleanup(func() { srv.Close(); <-served })
	}
	return on
}

// TestTLS: HTTP/1 and HTTP/2 are served over TLS, and what is refused without it is refused inside of it too.
func TestTLS(t *testing.T) {
	files, roots := selfSigned(t)
	on := serveTLS(t, Config{Listen: "127.0.0.1:0", TLS: files, Bounds: Bounds{Conns: 8, PerAddress: 8}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "%s %s %t %s", r.Proto, r.Host, r.TLS != nil, b)
	}))
	addr := on.Listener.Addr().String()
	if want := "https://example.com:" + addr[len("127.0.0.1:"):]; on.URL != want {
		t.Errorf("URL %s, want %s", on.URL, want)
	}
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: proto == "HTTP/2.0"}, Timeout: patience.Of(time.Minute)}
		for range 2 { // the second on the same connection
			resp, err := c.Post("https://"+addr+"/x", "text/plain", strings.NewReader("words"))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := proto + " " + addr + " true words"; string(b) != want {
				t.Errorf("%q, want %q", b, want)
			}
		}
		c.CloseIdleConnections()
	}
	send := func(raw string, protocols ...string) string {
		t.Helper()
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, NextProtos: protocols})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
		io.WriteString(c, raw)
		b, _ := io.ReadAll(c)
		return string(b)
	}
	const hidden = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	const plain = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, c := range map[string]struct {
		raw, protocol, want string
	}{
		"the control":                           {plain, "http/1.1", "HTTP/1.1 x true "},
		"no protocol":                           {plain, "", "HTTP/1.1 x true "},
		"two lengths":                           {hidden, "http/1.1", "400"},
		"HTTP/1 on a connection of HTTP/2":      {plain, "h2", ""},
		"a hidden request as HTTP/2":            {hidden, "h2", ""},
		"HTTP/2 on a connection of HTTP/1":      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "http/1.1", "400"},
		"a preface that ends as another text":   {"PRI * HTTP/2.0\r\n\r\n" + plain, "h2", ""},
		"a preface that ends as another HTTP/1": {"PRI * HTTP/2.0\r\n\r\n" + plain, "http/1.1", "400"},
	} {
		var protocols []string
		if c.protocol != "" {
			protocols = []string{c.protocol}
		}
		got := send(c.raw, protocols...)
		if c.want == "" && strings.Contains(got, "200 OK") || !strings.Contains(got, c.want) || strings.Contains(c.want, "400") && strings.Contains(got, "200 OK") {
			t.Errorf("%s: %q", name, got)
		}
	}
	// A request without TLS is told what to do.
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
	io.WriteString(c, plain)
	if b, _ := io.ReadAll(c); strings.Count(string(b), "HTTP/1.1 400") != 1 || !strings.Contains(string(b), "use https://") {
		t.Errorf("without TLS: %q", b)
	}
	// Clients that do not finish their handshake hold up nobody: not the listener when it has no space, and not
	// the next client, for whom one of them makes way.
	for range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if got := send(plain, "http/1.1"); !strings.Contains(got, "200 OK") {
		t.Errorf("beside silent clients: %q", got)
	}
}

// TestTwoNames: a request of HTTP/2 has one name.
func TestTwoNames(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.ProtoMajor = 2
	if err := checkForm(r); err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Host", "another")
	if err := checkForm(r); api.KindOf(err) != api.KindInvalid {
		t.Errorf("%v", err)
	}
}

// TestRedirect: browsers are led to HTTPS; what holds a key is not asked to send it again.
func TestRedirect(t *testing.T) {
	to := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}
	for _, c := range []struct {
		method, target, host, header string
		code                         int
		location                     string
	}{
		{"GET", "/a%2Fb?c=%20d", "box.example:80", "", 307, "https://box.example:8443/a%2Fb?c=%20d"},
		{"HEAD", "/", "[::1]", "", 307, "https://[::1]:8443/"},
		{"GET", "//evil.example/x", "box.example", "", 307, "https://box.example:8443//evil.example/x"},
		{"GET", "/", "box.example@evil.example", "", 400, ""},
		{"GET", "/", "", "", 400, ""},
		{"GET", "http://evil.example/", "box.example", "", 400, ""},
		{"POST", "/", "box.example", "", 403, ""},
		{"GET", "/", "box.example", "X-API-Key", 403, ""},
		{"GET", "/", "box.example", "Authorization", 403, ""},
		{"GET", "/", "box.example", "X-Access-Token", 403, ""},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.RequestURI, r.Host = c.target, c.host
		if u, err := r.URL.Parse(c.target); err == nil && !strings.HasPrefix(c.target, "//") {
			r.URL = u
		} else {
			r.URL.Path = c.target
		}
		if c.header != "" {
			r.Header.Set(c.header, "secret")
		}
		w := httptest.NewRecorder()
		redirectTo(to).ServeHTTP(w, r)
		if w.Code != c.code || w.Header().Get("Location") != c.location || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%+v: %d %s %s", c, w.Code, w.Header().Get("Location"), w.Body)
		}
	}
}

// TestConfigOfTLS: what does not fit together is refused before anything listens.
func TestConfigOfTLS(t *testing.T) {
	files, _ := selfSigned(t)
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"a redirection to nothing":           {Config{Listen: "127.0.0.1:0", Redirect: "127.0.0.1:0"}, "no TLS to redirect to"},
		"a domain that is not covered":       {Config{Listen: "127.0.0.1:0", TLS: files, Domain: "box.example"}, "not valid for the names of ports, *.box.example"},
		"a domain of ACME":                   {Config{Listen: "127.0.0.1:0", TLS: certificate.Config{Names: []string{"box.example"}}, Domain: "box.example"}, "not valid for the names of ports"},
		"a domain with a path":               {Config{Listen: "127.0.0.1:0", Domain: "box.example/x"}, "is not a domain"},
		"a domain in capitals":               {Config{Listen: "127.0.0.1:0", Domain: "Box.example"}, "is not a domain"},
		"a domain with a wildcard":           {Config{Listen: "127.0.0.1:0", Domain: "*.box.example"}, "is not a domain"},
		"a domain with a bad port":           {Config{Listen: "127.0.0.1:0", Domain: "box.example:x"}, "is not a domain"},
		"the control: every address":         {Config{Listen: ":0", TLS: files}, ""},
		"the control: a domain without TLS":  {Config{Listen: "127.0.0.1:0", Domain: "box.example:8443"}, ""},
		"the control: a domain of the names": {Config{Listen: "127.0.0.1:0", TLS: files, Domain: "example.com:7443"}, ""},
	} {
		err := Check(t.Context(), c.cfg)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || api.HintOf(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACME obtains certificates from a real ACME server, over either challenge, and starts again without it.
func TestACME(t *testing.T) {
	for _, challenge := range []string{"tls-alpn-01", "http-01"} {
		t.Run(challenge, func(t *testing.T) { testACME(t, challenge) })
	}
}

func testACME(t *testing.T, challenge string) {
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	// The ports are known before the authority is, which connects to them.
	tlsPort, httpPort := freePort(t), freePort(t)
	logger := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	authority := ca.New(logger, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	validator := va.New(logger, httpPort, tlsPort, true, resolver(t), store)
	front := wfe.New(logger, store, validator, authority, nil, true, false, 0, 0)
	directory := httptest.NewTLSServer(front.Handler())
	defer directory.Close()
	dir := t.TempDir()
	caFile := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: directory.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cfg := Config{
		Listen: "127.0.0.1:" + strconv.Itoa(tlsPort),
		TLS: certificate.Config{Names: []string{"hortus.example.org"}, Directory: directory.URL + wfe.DirectoryPath, CAFile: caFile, Cache: filepath.Join(dir, "cache"), Email: "ada@example.org",
			Logger: slog.New(slog.NewTextHandler(&said, nil))},
	}
	if challenge == "http-01" {
		cfg.Redirect = "127.0.0.1:" + strconv.Itoa(httpPort)
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.GetRootCert(0).Cert)
	ask := func(name string) error {
		c := &http.Client{Timeout: patience.Of(time.Minute), Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", cfg.Listen)
			},
		}}
		resp, err := c.Get("https://" + name + "/")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		return nil
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	t.Run("first", func(t *testing.T) {
		on := serveTLS(t, cfg, hello)
		if want := "https://hortus.example.org:" + strconv.Itoa(tlsPort); on.URL != want {
			t.Errorf("URL %s, want %s", on.URL, want)
		}
		if err := ask("hortus.example.org"); err != nil {
			t.Errorf("%v\n%s", err, &said)
		}
		if err := ask("other.example.org"); err == nil || strings.Contains(said.String(), "other.example.org") {
			t.Errorf("a name that is not configured: %v\n%s", err, &said)
		}
	})
	directory.Close()
	t.Run("again", func(t *testing.T) {
		serveTLS(t, cfg, hello)
		if err := ask("hortus.example.org"); err != nil {
			t.Errorf("from the stored certificate: %v\n%s", err, &said)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		cfg.TLS.Cache = filepath.Join(dir, "empty")
		serveTLS(t, cfg, hello)
		if err := ask("hortus.example.org"); err == nil || !strings.Contains(said.String(), "port 443 of this name must lead to") {
			t.Errorf("without the authority: %v\n%s", err, &said)
		}
	})
}

// freePort returns a port that nothing listens on at the moment.
func freePort(t *testing.T) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// resolver serves DNS over TCP: each name has the address 127.0.0.1.
func resolver(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
			if err := resolve(c); err != nil {
				t.Error(err)
			}
			c.Close()
		}
	}()
	return ln.Addr().String()
}

// resolve answers one question.
func resolve(c net.Conn) error {
	br := bufio.NewReader(c)
	var length uint16
	if err := binary.Read(br, binary.BigEndian, &length); err != nil {
		return err
	}
	raw := make([]byte, length)
	if _, err := io.ReadFull(br, raw); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		return err
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	}
	out, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	return err
}
