package network

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Balancer gives each request to the next server, as a load balancer before a fleet does.
type Balancer struct {
	// URL is where clients reach it.
	URL string

	mu      sync.Mutex
	servers []*url.URL
	next    int
}

// NewBalancer starts a balancer without servers, which ends with the test.
func NewBalancer(t testing.TB) *Balancer {
	b := &Balancer{}
	s := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(b.server())
		r.Out.Host = r.In.Host
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	t.Cleanup(s.Close)
	b.URL = s.URL
	return b
}

// Add adds a server.
func (b *Balancer) Add(t testing.TB, server string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = append(b.servers, u)
}

func (b *Balancer) server() *url.URL {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.servers[b.next%len(b.servers)]
}
