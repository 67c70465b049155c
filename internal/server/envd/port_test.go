package envd_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	server "hortus.dev/internal/server/envd"
)

func TestPort(t *testing.T) {
	f, id := newFakes()
	var got *http.Request
	var body string
	f.port = func(port int, c netConn) {
		if port != 3000 {
			t.Errorf("port %d was dialled", port)
		}
		answers(func(r *http.Request, b string) { got, body = r, b },
			"HTTP/1.1 201 Made\r\nSet-Cookie: a=b\r\nX-Own: 1\r\nLocation: /x\r\nStrict-Transport-Security: max-age=1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nhi")(c)
	}
	addr := serve(t, f)
	host := "3000-" + string(id) + ".sbx.localhost:8080"
	secrets := map[string]string{
		"X-Access-Token": "envd" + string(id), "X-Api-Key": "e2b_0", "E2b-Traffic-Access-Token": "traffic" + string(id),
		"Authorization": "Bearer its-own", "Cookie": "c=d", "X-Forwarded-For": "6.6.6.6", "Connection": "X-Gone", "X-Gone": "1",
	}
	a := ask{method: "PUT", path: "/a%2fb/../c?q=1&q=2;x", host: host, body: "words", header: secrets}.to(t, addr)
	if a.status != 201 || a.body != "hi" || a.header.Get("Set-Cookie") != "a=b" || a.header.Get("X-Own") != "1" || a.header.Get("Location") != "/x" || a.header.Get("X-Hop") != "" {
		t.Errorf("%+v", a)
	}
	if a.header.Get("Strict-Transport-Security") == "" {
		t.Error("at an address of its own a sandbox speaks for itself")
	}
	if got.Method != "PUT" || got.RequestURI != "/a%2fb/../c?q=1&q=2;x" || got.Host != host || body != "words" {
		t.Errorf("the port was asked %s %s of %s with %q", got.Method, got.RequestURI, got.Host, body)
	}
	for name, want := range map[string]string{
		"X-Access-Token": "", "X-Api-Key": "", "E2b-Traffic-Access-Token": "", "E2b-Sandbox-Id": "", "X-Gone": "",
		"Authorization": "Bearer its-own", "Cookie": "c=d", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": host, "X-Forwarded-Proto": "http",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("the port was told %s: %q, want %q", name, v, want)
		}
	}
	a = ask{path: "/", header: headers(id, "E2b-Sandbox-Port", "3000")}.to(t, addr)
	if a.status != 201 || a.header.Get("Strict-Transport-Security") != "" {
		t.Errorf("by header: %+v", a)
	}
}

