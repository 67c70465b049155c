package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// TestMaxConnections opens more connections than allowed, half of them with one half closed:
// neither kind may hold more than the maximum. Another sandbox is not affected.
func TestMaxConnections(t *testing.T) {
	r := newRig(t, func(c *Config) { c.half = time.Hour })
	port := r.silent()
	p := rules(allow("example.org", port, api.EgressTCP))
	p.MaxConnections = 8
	_, l := r.serve(p)
	_, other := r.serve(p)
	for i := range 8 {
		c, a := l.connect("example.org", port)
		if !a.OK {
			t.Fatalf("connection %d: %+v", i, a)
		}
		if i%2 == 0 {
			c.(*net.UnixConn).CloseWrite()
		}
	}
	for range 3 {
		c, a := l.connect("example.org", port)
		if a.Error != envd.EgressErrBusy {
			t.Fatalf("one too many: %+v", a)
		}
		ended(t, c)
	}
	if a := ask(t, l.open(), envd.EgressRequest{Op: envd.EgressResolve, Name: "example.org"}); !a.OK {
		t.Errorf("names are asked for without a connection: %+v", a)
	}
	d := r.records.find(t, "too many", func(d api.EgressDecision) bool { return strings.Contains(d.Reason, "maximum") })
	if d.Result != api.EgressDenied || d.Reason != "the sandbox has 8 open connections, which is the maximum" {
		t.Errorf("%+v", d)
	}
	if _, a := other.connect("example.org", port); !a.OK {
		t.Errorf("another sandbox: %+v", a)
	}
}

// TestHalfClosed checks that connections that the guest left are free again, although their
// server does not end them.
func TestHalfClosed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.half = 10 * time.Millisecond })
	port := r.silent()
	p := rules(allow("example.org", port, api.EgressTCP))
	p.MaxConnections = 4
	_, l := r.serve(p)
	for range 4 {
		c, _ := l.connect("example.org", port)
		c.Close()
	}
	until(t, "a connection is free", func() bool {
		c, a := l.connect("example.org", port)
		if !a.OK {
			c.Close()
		}
		return a.OK
	})
}

// silent is a server that reads, and neither writes nor closes before its client does.
func (r *rig) silent() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				<-done
			})
		}
	})
	r.t.Cleanup(func() { l.Close(); close(done); all.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

// TestOpenStreams checks that streams without a request are bounded too.
func TestOpenStreams(t *testing.T) {
	r := newRig(t)
	p := rules()
	p.MaxConnections = 4
	s, l := r.serve(p)
	var open []net.Conn
	for range 4 + 2*maxResolvers {
		open = append(open, l.open())
	}
	until(t, "all are open", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == len(open)
	})
	ended(t, l.open())
	open[0].Close()
}

func TestMaxBytes(t *testing.T) {
	for _, class := range []api.EgressClass{api.EgressTCP, api.EgressWeb} {
		r := newRig(t)
		port := r.tcp()
		if class == api.EgressWeb {
			port = r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { io.Copy(w, req.Body) }))
		}
		p := rules(allow("example.org", port, class))
		p.MaxBytes = 100_000
		s, l := r.serve(p)
		idle, a := l.connect("example.org", port)
		if !a.OK {
			t.Fatal(a)
		}
		c, a := l.connect("example.org", port)
		if !a.OK {
			t.Fatal(a)
		}
		go func() {
			if class == api.EgressWeb {
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1000000\r\n\r\n")
			}
			for range 1000 {
				if _, err := c.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		}()
		ended(t, c)
		ended(t, idle)
		if used := s.used.Load(); used > p.MaxBytes {
			t.Errorf("%q: %d bytes were used", class, used)
		}
		if _, a := l.connect("example.org", port); a.Error != envd.EgressErrDenied {
			t.Errorf("%q: %+v", class, a)
		}
		r.records.find(t, "maximum", func(d api.EgressDecision) bool {
			return d.Result == api.EgressDenied && d.Reason == "the sandbox has used its maximum of 100000 bytes"
		})
		p.MaxBytes = 0
		if err := s.Apply(p); err != nil {
			t.Fatal(err)
		}
		if _, a := l.connect("example.org", port); !a.OK {
			t.Errorf("%q, without a maximum: %+v", class, a)
		}
	}
}

