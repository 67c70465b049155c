package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/egress"
)

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello "+r.URL.Path) }

func TestWeb(t *testing.T) {
	r := newRig(t)
	port := r.https(http.HandlerFunc(hello))
	_, l := r.serve(rules(allow("example.org", port, "")))
	c := r.client(l)
	resp, text := get(t, c, fmt.Sprintf("https://example.org:%d/a?secret", port))
	if resp.StatusCode != 200 || text != "hello /a" || resp.ProtoMajor != 2 {
		t.Errorf("%s %d %q", resp.Proto, resp.StatusCode, text)
	}
	d := r.records.op(t, opRequest, api.EgressAllowed)
	if d.Host != "example.org" || d.Port != port || d.Method != "GET" || d.Path != "/a" || d.Status != 200 || d.Address != "127.0.0.1" || d.Sandbox != "sbx_1" || d.Task != "task_1" || d.Account != "acc" || d.Rule == "" || d.At.IsZero() || d.Commands[0] != "npm install" {
		t.Errorf("%+v", d)
	}
	c.CloseIdleConnections()
	d = r.records.op(t, opConnect, api.EgressAllowed)
	if d.Host != "example.org" || d.Address != "127.0.0.1" || d.Sent < 100 || d.Received < 100 || d.Rule == "" || d.Reason != "" {
		t.Errorf("%+v", d)
	}
}

// TestPrivateAddress is the control of the other tests: without "private" in the rule, their
// servers are refused.
func TestPrivateAddress(t *testing.T) {
	r := newRig(t)
	port, raw := r.https(http.HandlerFunc(hello)), r.tcp()
	web, tcp := allow("example.org", port, ""), allow("example.org", raw, api.EgressTCP)
	web.Private, tcp.Private = false, false
	_, l := r.serve(rules(web, tcp))
	resp, text := get(t, r.client(l), fmt.Sprintf("https://example.org:%d/", port))
	if resp.StatusCode != 403 || !strings.HasPrefix(text, "hortus: example.org resolves to 127.0.0.1, which is a loopback address\n") || resp.Header.Get("X-Hortus-Egress") != "denied" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	r.records.op(t, opRequest, api.EgressDenied)
	if _, a := l.connect("example.org", raw); a.Error != envd.EgressErrDenied {
		t.Errorf("%+v", a)
	}
	r.records.op(t, opConnect, api.EgressDenied)
}

// TestOverride: a request that rules with methods or paths decide about does not tell the server that it is another one. The
// controls are harmless headers, and a server of which every request is allowed.
func TestOverride(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var got []string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, req.Method)
	})
	port, other := r.https(handler), r.https(handler)
	limited := allow("example.org", port, "")
	limited.Methods = []string{"GET", "POST"}
	_, l := r.serve(rules(limited, allow("example.org", other, "")))
	c := r.client(l)
	for _, row := range []struct {
		port          int
		query, header string
		status        int
	}{
		{port, "", "X-Control", 200}, {port, "?a=_method", "X-Control", 200}, {other, "?_method=PUT", "X-Http-Method-Override", 200},
		{port, "", "X-Http-Method-Override", 403}, {port, "", "X-HTTP-Method", 403}, {port, "", "X_HTTP_METHOD_OVERRIDE", 403}, {port, "", "x-original-url", 403},
		{port, "", "X-Forwarded-Uri", 403}, {port, "?a=1&%5fmethod=PUT", "X-Control", 403}, {port, "?$httpMethod=PUT", "X-Control", 403},
	} {
		got = nil
		req, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("https://example.org:%d/%s", row.port, row.query), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[row.header] = []string{"PUT"}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		mu.Lock()
		if resp.StatusCode != row.status || (len(got) > 0) != (row.status == 200) {
			t.Errorf("%+v: status %d, the server got %v", row, resp.StatusCode, got)
		}
		mu.Unlock()
	}
}

// TestRedirect follows a redirect of an allowed server to a private one. The control allows it.
func TestRedirect(t *testing.T) {
	r := newRig(t)
	secret := r.http(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
	port := r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		to := fmt.Sprintf("http://internal.example:%d/", secret)
		if req.URL.Path == "/address" {
			to = fmt.Sprintf("http://127.0.0.1:%d/", secret)
		}
		http.Redirect(w, req, to, http.StatusFound)
	}))
	open := rules(allow("example.org", port, ""), api.EgressRule{Action: api.EgressAllow, Host: "*", Ports: "1-65535"})
	s, l := r.serve(open)
	for _, path := range []string{"/", "/address"} {
		resp, err := r.client(l).Get(fmt.Sprintf("https://example.org:%d%s", port, path))
		if err == nil {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 403 || strings.Contains(string(b), "secret") {
				t.Errorf("%s: %d %q", path, resp.StatusCode, b)
			}
		}
	}
	open.Rules = append([]api.EgressRule{allow("internal.example", secret, ""), allow("127.0.0.1", secret, "")}, open.Rules...)
	if err := s.Apply(open); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/address"} {
		if resp, text := get(t, r.client(l), fmt.Sprintf("https://example.org:%d%s", port, path)); text != "secret" {
			t.Errorf("the control, %s: %d %q", path, resp.StatusCode, text)
		}
	}
}