// TestPortSeesNoCredentials sends each secret of the daemon's in every place that a
// client may put one. What the program's own users send gets through beside it.
func TestPortSeesNoCredentials(t *testing.T) {
	f, id := newFakes()
	var text string
	f.port = func(_ int, c netConn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s\n", r.Method, r.RequestURI)
		r.Header.Write(&b)
		r.Trailer.Write(&b)
		text = b.String()
		io.WriteString(c, ok204)
	}
	addr := serve(t, f)
	const key = "e2b_0123456789abcdef0123456789abcdef01234567"
	const signature = "v1_0123456789abcdefghijABCDEFGHIJ0123456789abc"
	b64 := base64.StdEncoding.EncodeToString
	for _, secret := range []string{key, "envd" + string(id), "traffic" + string(id)} {
		for _, line := range []string{
			"Authorization: Bearer " + secret, "Authorization: bEARER " + secret, "Authorization: Token " + secret,
			"Authorization: Basic " + b64([]byte(secret+":")), "Authorization: Basic " + b64([]byte("user:"+secret)),
			"Proxy-Authorization: Bearer " + secret, "X-API-Key: " + secret, "X-Access-Token: " + secret, "E2b-Traffic-Access-Token: " + secret,
			"X-Goog-Api-Key: " + secret, "Cookie: mine=1; k=" + secret, "Sec-WebSocket-Protocol: chat, bearer." + b64([]byte(secret+"  ")),
			"Referer: http://h/?k=" + secret, "Referer: http://h/files?path=a&signature=" + signature,
			"Trailer: X-Late\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Late: " + secret,
		} {
			text = ""
			got := raw(t, addr, "POST /a?own=1&k="+secret+"&signature="+signature+"&own=2 HTTP/1.1\r\nHost: 3000-"+string(id)+".x\r\nX-Own: its-own\r\nConnection: close\r\n"+line+"\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 204 ") || !strings.Contains(text, "POST /a?own=1&own=2\n") || !strings.Contains(text, "X-Own: its-own") {
				t.Errorf("%s: %q; the port saw %q", line, got, text)
			}
			for _, never := range []string{secret, signature, b64([]byte(secret + ":")), b64([]byte("user:" + secret)), b64([]byte(secret + "  "))} {
				if strings.Contains(text, never) {
					t.Errorf("%s: the port saw %q", line, text)
				}
			}
		}
		if got := raw(t, addr, "GET /"+secret+" HTTP/1.1\r\nHost: 3000-"+string(id)+".x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.Contains(got, secret) {
			t.Errorf("in the path: %q", got)
		}
	}
	// The controls: a program's own credentials.
	for _, line := range []string{
		"Authorization: Bearer its-own", "Authorization: Basic " + b64([]byte("user:password")), "Authorization: Digest username=\"u\"",
		"Cookie: e2b_session=1; token=x", "Sec-Websocket-Protocol: chat, token.abc", "Referer: http://h/?signature=its-own",
	} {
		raw(t, addr, "GET / HTTP/1.1\r\nHost: 3000-"+string(id)+".x\r\nConnection: close\r\n"+line+"\r\n\r\n")
		if !strings.Contains(text, line) {
			t.Errorf("%s did not get through: %q", line, text)
		}
	}
}

// TestInterpreterPort: the server of E2B's code interpreter gets the token that its client
// sends it, and no other secret; a program at another port gets none.
func TestInterpreterPort(t *testing.T) {
	f, id := newFakes()
	var got http.Header
	f.port = func(_ int, c netConn) {
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			got = r.Header
		}
		io.WriteString(c, ok204)
	}
	addr := serve(t, f)
	own := "envd" + string(id)
	for name, c := range map[string]struct {
		port, line, want string
	}{
		"the token":              {"49999", "X-Access-Token: " + own, own},
		"at another port":        {"3000", "X-Access-Token: " + own, ""},
		"an API key":             {"49999", "X-Access-Token: e2b_0123456789abcdef0123456789abcdef01234567", ""},
		"the traffic token":      {"49999", "X-Access-Token: traffic" + string(id), ""},
		"another sandbox's":      {"49999", "X-Access-Token: envdother", ""},
		"two":                    {"49999", "X-Access-Token: " + own + "\r\nX-Access-Token: " + own, ""},
		"under another name":     {"49999", "X-Mine: " + own, ""},
		"as a password":          {"49999", "Authorization: Bearer " + own, ""},
		"with an API key beside": {"49999", "X-Access-Token: " + own + "\r\nX-API-Key: e2b_0123456789abcdef0123456789abcdef01234567", own},
	} {
		got = nil
		raw(t, addr, "GET / HTTP/1.1\r\nHost: "+c.port+"-"+string(id)+".x\r\nConnection: close\r\n"+c.line+"\r\n\r\n")
		if got == nil || got.Get("X-Access-Token") != c.want || got.Get("X-Mine")+got.Get("Authorization")+got.Get("X-Api-Key") != "" {
			t.Errorf("%s: the port saw %v; want %q", name, got, c.want)
		}
	}
}

