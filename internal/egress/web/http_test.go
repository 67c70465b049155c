package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"hortus.dev/internal/egress/policy"
)

func TestVersions(t *testing.T) {
	r := newRig(t)
	r.https(http.HandlerFunc(echo), "example.org")
	r.http(http.HandlerFunc(echo), "example.org")
	for _, c := range []struct {
		name   string
		client *http.Client
		url    string
		proto  string
		seen   string
	}{
		{"HTTP/2", r.client(), "https://example.org/a?b=c;d&e=%zz", "HTTP/2.0", "HTTP/2.0"},
		{"HTTP/1.1 over TLS", r.h1(), "https://example.org/a", "HTTP/1.1", "HTTP/2.0"},
		{"HTTP/1.1 in clear", r.client(), "http://example.org/a", "HTTP/1.1", "HTTP/1.1"},
	} {
		resp, err := c.client.Post(c.url, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got := body(t, resp); got != "hello" || resp.Proto != c.proto || resp.Header.Get("X-Proto") != c.seen || resp.Header.Get("X-Host") != "example.org" {
			t.Errorf("%s: %q over %s, server saw %v", c.name, got, resp.Proto, resp.Header)
		}
		if e := r.last(); e.Status != 200 || e.Method != "POST" || e.Path != "/a" || e.Address == "" || e.Err != nil {
			t.Errorf("%s: recorded %+v", c.name, e)
		}
	}
}

// TestTransparent checks that nothing is added to or removed from requests and answers, apart
// from what concerns one hop.
func TestTransparent(t *testing.T) {
	r := newRig(t)
	var seen *http.Request
	r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen = req.Clone(context.Background())
		w.Header()["Date"] = nil
		w.Header()["Content-Type"] = nil
		w.Header().Set("Alt-Svc", `h3=":443"`)
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(404)
		io.WriteString(w, "not really gzip")
	}), "example.org")
	c, _ := r.open("example.org:80")
	fmt.Fprint(c, "GET /a%2Fb//c/../d?x=%zz&y=a;b HTTP/1.1\r\nHost: example.org\r\nX-Forwarded-For: 1.2.3.4\r\nX-A: 1\r\nX-A: 2\r\nX-Hop: 1\r\nConnection: X-Hop, keep-alive\r\nKeep-Alive: 3\r\nProxy-Authorization: secret\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp); got != "not really gzip" || resp.StatusCode != 404 {
		t.Errorf("%d %q", resp.StatusCode, got)
	}
	want := http.Header{"Set-Cookie": {"a=1", "b=2"}, "Content-Encoding": {"gzip"}, "Content-Length": {"15"}}
	if fmt.Sprint(resp.Header) != fmt.Sprint(want) {
		t.Errorf("answer: %v\nwant: %v", resp.Header, want)
	}
	want = http.Header{"X-Forwarded-For": {"1.2.3.4"}, "X-A": {"1", "2"}}
	if fmt.Sprint(seen.Header) != fmt.Sprint(want) || seen.RequestURI != "/a%2Fb//c/../d?x=%zz&y=a;b" {
		t.Errorf("request: %s %v\nwant: %v", seen.RequestURI, seen.Header, want)
	}
}

func TestServerSentEvents(t *testing.T) {
	r := newRig(t)
	next := make(chan string)
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		for {
			select {
			case line := <-next:
				io.WriteString(w, line)
				http.NewResponseController(w).Flush()
			case <-req.Context().Done():
				next <- "the server notices that the client left"
				return
			}
		}
	}), "example.org")
	for name, c := range map[string]*http.Client{"HTTP/2": r.client(), "HTTP/1.1": r.h1()} {
		resp, err := c.Get("https://example.org/")
		if err != nil {
			t.Fatal(name, err)
		}
		br := bufio.NewReader(resp.Body)
		for i := range 3 {
			want := fmt.Sprintf("data: %d\n", i)
			next <- want // the next one is sent after this one has arrived
			if got, err := br.ReadString('\n'); err != nil || got != want {
				t.Fatalf("%s: %q, %v", name, got, err)
			}
		}
		resp.Body.Close()
		<-next
	}
}

// TestTrailers is what gRPC needs: both directions stream at the same time, and the status is
// in a trailer.
func TestTrailers(t *testing.T) {
	r := newRig(t)
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Te") != "trailers" || req.ProtoMajor != 2 {
			t.Errorf("TE is %q, %s", req.Header.Get("Te"), req.Proto)
		}
		w.Header().Set("Content-Type", "application/grpc")
		http.NewResponseController(w).Flush()
		br := bufio.NewReader(req.Body)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				break
			}
			io.WriteString(w, line)
			http.NewResponseController(w).Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"X-Request-Trailer", req.Trailer.Get("X-Sum"))
	}), "example.org")
	pr, pw := io.Pipe()
	req, _ := http.NewRequest("POST", "https://example.org/service/Method", pr)
	req.Header.Set("Te", "trailers")
	req.Trailer = http.Header{"X-Sum": nil}
	resp, err := r.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for i := range 3 {
		want := fmt.Sprintf("message %d\n", i)
		io.WriteString(pw, want)
		if got, err := br.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	req.Trailer.Set("X-Sum", "3")
	pw.Close()
	if _, err := io.ReadAll(br); err != nil {
		t.Fatal(err)
	}
	if resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("X-Request-Trailer") != "3" {
		t.Errorf("trailers: %v", resp.Trailer)
	}
}