func TestTCP(t *testing.T) {
	r := newRig(t)
	port := r.tcp()
	r.names.addrs["missing.example"] = ""
	_, l := r.serve(rules(allow("example.org", port, api.EgressTCP), allow("example.org", 1, api.EgressTCP), allow("missing.example", port, api.EgressTCP)))
	c, a := l.connect("example.org", port)
	if !a.OK {
		t.Fatal(a)
	}
	io.WriteString(c, "hello")
	c.(*net.UnixConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	d := r.records.op(t, opConnect, api.EgressAllowed)
	if d.Sent != 5 || d.Received != 5 || d.Class != api.EgressTCP || d.Address != "127.0.0.1" {
		t.Errorf("%+v", d)
	}
	if _, a := l.connect("example.org", 1); a.Error != envd.EgressErrFailed {
		t.Errorf("%+v", a)
	}
	if _, a := l.connect("missing.example", port); a.Error != envd.EgressErrFailed {
		t.Errorf("%+v", a)
	}
	r.records.find(t, "refused", func(d api.EgressDecision) bool {
		return d.Result == api.EgressFailed && d.Reason == "example.org refuses connections to port 1"
	})
	r.records.find(t, "missing", func(d api.EgressDecision) bool {
		return d.Result == api.EgressFailed && d.Reason == "missing.example does not resolve"
	})
}

func TestDenied(t *testing.T) {
	r := newRig(t)
	_, l := r.serve(rules(api.EgressRule{Action: api.EgressDeny, Host: "bad.example"}))
	for name, port := range map[string]int{"example.org": 443, "bad.example": 443, "192.0.2.1": 22} {
		if _, a := l.connect(name, port); a.OK || a.Error != envd.EgressErrDenied {
			t.Errorf("%s: %+v", name, a)
		}
	}
	d := r.records.find(t, "no rule", func(d api.EgressDecision) bool { return d.Host == "example.org" })
	if d.Result != api.EgressDenied || d.Reason != "no rule matches" || d.Hint != "hortus egress allow sbx_1 example.org:443" || d.Op != opConnect || d.Commands[0] != "npm install" {
		t.Errorf("%+v", d)
	}
	d = r.records.find(t, "rule", func(d api.EgressDecision) bool { return d.Host == "bad.example" })
	if d.Reason != "denied by a rule" || !strings.Contains(d.Rule, "bad.example") {
		t.Errorf("%+v", d)
	}
	for name, port := range map[string]int{"": 443, "example.org": 0, "exa mple": 443, "example.org.": 70000} {
		if _, a := l.connect(name, port); a.Error != envd.EgressErrInvalid {
			t.Errorf("%q:%d: %+v", name, port, a)
		}
	}
}

func TestResolve(t *testing.T) {
	r := newRig(t)
	_, l := r.serve(rules(allow("example.org", 443, ""), api.EgressRule{Action: api.EgressAllow, Host: "*.example.com"}))
	c := l.open()
	for name, want := range map[string]string{
		"example.org": "", "a.example.com": "", "evil.example": envd.EgressErrDenied, "sub.example.org": envd.EgressErrDenied, "a b": envd.EgressErrInvalid, "": envd.EgressErrInvalid,
	} {
		if a := ask(t, c, envd.EgressRequest{Op: envd.EgressResolve, Name: name}); a.Error != want || a.OK != (want == "") {
			t.Errorf("%q: %+v", name, a)
		}
	}
	d := r.records.find(t, "resolve", func(d api.EgressDecision) bool { return d.Host == "evil.example" })
	if d.Op != opResolve || d.Result != api.EgressDenied || d.Hint != "hortus egress allow sbx_1 evil.example" {
		t.Errorf("%+v", d)
	}
	if a := ask(t, c, envd.EgressRequest{Op: envd.EgressConnect, Name: "example.org", Port: 443}); a.Error != envd.EgressErrInvalid {
		t.Errorf("connect on a stream for names: %+v", a)
	}
}

func TestMalformed(t *testing.T) {
	r := newRig(t)
	_, l := r.serve(rules(allow("example.org", 443, "")))
	for name, line := range map[string]string{
		"no JSON": "hello\n", "unknown op": `{"op":"x"}` + "\n", "empty": "\n",
		"too long": `{"op":"connect","name":"` + strings.Repeat("a", envd.MaxEgressLine) + "\"}\n",
	} {
		c := l.open()
		io.WriteString(c, line)
		if a := readAnswer(t, c); a.Error != envd.EgressErrInvalid {
			t.Errorf("%s: %+v", name, a)
		}
		ended(t, c)
	}
}

// TestPipelined checks that bytes behind the first line belong to the connection.
func TestPipelined(t *testing.T) {
	r := newRig(t)
	port := r.tcp()
	_, l := r.serve(rules(allow("example.org", port, api.EgressTCP)))
	c := l.open()
	fmt.Fprintf(c, `{"op":"connect","name":"example.org","port":%d}`+"\nhello", port)
	c.(*net.UnixConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != "{\"ok\":true}\nhello" {
		t.Errorf("%q, %v", b, err)
	}
	c = l.open()
	fmt.Fprintf(c, `{"op":"connect","name":"example.org","port":%d}`+"\nhello", port)
	if a := readAnswer(t, c); !a.OK {
		t.Fatal(a)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestProxy(t *testing.T) {
	r := newRig(t)
	port := r.https(http.HandlerFunc(hello))
	clear := r.http(http.HandlerFunc(hello))
	_, l := r.serve(rules(allow("example.org", port, ""), allow("example.org", clear, "")))
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			c := l.open()
			_, err := io.WriteString(c, `{"op":"proxy"}`+"\n")
			return c, err
		},
		TLSClientConfig: &tls.Config{RootCAs: r.trust}, ForceAttemptHTTP2: true,
	}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: long}
	if resp, text := get(t, c, fmt.Sprintf("https://example.org:%d/a", port)); text != "hello /a" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	if resp, text := get(t, c, fmt.Sprintf("http://example.org:%d/b", clear)); text != "hello /b" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	if resp, _ := get(t, c, fmt.Sprintf("http://evil.example:%d/", clear)); resp.StatusCode != 403 {
		t.Error(resp.Status)
	}
	if _, err := c.Get("https://evil.example/"); err == nil {
		t.Error("CONNECT was allowed")
	}
	tr.CloseIdleConnections()
	r.records.find(t, "tunnel", func(d api.EgressDecision) bool {
		return d.Op == opConnect && d.Result == api.EgressAllowed && d.Port == port && d.Sent > 0
	})
	r.records.find(t, "denied tunnel", func(d api.EgressDecision) bool {
		return d.Op == opConnect && d.Result == api.EgressDenied && d.Host == "evil.example" && d.Port == 443
	})
}

func TestInspected(t *testing.T) {
	r := newRig(t)
	port := r.https(http.HandlerFunc(hello))
	rule := allow("example.org", port, "")
	rule.Methods, rule.Paths = []string{"GET"}, []string{"/a/**"}
	_, l := r.serve(rules(rule))
	c := r.client(l)
	base := fmt.Sprintf("https://example.org:%d", port)
	for path, want := range map[string]int{"/a/b": 200, "/a/b/c?d": 200, "/b": 403, "/a/../b": 403, "/a/%2e%2e/b": 403, "/a//b": 403} {
		if resp, _ := get(t, c, base+path); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	resp, err := c.Post(base+"/a/b", "", nil)
	if err != nil || resp.StatusCode != 403 {
		t.Error(resp, err)
	}
	resp.Body.Close()
	d := r.records.find(t, "POST", func(d api.EgressDecision) bool { return d.Method == "POST" })
	if d.Result != api.EgressDenied || d.Path != "/a/b" || d.Reason == "" {
		t.Errorf("%+v", d)
	}
}

func TestServeErrors(t *testing.T) {
	r := newRig(t)
	if _, err := r.gateway.Serve(egress.Peer{Sandbox: "s", Lineage: "l", Link: newLink(t)}, rules(api.EgressRule{Action: "x", Host: "a"})); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
	if _, err := r.gateway.Serve(egress.Peer{Sandbox: "s", Lineage: "l"}, rules()); err == nil {
		t.Error("no link")
	}
	s, _ := r.serve(rules())
	if err := s.Apply(rules(api.EgressRule{Action: "x", Host: "a"})); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
}
