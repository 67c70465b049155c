package world

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
)

// Outside are servers on this machine that sandboxes reach as example.com and *.example.com: one over
// TLS with HTTP/1.1 and HTTP/2, one in clear. It is the resolver of a daemon.
type Outside struct {
	*http.ServeMux // of both
	// Port is that of TLS, Clear the other one.
	Port, Clear string
	// Looked, if it is set, is called with each name that is looked up.
	Looked func(name string)
	// Others has other names resolved as this machine does.
	Others bool

	roots string // file with the certificate
	proxy string // URL of the proxy of Distant; empty without it
}

// NewOutside starts the servers, which end with the test.
func NewOutside(t *testing.T) *Outside {
	t.Helper()
	o := &Outside{ServeMux: http.NewServeMux(), roots: filepath.Join(t.TempDir(), "ca.pem")}
	secure, clear := httptest.NewUnstartedServer(o), httptest.NewServer(o)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(clear.Close)
	_, o.Port, _ = net.SplitHostPort(secure.Listener.Addr().String())
	_, o.Clear, _ = net.SplitHostPort(clear.Listener.Addr().String())
	if err := os.WriteFile(o.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// LookupNetIP implements dial.Resolver.
func (o *Outside) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if o.Looked != nil {
		o.Looked(strings.ToLower(host))
	}
	switch name := strings.TrimSuffix(host, "."); {
	case name == "example.com" || strings.HasSuffix(name, ".example.com"):
		if o.proxy != "" {
			return []netip.Addr{netip.MustParseAddr(distant)}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	case o.Others:
		return net.DefaultResolver.LookupNetIP(ctx, network, host)
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// distant is a public address, which nothing here connects to.
const distant = "93.184.215.14"

// Distant gives the servers a public address, so that no rule must open a private one. The daemon reaches them through a proxy, which
// knows that address and no other.
func (o *Outside) Distant(t *testing.T) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, port, _ := net.SplitHostPort(r.Host)
		if r.Method != http.MethodConnect || host != distant || port != o.Port && port != o.Clear {
			http.Error(w, "this proxy connects to the servers of the test only", http.StatusForbidden)
			return
		}
		up, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer up.Close()
		w.WriteHeader(http.StatusOK)
		down, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer down.Close()
		var sent sync.WaitGroup
		sent.Go(func() {
			io.Copy(up, buffered)
			up.(*net.TCPConn).CloseWrite()
		})
		io.Copy(down, up)
		down.Close()
		sent.Wait()
	}))
	t.Cleanup(proxy.Close)
	o.proxy = proxy.URL
}

// Number is the port of TLS.
func (o *Outside) Number() int {
	n, _ := strconv.Atoi(o.Port)
	return n
}

// Rule allows a host at a port, also with a private address, as these servers have.
func Rule(host, port string) api.EgressRule {
	return api.EgressRule{Action: api.EgressAllow, Host: host, Ports: port, Private: true}
}

// Policy is a policy with rules.
func Policy(rules ...api.EgressRule) *api.EgressPolicy { return &api.EgressPolicy{Rules: rules} }