func TestInformational(t *testing.T) {
	r := newRig(t)
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		if req.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		b, _ := io.ReadAll(req.Body)
		w.Write(b)
	}), "example.org")
	for name, c := range map[string]*http.Client{"HTTP/2": r.client(), "HTTP/1.1": r.h1()} {
		c.Transport.(*http.Transport).ExpectContinueTimeout = c.Timeout
		for _, path := range []string{"/", "/refuse", "/hints"} {
			sent := false
			hints, goOn := 0, 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
					if code == http.StatusEarlyHints {
						hints++
					}
					return nil
				},
				Got100Continue: func() { goOn++ },
			})
			req, _ := http.NewRequestWithContext(ctx, "PUT", "https://example.org"+path, readFunc(func(p []byte) (int, error) {
				if sent {
					return 0, io.EOF
				}
				sent = true
				return copy(p, "body"), nil
			}))
			if path != "/hints" {
				req.Header.Set("Expect", "100-continue")
			} else {
				req.Method, req.Body = "GET", nil
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(name, err)
			}
			got := body(t, resp)
			if path == "/" && (got != "body" || goOn == 0) || path == "/refuse" && resp.StatusCode != 417 || path == "/hints" && hints != 1 {
				t.Errorf("%s %s: %d %q, %d hints, %d times 100", name, path, resp.StatusCode, got, hints, goOn)
			}
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestLargeBodies sends 8 MiB in both directions and compares checksums.
func TestLargeBodies(t *testing.T) {
	const size = 8 << 20
	r := newRig(t)
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == "GET" {
			io.CopyN(w, &pattern{}, size)
			return
		}
		sum := sha256.New()
		io.Copy(sum, req.Body)
		fmt.Fprintf(w, "%x", sum.Sum(nil))
	}), "example.org")
	want := sha256.New()
	io.CopyN(want, &pattern{}, size)
	for name, c := range map[string]*http.Client{"HTTP/2": r.client(), "HTTP/1.1": r.h1()} {
		resp, err := c.Post("https://example.org/", "", io.LimitReader(&pattern{}, size))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := body(t, resp); got != hex(want) {
			t.Errorf("%s: another sum after an upload", name)
		}
		resp, err = c.Get("https://example.org/")
		if err != nil {
			t.Fatal(name, err)
		}
		sum := sha256.New()
		if n, err := io.Copy(sum, resp.Body); n != size || err != nil || hex(sum) != hex(want) {
			t.Errorf("%s: %d bytes, %v, sums equal %v", name, n, err, hex(sum) == hex(want))
		}
		resp.Body.Close()
	}
}

func hex(h hash.Hash) string { return fmt.Sprintf("%x", h.Sum(nil)) }

// pattern is an endless text without a short period.
type pattern struct{ at int }

func (r *pattern) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.at*7 + r.at>>8)
		r.at++
	}
	return len(p), nil
}

func TestWebSocket(t *testing.T) {
	r := newRig(t)
	ws := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "websocket" {
			http.Error(w, "no upgrade", 400)
			return
		}
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(c, brw)
	})
	r.https(ws, "example.org") // the server offers HTTP/2, where there is no upgrade
	r.http(ws, "example.org")
	for _, addr := range []string{"example.org:443", "example.org:80"} {
		c, _ := r.open(addr)
		conn := io.ReadWriter(c)
		if strings.HasSuffix(addr, "443") {
			conn = tls.Client(c, &tls.Config{RootCAs: r.trust, ServerName: "example.org", NextProtos: []string{"http/1.1"}})
		}
		fmt.Fprint(conn, "GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		br := bufio.NewReader(conn)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatal(addr, resp, err)
		}
		for _, m := range []string{"\x81\x01a", "\x81\x02bc"} {
			io.WriteString(conn, m)
			got := make([]byte, len(m))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != m {
				t.Fatalf("%s: %q, %v", addr, got, err)
			}
		}
		c.Close()
	}
}