func TestApply(t *testing.T) {
	r := newRig(t)
	port, web := r.tcp(), r.https(http.HandlerFunc(hello))
	kept, gone, page := allow("kept.example", port, api.EgressTCP), allow("gone.example", port, api.EgressTCP), allow("example.org", web, "")
	s, l := r.serve(rules(kept, gone, page))
	one, a := l.connect("kept.example", port)
	two, b := l.connect("gone.example", port)
	if !a.OK || !b.OK {
		t.Fatal(a, b)
	}
	c := r.client(l)
	get(t, c, fmt.Sprintf("https://example.org:%d/", web))
	page.Methods = []string{"POST"}
	if err := s.Apply(rules(kept, page)); err != nil {
		t.Fatal(err)
	}
	ended(t, two)
	r.records.find(t, "revoked", func(d api.EgressDecision) bool { return d.Reason == "closed because the policy has changed" })
	io.WriteString(one, "hello")
	if got := make([]byte, 5); true {
		if _, err := io.ReadFull(one, got); err != nil || string(got) != "hello" {
			t.Errorf("the other connection: %q, %v", got, err)
		}
	}
	// The connection of the HTTP client is still open; its next request is decided anew.
	if resp, _ := get(t, c, fmt.Sprintf("https://example.org:%d/", web)); resp.StatusCode != 403 {
		t.Error(resp.Status)
	}
	// Another class closes it.
	page.Methods, page.Class = nil, api.EgressPassthrough
	if err := s.Apply(rules(kept, page)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(fmt.Sprintf("https://example.org:%d/", web)); err == nil {
		t.Error("the certificate of the sandbox's authority was presented in a passed connection")
	}
}

// TestFlood checks that a flood of denials takes few records, which count all of them.
func TestFlood(t *testing.T) {
	r := newRig(t)
	s, l := r.serve(rules())
	const each, hosts = 100, 2 * maxKeys
	c := l.open()
	for range each {
		ask(t, c, envd.EgressRequest{Op: envd.EgressResolve, Name: "evil.example"})
	}
	for i := range hosts {
		ask(t, c, envd.EgressRequest{Op: envd.EgressResolve, Name: fmt.Sprintf("n%d.example", i)})
	}
	s.Close()
	count, all := 0, r.records.list()
	for _, d := range all {
		count += max(d.Count, 1)
	}
	if count != each+hosts {
		t.Errorf("%d denials were counted in %d records, there were %d", count, len(all), each+hosts)
	}
	seen := map[string]int{}
	for _, d := range all {
		seen[d.Host]++
	}
	if seen["evil.example"] > each/2 {
		t.Errorf("%d records for equal denials", seen["evil.example"])
	}
	t.Logf("%d records for %d denials", len(all), count)
}

func TestLedgerBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.fold = time.Hour })
	s, _ := r.serve(rules())
	for i := range 10 * maxKeys {
		s.ledger.add(api.EgressDecision{Op: opConnect, Result: api.EgressDenied, Host: fmt.Sprint(i)})
	}
	if n := len(r.records.list()); n != maxKeys+1 {
		t.Errorf("%d records", n)
	}
	s.Close()
	all := r.records.list()
	if last := all[len(all)-1]; last.Host != "*" || last.Count != 9*maxKeys-1 {
		t.Errorf("%+v", last)
	}
}

// TestFairness has one sandbox use up its lookups; another one is served.
func TestFairness(t *testing.T) {
	r := newRig(t)
	port := r.tcp()
	var all []api.EgressRule
	for i := range 2 * maxDials {
		all = append(all, allow(fmt.Sprintf("slow%d.example", i), port, api.EgressTCP))
	}
	p := rules(append(all, allow("example.org", port, api.EgressTCP))...)
	s, greedy := r.serve(p)
	_, modest := r.serve(p)
	for i := range 2 * maxDials {
		fmt.Fprintf(greedy.open(), `{"op":"connect","name":"slow%d.example","port":%d}`+"\n", i, port)
	}
	until(t, "all lookups are used", func() bool { return len(s.dials) == maxDials })
	if _, a := modest.connect("example.org", port); !a.OK {
		t.Errorf("%+v", a)
	}
	close(r.names.block)
	if _, a := greedy.connect("example.org", port); !a.OK {
		t.Errorf("%+v", a)
	}
}

