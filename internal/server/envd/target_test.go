package envd_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	server "hortus.dev/internal/server/envd"
)

func TestClaims(t *testing.T) {
	for _, tt := range []struct {
		host, path, id string
		want           bool
	}{
		{"127.0.0.1:8080", "/health", "", false},
		{"127.0.0.1:8080", "/health", "i4f2b", true},
		{"localhost", "/sandboxes", "", false},
		{"build-box.lan:8080", "/", "i4f2b", true},
		{"3000-i4f2b.localhost:8080", "/", "", true},
		{"3000-i4f2b", "/v1/info", "", true},
		{"3000-I4F2B.Example.COM", "/", "", true},
		{"49983-i4f2b-more-of-it.example.com", "/health", "", true},
		{"99999-i4f2b.example.com", "/", "", true}, // and then refused
		{"x-3000-i4f2b.example.com", "/", "", false},
		{"ip-10-0-0-1.example.com", "/", "", false},
		{"3000-.example.com", "/", "", false},
		{"-i4f2b.example.com", "/", "", false},
		{"3000-i_f2b.example.com", "/", "", false},
		{"[::1]:8080", "/", "", false},
		{"127.0.0.1", "/files?path=a&signature=v1_x", "", true},
		{"127.0.0.1", "/files?path=a&signature", "", true},
		{"127.0.0.1", "/files?path=a", "", false},
		{"127.0.0.1", "/templates?signature=v1_x", "", false},
	} {
		u, err := url.Parse(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: http.MethodGet, Host: tt.host, URL: u, Header: http.Header{}}
		if tt.id != "" {
			r.Header.Set("E2b-Sandbox-Id", tt.id)
		}
		if got := server.Claims(r); got != tt.want {
			t.Errorf("host %q, path %q, id %q: %v", tt.host, tt.path, tt.id, got)
		}
	}
}

func TestMisdirected(t *testing.T) {
	f, id := newFakes()
	f.guest = answers(nil, ok204)
	other := f.add("running")
	addr := serve(t, f)
	label := "49983-" + string(id) + ".box.test"
	if a := (ask{path: "/health", host: label}).to(t, addr); a.status != http.StatusNoContent {
		t.Fatalf("the control: %+v", a)
	}
	for name, a := range map[string]ask{
		"another in the header":      {path: "/health", host: label, header: map[string]string{"E2b-Sandbox-Id": string(other)}},
		"another port in the header": {path: "/health", host: label, header: map[string]string{"E2b-Sandbox-Port": "3000"}},
		"no such port":               {path: "/health", host: "99999-" + string(id) + ".box.test"},
		"port zero":                  {path: "/health", host: "0-" + string(id) + ".box.test"},
		"a port with a zero before":  {path: "/health", host: "049983-" + string(id) + ".box.test"},
		"a port that is none":        {path: "/health", header: headers(id, "E2b-Sandbox-Port", "49983 ")},
		"a signed port":              {path: "/health", header: headers(id, "E2b-Sandbox-Port", "+49983")},
		"an id with a path":          {path: "/health", header: headers("../i0")},
		"an id of another alphabet":  {path: "/health", header: headers(id + "Z")},
	} {
		if name == "a port that is none" {
			a.header["E2b-Sandbox-Port"] = "49983x"
		}
		if got := a.to(t, addr); got.status != http.StatusBadRequest {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Twice the same name, with two values.
	got := raw(t, addr, "GET /health HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: "+string(id)+"\r\nE2b-Sandbox-Id: "+string(other)+"\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("two ids: %q", got)
	}
}

// FuzzTarget reads hosts and headers that a client chose: it never panics, and what
// it finds is a sandbox's identifier by its form.
func FuzzTarget(f *testing.F) {
	f.Add("3000-i4f2b.localhost:8080", "i4f2b", "3000", "/files?signature=x")
	f.Add("[::1]:1", "", "", "/")
	f.Add("1-a-b-c", "a", "1", "/")
	fk, _ := newFakes()
	d := server.New(server.Config{Sandboxes: fk, Tokens: fk, Now: fk.clock})
	f.Fuzz(func(t *testing.T, host, id, port, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := (&http.Request{Method: http.MethodGet, Host: host, URL: u, Header: http.Header{}, Body: http.NoBody}).WithContext(t.Context())
		if id != "" {
			r.Header.Set("E2b-Sandbox-Id", id)
		}
		if port != "" {
			r.Header.Set("E2b-Sandbox-Port", port)
		}
		if !server.Claims(r) {
			return
		}
		w := newRecorder()
		d.ServeHTTP(w, r)
		if w.status < 400 {
			t.Errorf("answered %d: host %q, id %q, port %q, %q", w.status, host, id, port, target)
		}
	})
}