// TestRecheck checks that a change of the policy ends requests that it does not allow, and no
// others.
func TestRecheck(t *testing.T) {
	r := newRig(t)
	began := make(chan struct{}, 2)
	more := make(chan struct{})
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, "begin\n")
		http.NewResponseController(w).Flush()
		began <- struct{}{}
		select {
		case <-more:
		case <-req.Context().Done():
		}
		io.WriteString(w, "end\n")
	}), "example.org")
	c := r.client()
	kept, err := c.Get("https://example.org/kept")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Body.Close()
	ended, err := c.Get("https://example.org/ended")
	if err != nil {
		t.Fatal(err)
	}
	defer ended.Body.Close()
	<-began
	<-began
	r.server.Recheck(func(g Grant, method, path string) bool { return g.Host == "example.org" && path == "/kept" })
	if b, err := io.ReadAll(ended.Body); err == nil || bytes.Contains(b, []byte("end\n")) {
		t.Errorf("the request was not ended: %q", b)
	}
	close(more)
	if b, err := io.ReadAll(kept.Body); err != nil || string(b) != "begin\nend\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRecheckWhileDeciding checks that a decision that the policy's change overtook is made
// again.
func TestRecheckWhileDeciding(t *testing.T) {
	r := newRig(t)
	r.http(http.HandlerFunc(echo), "example.org")
	calls := 0
	r.requests = func(Grant, string, string) error {
		if calls++; calls == 1 {
			r.server.Recheck(func(Grant, string, string) bool { return false })
			return nil
		}
		return &Refusal{Reason: policy.ReasonNoRule}
	}
	if resp, text := get(t, r.client(), "http://example.org/"); resp.StatusCode != 403 || text != "hortus: no rule matches\n" || calls != 2 {
		t.Errorf("%d %q after %d decisions", resp.StatusCode, text, calls)
	}
}

// TestServerErrors checks what a client reads if its server cannot be used.
func TestServerErrors(t *testing.T) {
	r := newRig(t)
	other := newRig(t) // its servers have certificates of another authority
	other.world, _ = newCA(t, 3)
	r.addresses["untrusted.example:443"] = other.https(http.HandlerFunc(echo)).Listener.Addr().String()
	wrong := r.https(http.HandlerFunc(echo))
	wrong.TLS.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.world.Leaf("other.example") }
	r.addresses["wrong.example:443"] = wrong.Listener.Addr().String()
	r.addresses["closed.example:80"] = "127.0.0.1:1"
	r.http(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		c.Close()
	}), "switch.example")
	for url, want := range map[string]string{
		"https://untrusted.example/": "hortus: the certificate of untrusted.example:443 is not valid: certificate signed by unknown authority",
		"https://wrong.example/":     "hortus: the certificate of wrong.example:443 is not valid: certificate is valid for other.example, not wrong.example\n",
		"http://missing.example/":    "hortus: missing.example does not resolve\n",
		"http://switch.example/":     "hortus: the server switched protocols without being asked\n",
	} {
		resp, text := get(t, r.client(), url)
		if resp.StatusCode != 502 || !strings.HasPrefix(text, want) || resp.Header.Get("X-Hortus-Egress") != "failed" {
			t.Errorf("%s: %d %q", url, resp.StatusCode, text)
		}
		if e := r.last(); e.Err == nil || e.Err.Error() == "" {
			t.Errorf("%s: recorded %+v", url, e)
		}
	}
}

func TestDeniedRequest(t *testing.T) {
	r := newRig(t)
	r.https(http.HandlerFunc(echo), "example.org")
	r.requests = func(g Grant, method, path string) error {
		if slices.Contains([]string{"/a", "/%2e%2e/a", "/a//b"}, path) && method == "GET" {
			return nil
		}
		return &Refusal{Reason: "the method or path is not allowed", Hint: "hortus egress allow x"}
	}
	c := r.client()
	if resp, _ := get(t, c, "https://example.org/a?q"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	// The policy gets the path as it was sent.
	if resp, _ := get(t, c, "https://example.org/a//b"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	resp, text := get(t, c, "https://example.org/b")
	if resp.StatusCode != 403 || text != "hortus: the method or path is not allowed\nhortus egress allow x\n" || resp.Header.Get("X-Hortus-Egress") != "denied" {
		t.Errorf("%d %q %v", resp.StatusCode, text, resp.Header)
	}
	if r.dials != 1 {
		t.Errorf("%d connections to the server", r.dials)
	}
}

func TestTooManyRequests(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Requests = 1 })
	began, more := make(chan struct{}), make(chan struct{})
	r.https(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(began); <-more }), "example.org")
	c := r.client()
	first := make(chan int)
	go func() {
		resp, err := c.Get("https://example.org/")
		if err != nil {
			first <- 0
			return
		}
		resp.Body.Close()
		first <- resp.StatusCode
	}()
	<-began
	if resp, text := get(t, c, "https://example.org/"); resp.StatusCode != 503 || text != "hortus: too many requests at once\n" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	close(more)
	if status := <-first; status != 200 {
		t.Errorf("the first request: %d", status)
	}
}
