package strict_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/internal/server/strict"
	wait "hortus.dev/test/patience"
)

// world is a server whose handler notes each request.
type world struct {
	addr string
	mu   sync.Mutex
	seen []string
}

func serve(t *testing.T, guarded bool) *world {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{addr: ln.Addr().String()}
	srv := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		w.mu.Lock()
		w.seen = append(w.seen, r.Method+" "+r.URL.Path+" "+string(b))
		w.mu.Unlock()
		if r.URL.Path == "/upgrade" {
			c, buf, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			line, err := buf.ReadString('!')
			io.WriteString(c, line)
			if err != nil {
				t.Error(err)
			}
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(rw, "ok "+string(b))
	}), ConnState: strict.State, ErrorLog: nil, ReadHeaderTimeout: time.Minute}
	var l net.Listener = ln
	if guarded {
		l = strict.NewListener(ln, strict.Limits{})
	}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Of(60*time.Second))
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-done
	})
	return w
}

// send writes bytes, in pieces of a size, and gives all that comes back.
func (w *world) send(t *testing.T, raw string, piece int) string {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		for s := raw; s != ""; {
			n := min(piece, len(s))
			if _, err := io.WriteString(c, s[:n]); err != nil {
				return // it was closed: the test reads why
			}
			s = s[n:]
		}
		c.(*net.TCPConn).CloseWrite()
	}()
	b, _ := io.ReadAll(c)
	return string(b)
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

// smuggled are requests that hide another one, GET /hidden, from anyone who reads them
// in another way. through says that package net/http alone serves the first.
var smuggled = []struct {
	name, raw string
	through   bool
}{
	{"length and coding", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 36\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"coding and length", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 36\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"two lengths", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"the same length twice", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nz", true},
	{"a list of lengths", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"a signed length", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nz", false},
	{"two codings", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"another coding", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false},
	{"no coding", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"coding of HTTP/1.0", "POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
	{"a blank before the colon", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length : 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"a folded line", "POST /a HTTP/1.1\r\nHost: x\r\nX: y\r\n Content-Length: 33\r\n\r\n", true},
	{"line ends without CR", "GET /a HTTP/1.1\nHost: x\n\n", true},
	{"a CR in a line", "GET /a HTTP/1.1\r\nHost: x\r\nX: a\rContent-Length: 5\r\n\r\n", false},
	{"NUL in a line", "GET /a HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", false},
	{"two hosts", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", false},
	{"an odd name", "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length\x0b: 5\r\n\r\n", false},
	{"a huge length", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", false},
	{"an endless head", "GET /a HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 3<<20), false},
}

// bodies end in the middle of a request that a handler knows of already: it must not
// take what came for all of it.
var bodies = []struct{ name, raw string }{
	{"an extension of a chunk", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\nz\r\n0\r\n\r\n"},
	{"a chunk that is longer than it says", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nzz\r\n0\r\n\r\n"},
	{"a signed size", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\nz\r\n0\r\n\r\n"},
	{"a size with an underscore", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0_1\r\nz\r\n0\r\n\r\n"},
	{"a size without CR", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\nz\r\n0\r\n\r\n"},
	{"a huge size", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nz\r\n0\r\n\r\n"},
}

func TestSmuggling(t *testing.T) {
	for _, piece := range []int{1 << 30, 7} {
		w := serve(t, true)
		for _, c := range smuggled {
			if piece < 100 && len(c.raw) > 1<<20 {
				continue
			}
			got := w.send(t, c.raw, piece)
			if seen := w.requests(); len(seen) != 0 {
				t.Fatalf("%s, in pieces of %d: a handler saw %q", c.name, piece, seen)
			}
			if !strings.HasPrefix(got, "HTTP/1.1 400 ") && !strings.HasPrefix(got, "HTTP/1.1 431 ") || strings.Count(got, "HTTP/1.1") != 1 {
				// A peer that was still sending may lose the answer to a reset.
				if len(c.raw) < 1<<20 {
					t.Errorf("%s, in pieces of %d: answered %q", c.name, piece, got)
				}
			}
		}
		for _, c := range bodies {
			got := w.send(t, c.raw, piece)
			if strings.Contains(got, " 200 ") {
				t.Errorf("%s, in pieces of %d: answered %q", c.name, piece, got)
			}
		}
	}
	// The control: without the listener the generous reading gets through.
	w := serve(t, false)
	for _, c := range smuggled {
		if len(c.raw) > 1<<20 {
			continue
		}
		before := len(w.requests())
		got := w.send(t, c.raw, 1<<30)
		if through := len(w.requests()) > before; through != c.through {
			t.Errorf("%s, to package net/http alone: through %v, want %v (%q)", c.name, through, c.through, got)
		}
	}
}

// TestAfterGoodComesBad sends a good request, and behind it in one piece a bad one.
func TestAfterGoodComesBad(t *testing.T) {
	w := serve(t, true)
	good := "POST /good HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	got := w.send(t, good+smuggled[0].raw, 1<<30)
	if seen := w.requests(); len(seen) != 1 || seen[0] != "POST /good abc" {
		t.Errorf("seen %q", seen)
	}
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") || strings.Count(got, "HTTP/1.1 400 ") != 1 {
		t.Errorf("answered %q", got)
	}
}

// TestPlainRequestsPass keeps a connection for requests of every form.
func TestPlainRequestsPass(t *testing.T) {
	for _, piece := range []int{1 << 30, 1} {
		w := serve(t, true)
		raw := "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n" +
			"POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345" +
			"POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" +
			"POST /4 HTTP/1.1\r\nHost: x\r\ntransfer-encoding: Chunked\r\nX-Odd_name: a b\r\n\r\nA\r\n0123456789\r\n3\r\nabc\r\n0\r\nTrailer: t\r\n\r\n" +
			"GET /5 HTTP/1.1\r\nHost: x\r\n\r\n"
		got := w.send(t, raw, piece)
		want := []string{"GET /1 ", "POST /2 12345", "POST /3 ", "POST /4 0123456789abc", "GET /5 "}
		if seen := w.requests(); strings.Join(seen, "|") != strings.Join(want, "|") || strings.Contains(got, " 400 ") {
			t.Errorf("in pieces of %d: seen %q\nanswered %q", piece, seen, got)
		}
	}
}

// TestUpgrade uses a connection for something else once the server has agreed.
func TestUpgrade(t *testing.T) {
	w := serve(t, true)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: y\r\n\r\n")
	r := bufio.NewReader(c)
	for line := ""; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	const odd = "\x00\r\r\n\nGET : no request!"
	io.WriteString(c, odd)
	if b, err := io.ReadAll(r); err != nil || string(b) != odd {
		t.Errorf("after the upgrade: %q, %v", b, err)
	}
}

// TestLongBody passes more than any buffer holds.
func TestLongBody(t *testing.T) {
	w := serve(t, true)
	body := strings.Repeat("0123456789abcdef", 1<<16)
	resp, err := http.Post("http://"+w.addr+"/long", "text/plain", io.MultiReader(strings.NewReader(body))) // of unknown length
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(bufio.NewReader(resp.Body))
	if err != nil || string(b) != "ok "+body {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