// TestListedOriginOfInterpreter: where the front has allowed a page, a program at the interpreter's port allows no other
// one, and no cookies; elsewhere its answer is its own.
func TestListedOriginOfInterpreter(t *testing.T) {
	f, id := newFakes()
	const own = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Mine: 1\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n\r\n"
	f.port = func(_ int, c netConn) { answers(nil, own)(c) }
	plane := server.New(server.Config{Sandboxes: f, Tokens: f, Now: f.clock})
	for name, c := range map[string]struct{ allowed, want, credentials string }{
		"a listed page": {"https://app.example.org", "https://app.example.org", ""},
		"another":       {"", "*", "true"},
	} {
		r := httptest.NewRequest("POST", "/execute", nil)
		r.Host = "49999-" + string(id) + ".x"
		if !server.Guest(r) {
			t.Errorf("%s: the front does not answer for the port", name)
		}
		w := httptest.NewRecorder()
		if c.allowed != "" {
			w.Header().Set("Access-Control-Allow-Origin", c.allowed)
		}
		plane.ServeHTTP(w, r)
		if got := w.Header().Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != c.want ||
			w.Header().Get("Access-Control-Allow-Credentials") != c.credentials || w.Header().Get("X-Mine") != "1" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
}

func TestClosedPort(t *testing.T) {
	f, id := newFakes()
	addr := serve(t, f)
	got := ask{path: "/", host: "3000-" + string(id) + ".x"}.to(t, addr)
	want := `{"sandboxId":"` + string(id) + `","message":"The sandbox is running but port is not open","port":3000,"code":502}`
	if got.status != http.StatusBadGateway || strings.TrimSpace(got.body) != want {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestPrivateTraffic(t *testing.T) {
	f, id := newFakes()
	dialled := 0
	f.port = func(_ int, c netConn) { dialled++; answers(nil, ok204)(c) }
	f.change(id, func(b *api.Sandbox) { b.PrivateTraffic = true })
	addr := serve(t, f)
	host := "3000-" + string(id) + ".x"
	right := "traffic" + string(id)
	for name, tt := range map[string]struct {
		token  string
		status int
	}{
		"right": {right, 204}, "none": {"", 403}, "wrong": {"x", 403}, "cut": {right[:5], 403}, "envd's": {"envd" + string(id), 403},
	} {
		h := map[string]string{}
		if tt.token != "" {
			h["E2b-Traffic-Access-Token"] = tt.token
		}
		if got := (ask{path: "/", host: host, header: h}).to(t, addr); got.status != tt.status {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if dialled != 1 {
		t.Errorf("the port was dialled %d times", dialled)
	}
}

const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

// TestWebSocket: after the port has agreed, bytes go both ways.
func TestWebSocket(t *testing.T) {
	f, id := newFakes()
	f.port = func(_ int, c netConn) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+upgrade+"\r\nfirst ")
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(c, strings.ToUpper(line))
		}
	}
	addr := serve(t, f)
	c := dial(t, addr)
	defer c.Close()
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: 3000-%s.x\r\n%s\r\n", id, upgrade)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "websocket" {
		t.Fatal(resp, err)
	}
	for n, want := range []string{"first ONE\n", "TWO\n"} {
		io.WriteString(c, []string{"one\n", "two\n"}[n])
		if line, err := br.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// TestHostilePort plays programs that break HTTP.
func TestHostilePort(t *testing.T) {
	for name, say := range map[string]string{
		"nothing":             "",
		"garbage":             "\x00\xff not http\r\n\r\n",
		"unasked change":      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw",
		"unasked, of nothing": "HTTP/1.1 101 Switching Protocols\r\n\r\nraw",
		"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
		"a header's end":      "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\nBad Name: x\r\n\r\n",
		"a long header":       "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			f, id := newFakes()
			f.port = func(_ int, c netConn) { answers(nil, say)(c) }
			got := ask{path: "/", host: "3000-" + string(id) + ".x"}.to(t, serve(t, f))
			if got.status != http.StatusBadGateway || !strings.Contains(got.body, `"code":502`) || strings.Contains(fmt.Sprint(got), "raw") {
				t.Errorf("%+v", got)
			}
		})
	}
	// A second answer behind the first is nobody's.
	f, id := newFakes()
	f.port = func(_ int, c netConn) {
		answers(nil, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")(c)
	}
	one := fmt.Sprintf("GET / HTTP/1.1\r\nHost: 3000-%s.x\r\n", id)
	got := raw(t, serve(t, f), one+"\r\n"+one+"Connection: close\r\n\r\n")
	if strings.Count(got, "200 OK") != 2 || strings.Contains(got, "evil") {
		t.Errorf("%q", got)
	}
}

// TestSmuggling sends a request within a request: what is inside a body is not
// looked at, whatever its length is said to be.
func TestSmuggling(t *testing.T) {
	f, id := newFakes()
	var paths []string
	f.port = func(_ int, c netConn) {
		answers(func(r *http.Request, _ string) { paths = append(paths, r.URL.Path) }, ok204)(c)
	}
	addr := serve(t, f)
	inner := fmt.Sprintf("GET /inner HTTP/1.1\r\nHost: 3000-%s.x\r\n\r\n", id)
	head := fmt.Sprintf("POST /outer HTTP/1.1\r\nHost: 3000-%s.x\r\nConnection: close\r\n", id)
	for _, text := range []string{
		head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
		head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n%s", len(inner), inner, inner),
		head + fmt.Sprintf("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", inner),
		head + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
		head + fmt.Sprintf("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n%s", inner),
		head + fmt.Sprintf("Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n%s", inner),
	} {
		paths = nil
		raw(t, addr, text)
		for _, p := range paths {
			if p != "/outer" {
				t.Errorf("%s was asked for by %q", p, text)
			}
		}
	}
}

// TestStalledClient counts what a guest and a port get rid of when nobody reads. A
// write that waits for long is what shows that nobody does; a slow machine only
// counts less.
func TestStalledClient(t *testing.T) {
	const bound = 32 << 20
	for _, port := range []string{"49983", "3000"} {
		var written atomic.Int64
		stalled := make(chan struct{})
		flood := func(c netConn) {
			defer close(stalled)
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
			chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10)))
			for written.Load() < 8*bound {
				c.SetWriteDeadline(time.Now().Add(2 * time.Second))
				n, err := c.Write(chunk)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
		f, id := newFakes()
		f.guest, f.port = flood, func(_ int, c netConn) { flood(c) }
		c := dial(t, serve(t, f))
		fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: %s-%s.x\r\nX-Access-Token: envd%s\r\n\r\n", port, id, id)
		<-stalled
		if n := written.Load(); n == 0 || n > bound {
			t.Errorf("port %s: %d bytes went out to a client that reads none", port, n)
		}
		c.Close()
	}
}

// TestEndlessHead counts what a port gets rid of as headers.
func TestEndlessHead(t *testing.T) {
	const bound = 4 << 20
	for name, piece := range map[string]string{
		"headers":       "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n",
		"interim heads": "\r\nHTTP/1.1 103 Early Hints\r\nSet-Cookie: evil=1\r\n",
	} {
		var written atomic.Int64
		f, id := newFakes()
		f.port = func(_ int, c netConn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			io.WriteString(c, map[bool]string{true: "HTTP/1.1 200 OK\r\nB: ", false: "HTTP/1.1 103 Early Hints\r\nA: b\r\n"}[name == "headers"])
			for p := strings.Repeat(piece, 64); written.Load() < 2*bound; {
				n, err := io.WriteString(c, p)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
		got := ask{path: "/", host: "3000-" + string(id) + ".x"}.to(t, serve(t, f))
		f.wg.Wait()
		if got.status != http.StatusBadGateway || got.header.Get("Set-Cookie") != "" || written.Load() >= bound {
			t.Errorf("%s: %d after %d bytes", name, got.status, written.Load())
		}
	}
}