func TestAcceptor(t *testing.T) {
	r := newRig(t, func(c *Config) { c.idle = 100 * time.Millisecond })
	port := r.silent()
	s, l := r.serve(rules(allow("example.org", port, api.EgressTCP)))
	until(t, "one waits", func() bool { return l.pending() == 1 })
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			near, far := net.Pipe()
			defer near.Close()
			l.streams <- far
		})
	}
	all.Wait()
	s.acceptor.mu.Lock()
	most := s.acceptor.running
	s.acceptor.mu.Unlock()
	if most > maxWaiting {
		t.Errorf("%d wait", most)
	}
	until(t, "one waits again", func() bool { return l.pending() == 1 })
	// An error is not the end, and neither is a guest that seems to be gone once.
	for range maxGone - 1 {
		l.errs <- api.Errorf(api.KindUnavailable, "no answer")
	}
	l.errs <- api.Errorf(api.KindExhausted, "too many streams")
	if _, a := l.connect("example.org", port); !a.OK {
		t.Error(a)
	}
}

// TestGuestGone checks that a session ends by itself.
func TestGuestGone(t *testing.T) {
	for name, errs := range map[string]struct {
		kind api.Kind
		n    int
	}{"gone": {api.KindUnavailable, maxGone}, "old": {api.KindUnsupported, 1}} {
		r := newRig(t)
		s, l := r.serve(rules())
		for range errs.n {
			l.errs <- api.Errorf(errs.kind, "end")
		}
		until(t, name+": nobody waits", func() bool { return l.pending() == 0 && s.ctx.Err() != nil })
		if n := len(r.records.list()); n != 0 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

// TestClose checks that Close ends everything, and that what was in use is recorded.
func TestClose(t *testing.T) {
	r := newRig(t)
	port := r.silent()
	web := r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	s, l := r.serve(rules(allow("example.org", port, api.EgressTCP), allow("example.org", web, ""), allow("slow.example", port, api.EgressTCP)))
	open, a := l.connect("example.org", port)
	if !a.OK {
		t.Fatal(a)
	}
	resp, err := r.client(l).Get(fmt.Sprintf("https://example.org:%d/", web))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	dialing, resolving, silent := l.open(), l.open(), l.open()
	fmt.Fprintf(dialing, `{"op":"connect","name":"slow.example","port":%d}`+"\n", port)
	ask(t, resolving, envd.EgressRequest{Op: envd.EgressResolve, Name: "example.org"})
	until(t, "a lookup runs", func() bool { return len(s.dials) == 1 })
	s.Close()
	s.Close()
	for _, c := range []net.Conn{open, dialing, resolving, silent} {
		ended(t, c)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the request goes on")
	}
	r.records.find(t, "tcp", func(d api.EgressDecision) bool { return d.Class == api.EgressTCP && d.Op == opConnect })
	if l.pending() != 0 {
		t.Error("somebody waits for streams")
	}
}

// FuzzRequest checks that any first line gets one answer or none, and no connection.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{`{"op":"resolve","name":"a.example"}`, `{"op":"connect","name":"a.example","port":1}`, `{"op":"proxy"}`, `{"op":"connect","name":"::1","port":-1}`, `{}`, `[`} {
		f.Add([]byte(s + "\n"))
	}
	r := newRig(f)
	_, l := r.serve(rules())
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		l.streams <- far
		go func() {
			near.Write(b)
			near.Write([]byte("\n"))
			time.AfterFunc(100*time.Millisecond, func() { near.Close() })
		}()
		got, _ := io.ReadAll(near)
		near.Close()
		if strings.Contains(string(got), `"ok":true`) {
			t.Fatalf("%q was allowed: %q", b, got)
		}
	})
}
