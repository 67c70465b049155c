package dial

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/test/patience"
)

// answers is a resolver whose answers a test chooses.
type answers func(host string) ([]netip.Addr, error)

func (a answers) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return a(strings.TrimSuffix(host, "."))
}

func always(addrs ...string) answers {
	return func(string) (all []netip.Addr, _ error) {
		for _, a := range addrs {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

// server greets every connection with its name and returns its port.
func server(t *testing.T, addr string) int {
	t.Helper()
	l, err := net.Listen("tcp", addr)
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
			io.WriteString(c, c.LocalAddr().String())
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func wantCode(t *testing.T, err error, want Code) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != want {
		t.Fatalf("error %v (%T), want code %s", err, err, want)
	}
	return e
}

func TestRefusedAfterResolution(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	d := New(Config{Resolver: always("127.0.0.1")})
	_, _, err := d.Dial(t.Context(), "example.org", port, false)
	if e := wantCode(t, err, Forbidden); e.Error() != "example.org resolves to 127.0.0.1, which is a loopback address" {
		t.Error(e)
	}
	_, _, err = d.Dial(t.Context(), "127.0.0.1", port, false)
	if e := wantCode(t, err, Forbidden); e.Error() != "127.0.0.1 is a loopback address" {
		t.Error(e)
	}
	// The control: a rule with "private" opens it.
	for _, host := range []string{"example.org", "127.0.0.1"} {
		c, a, err := d.Dial(t.Context(), host, port, true)
		if err != nil || a.String() != "127.0.0.1" {
			t.Fatal(a, err)
		}
		c.Close()
	}
	// Nothing opens metadata services for a name.
	_, _, err = New(Config{Resolver: always("169.254.169.254")}).Dial(t.Context(), "example.org", port, true)
	wantCode(t, err, Forbidden)
}

func TestOwnAddress(t *testing.T) {
	own := func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("203.0.113.7")} }
	_, _, err := New(Config{Resolver: always("203.0.113.7"), Own: own}).Dial(t.Context(), "example.org", 443, false)
	if e := wantCode(t, err, Forbidden); e.Detail != "an address of this host" {
		t.Error(e)
	}
	if len(interfaceAddrs()) == 0 {
		t.Error("no address of this host was found")
	}
}

// TestRebinding checks that the address that was checked is the one that is used, although
// the resolver answers differently each time.
func TestRebinding(t *testing.T) {
	first, second := server(t, "127.0.0.1:0"), 0
	l, err := net.Listen("tcp", "127.0.0.2:"+itoa(first))
	if err != nil {
		t.Skip("127.0.0.2 is not usable: ", err)
	}
	defer l.Close()
	var lookups atomic.Int32
	d := New(Config{Resolver: answers(func(string) ([]netip.Addr, error) {
		if lookups.Add(1) == 1 {
			return always("127.0.0.1")("")
		}
		return always("169.254.169.254", "127.0.0.2")("")
	})})
	for range 3 {
		c, a, err := d.Dial(t.Context(), "example.org", first, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.1" || a.String() != got {
			t.Errorf("connected to %s (%s)", got, a)
		}
		c.Close()
		second++
	}
	if n := lookups.Load(); n != 1 {
		t.Errorf("%d lookups for %d connections", n, second)
	}
}

func itoa(n int) string { return strings.TrimPrefix(joinPort("", n), ":") }

// TestAnswerExpires checks that a new answer is checked again.
func TestAnswerExpires(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	now := time.Now()
	var mu sync.Mutex
	current := always("127.0.0.1")
	d := New(Config{
		Resolver: answers(func(h string) ([]netip.Addr, error) { mu.Lock(); defer mu.Unlock(); return current(h) }),
		Now:      func() time.Time { return now },
	})
	if c, _, err := d.Dial(t.Context(), "example.org", port, true); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	current = always("169.254.169.254")
	now = now.Add(defaultKeep + time.Second)
	_, _, err := d.Dial(t.Context(), "example.org", port, true)
	wantCode(t, err, Forbidden)
}

func TestFineAddressesOnly(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	d := New(Config{Resolver: always("169.254.169.254", "0.0.0.0", "127.0.0.1", "255.255.255.255")})
	c, a, err := d.Dial(t.Context(), "example.org", port, true)
	if err != nil || a.String() != "127.0.0.1" {
		t.Fatal(a, err)
	}
	c.Close()
}

func TestAllow(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	d := New(Config{Resolver: always("127.0.0.3", "127.0.0.1")})
	to := Destination{Host: "example.org", Port: port, Private: true, Allow: func(a netip.Addr) bool { return a.String() == "127.0.0.1" }}
	c, a, err := d.Connect(t.Context(), to)
	if err != nil || a.String() != "127.0.0.1" {
		t.Fatal(a, err)
	}
	c.Close()
	to.Allow = func(netip.Addr) bool { return false }
	_, _, err = d.Connect(t.Context(), to)
	if e := wantCode(t, err, Forbidden); e.Error() != "example.org resolves to 127.0.0.3, which is denied by a rule" {
		t.Error(e)
	}
	to.Private, to.Allow = false, func(netip.Addr) bool { return true }
	_, _, err = d.Connect(t.Context(), to)
	wantCode(t, err, Forbidden)
}

func TestNextAddress(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	d := New(Config{Resolver: always("127.0.0.3", "127.0.0.4", "127.0.0.1")})
	c, a, err := d.Dial(t.Context(), "example.org", port, true)
	if err != nil || a.String() != "127.0.0.1" {
		t.Fatal(a, err)
	}
	c.Close()
}

func TestErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().(*net.TCPAddr).Port
	l.Close()
	_, _, err = New(Config{Resolver: always("127.0.0.1")}).Dial(t.Context(), "example.org", closed, true)
	wantCode(t, err, Refused)
	_, _, err = New(Config{Resolver: always()}).Dial(t.Context(), "example.org", 1, true)
	wantCode(t, err, Unresolved)
	_, _, err = New(Config{Resolver: answers(func(string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	})}).Dial(t.Context(), "example.org", 1, true)
	wantCode(t, err, Unresolved)
	_, _, err = New(Config{Resolver: answers(func(string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	})}).Dial(t.Context(), "example.org", 1, true)
	wantCode(t, err, ResolverFailed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = New(Config{Resolver: always("127.0.0.1")}).Dial(ctx, "example.org", closed, true)
	wantCode(t, err, Canceled)
}

// TestOneLookup checks that equal lookups at the same time are one, and that a caller that
// gives up does not fail the others.
func TestOneLookup(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	var lookups atomic.Int32
	begun, goOn := make(chan struct{}, 8), make(chan struct{})
	d := New(Config{Resolver: blocking{func(ctx context.Context) ([]netip.Addr, error) {
		lookups.Add(1)
		begun <- struct{}{}
		select {
		case <-goOn:
			return always("127.0.0.1")("")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}})
	ctx, giveUp := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		_, _, err := d.Dial(ctx, "example.org", port, true)
		wantCodeOf(t, err, Canceled)
	})
	<-begun
	for range 5 {
		all.Go(func() {
			c, _, err := d.Dial(t.Context(), "example.org", port, true)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	giveUp()
	<-begun // one of the others takes over
	close(goOn)
	all.Wait()
	if n := lookups.Load(); n != 2 {
		t.Errorf("%d lookups, want that of the caller that gave up and one more", n)
	}
}

func wantCodeOf(t *testing.T, err error, want Code) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != want {
		t.Errorf("error %v, want code %s", err, want)
	}
}

type blocking struct {
	f func(context.Context) ([]netip.Addr, error)
}

func (b blocking) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	return b.f(ctx)
}

func TestNamesBounded(t *testing.T) {
	d := New(Config{Resolver: always("169.254.169.254")})
	for i := range 3 * maxNames {
		d.Dial(t.Context(), "n"+itoa(i)+".example.org", 1, false)
	}
	if n := len(d.names.entries); n > maxNames {
		t.Errorf("%d names are kept", n)
	}
}

func TestSearchDomains(t *testing.T) {
	var asked []string
	d := New(Config{Resolver: raw(func(host string) ([]netip.Addr, error) {
		asked = append(asked, host)
		return nil, &net.DNSError{IsNotFound: true}
	})})
	d.Dial(t.Context(), "example.org", 1, false)
	d.Dial(t.Context(), "mirror", 1, false)
	if want := []string{"example.org.", "mirror"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

type raw func(string) ([]netip.Addr, error)

func (r raw) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) { return r(host) }

// proxy is an HTTP proxy that connects every CONNECT to a port of loopback.
func proxy(t *testing.T, status int, port int) (*url.URL, chan *http.Request) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests := make(chan *http.Request, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				requests <- req
				if status == 0 {
					io.Copy(io.Discard, c) // it never answers
					return
				}
				if status != 200 {
					io.WriteString(c, "HTTP/1.1 "+itoa(status)+" No\r\nContent-Length: 0\r\n\r\n")
					return
				}
				up, err := net.Dial("tcp", "127.0.0.1:"+itoa(port))
				if err != nil {
					return
				}
				defer up.Close()
				first, _ := io.ReadAll(up)
				// The first bytes come in one packet with the answer.
				io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n"+string(first))
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String(), User: url.UserPassword("me", "secret")}, requests
}

func TestProxy(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	u, requests := proxy(t, 200, port)
	d := New(Config{Resolver: always("203.0.113.5"), Proxy: func(string, int) *url.URL { return u }})
	c, a, err := d.Dial(t.Context(), "example.org", port, false)
	if err != nil || a.String() != "203.0.113.5" {
		t.Fatal(a, err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "127.0.0.1:"+itoa(port) {
		t.Errorf("read %q, %v", got, err)
	}
	req := <-requests
	if req.Host != "203.0.113.5:"+itoa(port) || req.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" || req.UserAgent() != "" {
		t.Errorf("the proxy got %q %v", req.Host, req.Header)
	}
	// Addresses are checked before the proxy is asked.
	_, _, err = d.Dial(t.Context(), "10.0.0.1", port, false)
	wantCode(t, err, Forbidden)
}

func TestProxyNames(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	u, requests := proxy(t, 200, port)
	cfg := Config{ProxyNames: true, Proxy: func(string, int) *url.URL { return u }}
	cfg.Resolver = answers(func(string) ([]netip.Addr, error) { return nil, &net.DNSError{IsNotFound: true} })
	c, _, err := New(cfg).Dial(t.Context(), "example.org", 443, false)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if req := <-requests; req.Host != "example.org:443" {
		t.Errorf("the proxy got %q", req.Host)
	}
	cfg.Resolver = always("10.0.0.1")
	_, _, err = New(cfg).Dial(t.Context(), "example.org", 443, false)
	wantCode(t, err, Forbidden)
	cfg.ProxyNames = false
	cfg.Resolver = always()
	_, _, err = New(cfg).Dial(t.Context(), "example.org", 443, false)
	wantCode(t, err, Unresolved)
}

// TestProxyNoFallback checks that a proxy that fails is not bypassed. The control is that the
// destination answers without it.
func TestProxyNoFallback(t *testing.T) {
	port := server(t, "127.0.0.1:0")
	if c, _, err := New(Config{}).Dial(t.Context(), "127.0.0.1", port, true); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := &url.URL{Scheme: "http", Host: l.Addr().String()}
	l.Close()
	refusing, _ := proxy(t, 407, port)
	silent, _ := proxy(t, 0, port)
	for name, u := range map[string]*url.URL{
		"closed": closed, "refuses": refusing, "silent": silent, "unknown scheme": {Scheme: "socks5", Host: "127.0.0.1:1", User: url.UserPassword("me", "secret")},
	} {
		timeout := patience.Of(10 * time.Second)
		if name == "silent" {
			timeout = 50 * time.Millisecond
		}
		d := New(Config{Proxy: func(string, int) *url.URL { return u }, Timeout: timeout})
		_, _, err := d.Dial(t.Context(), "127.0.0.1", port, true)
		if e := wantCode(t, err, ProxyFailed); strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: %v", name, e)
		}
	}
}
