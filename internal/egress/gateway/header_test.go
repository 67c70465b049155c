package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/egress/broker"
)

// TestHeaders: connections to a host with a header rule are read, whatever the class of the rule
// that allows them, and a header rule allows none.
func TestHeaders(t *testing.T) {
	var seen uses
	r := newRig(t, func(c *Config) {
		c.Broker = broker.New(broker.Config{
			Value: func(context.Context, string, string) (string, error) { return "", io.EOF },
			HeaderValue: func(_ context.Context, account, name string) (string, error) {
				return "value-of-" + account + "-" + name, nil
			},
			Record: seen.record,
		})
	})
	var mu sync.Mutex
	var got string
	port := r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = req.Header.Get("X-Key")
		fmt.Fprint(w, "hello")
	}))
	passed := rules(allow("api.example.org", port, api.EgressPassthrough), allow("raw.example.org", port, api.EgressTCP), allow("free.example.org", port, api.EgressPassthrough))
	s, l := r.serve(passed)
	send := func(host string) (string, error) {
		c := r.client(l)
		tr := c.Transport.(*http.Transport)
		tr.TLSClientConfig = tr.TLSClientConfig.Clone()
		tr.TLSClientConfig.InsecureSkipVerify = true // the certificate is that of the server, or of the sandbox's authority
		req, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("https://%s:%d/", host, port), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Key", "mine")
		resp, err := c.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		mu.Lock()
		defer mu.Unlock()
		return got, err
	}
	for _, host := range []string{"api.example.org", "raw.example.org"} {
		if text, err := send(host); text != "mine" || err != nil {
			t.Errorf("%s without a rule: %q, %v", host, text, err)
		}
	}
	open, a := l.connect("api.example.org", port)
	kept, b := l.connect("free.example.org", port)
	if !a.OK || !b.OK {
		t.Fatal(a, b)
	}
	var headers []api.HeaderRule
	for _, host := range []string{"api.example.org", "raw.example.org", "closed.example.org"} {
		headers = append(headers, api.HeaderRule{Host: host, Port: port, Headers: map[string]string{"X-Key": "${secret:key}"}})
	}
	if err := s.SetHeaders(headers); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(passed); err != nil {
		t.Fatal(err)
	}
	ended(t, open) // it could not be read
	if _, err := kept.Write([]byte("x")); err != nil {
		t.Errorf("the control: a connection to another host was closed: %v", err)
	}
	for _, host := range []string{"api.example.org", "raw.example.org"} {
		if text, err := send(host); text != "value-of-acc-key" || err != nil {
			t.Errorf("%s with a rule: %q, %v", host, text, err)
		}
	}
	if text, err := send("free.example.org"); text != "mine" || err != nil {
		t.Errorf("another host: %q, %v", text, err)
	}
	if _, err := send("closed.example.org"); err == nil {
		t.Error("a header rule allowed a connection")
	}
	if all := seen.take(); len(all) != 2 || all[0].Secret != "key" || all[0].Header != "X-Key" || all[0].Sandbox != "sbx_1" || all[0].Account != "acc" {
		t.Errorf("%+v", all)
	}
	if err := s.SetHeaders(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(passed); err != nil {
		t.Fatal(err)
	}
	if text, err := send("api.example.org"); text != "mine" || err != nil {
		t.Errorf("after the rule has gone: %q, %v", text, err)
	}
}

// TestHeadersNoBroker has a gateway without a broker.
func TestHeadersNoBroker(t *testing.T) {
	r := newRig(t)
	s, _ := r.serve(rules())
	s.RevokeHeader("key")
	if err := s.SetHeaders(nil); err != nil {
		t.Error(err)
	}
	if err := s.SetHeaders([]api.HeaderRule{{Host: "api.example.org"}}); api.KindOf(err) != api.KindUnsupported {
		t.Error(err)
	}
}
