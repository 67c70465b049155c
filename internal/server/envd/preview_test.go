package envd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/preview"
)

// withPreviews gives the sandboxes addresses below box.example.
func withPreviews(f *fakes) *preview.Previews {
	f.previews = preview.New(preview.Config{Scheme: "https", Domain: "box.example", Tokens: f, Now: f.clock})
	return f.previews
}

// row returns a sandbox of the fakes.
func (f *fakes) row(t *testing.T, id api.SandboxID) api.Sandbox {
	t.Helper()
	s, err := f.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// page is what a browser sends to open a page; more are changes of it.
func page(more ...string) map[string]string {
	h := map[string]string{"Accept": "text/html,*/*", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// TestTicket: a ticket opens a private port once, for one browser, one port and one sandbox; its cookie is the host's alone,
// does not reach the program, and cannot be used by pages of other names.
func TestTicket(t *testing.T) {
	f, id := newFakes()
	other := f.add(api.SandboxRunning)
	p := withPreviews(f)
	for _, one := range []api.SandboxID{id, other} {
		f.change(one, func(s *api.Sandbox) { s.PrivateTraffic, s.Account = true, "ada" })
	}
	var got *http.Request
	f.port = func(_ int, c netConn) {
		answers(func(r *http.Request, _ string) { got = r }, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")(c)
	}
	addr := serve(t, f)
	hostOf := func(id api.SandboxID, port int) string { return fmt.Sprintf("%d-%s.box.example", port, id) }
	host := hostOf(id, 3000)
	link := func() string {
		t.Helper()
		l, err := p.Link(f.row(t, id), 3000)
		if err != nil || !l.Private || l.ExpiresAt.IsZero() {
			t.Fatal(l, err)
		}
		path, ok := strings.CutPrefix(l.URL, "https://"+host)
		if !ok {
			t.Fatal(l.URL)
		}
		return path
	}
	path := link()
	for name, a := range map[string]ask{
		"without":                    {path: "/", host: host, header: page()},
		"a program, not a browser":   {path: path, host: host},
		"a page that loads an image": {path: path, host: host, header: page("Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image")},
		"another ticket":             {path: path + "x", host: host, header: page()},
		"two tickets":                {path: path + "&" + path[2:], host: host, header: page()},
	} {
		if a := a.to(t, addr); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := (ask{path: path, header: map[string]string{"E2b-Sandbox-Id": string(id), "E2b-Sandbox-Port": "3000", "Sec-Fetch-Mode": "navigate"}}).to(t, addr); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("at an address that is shared: %d %v", a.status, a.header)
	}
	a := ask{path: strings.Replace(path, "/?", "//evil.example/a%2Fb?c=d&", 1), host: host, header: page()}.to(t, addr)
	cookie := a.header.Get("Set-Cookie")
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "https://"+host+"//evil.example/a%2Fb?c=d" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	for _, part := range []string{"__Host-hortus-preview=", "; Path=/;", "; HttpOnly", "; Secure", "; SameSite=Lax"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("%s has no %q", cookie, part)
		}
	}
	if strings.Contains(cookie, "Domain") {
		t.Errorf("%s is for other names too", cookie)
	}
	if a := (ask{path: path, host: host, header: page()}).to(t, addr); a.status != http.StatusForbidden || !strings.Contains(a.body, "was used") {
		t.Errorf("a ticket that was used: %d %s", a.status, a.body)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	for _, c := range []struct {
		name   string
		ask    ask
		status int
	}{
		{"a page", ask{host: host, header: page("Cookie", "a=b; "+cookie+"; c=d")}, 200},
		{"its request", ask{host: host, method: "POST", header: page("Cookie", "a=b; "+cookie+"; c=d", "Origin", "https://"+host, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors")}, 200},
		{"a link to it from elsewhere", ask{host: host, header: page("Cookie", "a=b; "+cookie+"; c=d", "Sec-Fetch-Site", "cross-site")}, 200},
		{"of another port", ask{host: hostOf(id, 3001), header: page("Cookie", cookie)}, 403},
		{"of another sandbox", ask{host: hostOf(other, 3000), header: page("Cookie", cookie)}, 403},
		{"changed", ask{host: host, header: page("Cookie", cookie+"0")}, 403},
		{"a later end", ask{host: host, header: page("Cookie", strings.Replace(cookie, "=1", "=2", 1))}, 403},
		{"a page of another sandbox", ask{host: host, header: page("Cookie", cookie, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty")}, 403},
		{"a form of another sandbox", ask{host: host, method: "POST", header: page("Cookie", cookie, "Sec-Fetch-Site", "same-site", "Origin", "https://"+hostOf(other, 3000))}, 403},
		{"a WebSocket of another sandbox", ask{host: host, header: map[string]string{"Cookie": cookie, "Origin": "https://" + hostOf(other, 3000), "Connection": "Upgrade", "Upgrade": "websocket"}}, 403},
		{"a sandboxed page", ask{host: host, header: map[string]string{"Cookie": cookie, "Origin": "null"}}, 403},
		{"a frame elsewhere", ask{host: host, header: page("Cookie", cookie, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe")}, 403},
		{"by header", ask{header: map[string]string{"Cookie": cookie, "E2b-Sandbox-Id": string(id), "E2b-Sandbox-Port": "3000"}}, 403},
	} {
		got = nil
		a := c.ask
		if a.path = "/"; a.to(t, addr).status != c.status || (got != nil) != (c.status == 200) {
			t.Errorf("%s: want %d, the program was asked: %v", c.name, c.status, got != nil)
		}
		if got != nil && got.Header.Get("Cookie") != "a=b;  c=d" && got.Header.Get("Cookie") != "a=b; c=d" {
			t.Errorf("%s: the program sees the cookies %q", c.name, got.Header.Get("Cookie"))
		}
	}
	// Both end.
	later := link()
	f.mu.Lock()
	f.now = f.now.Add(10*time.Minute + time.Second)
	f.mu.Unlock()
	if a := (ask{path: later, host: host, header: page()}).to(t, addr); a.status != http.StatusForbidden {
		t.Errorf("a ticket after its time: %d", a.status)
	}
	if a := (ask{path: "/", host: host, header: page("Cookie", cookie)}).to(t, addr); a.status != http.StatusOK {
		t.Errorf("the cookie after ten minutes: %d", a.status)
	}
	f.mu.Lock()
	f.now = f.now.Add(12 * time.Hour)
	f.mu.Unlock()
	if a := (ask{path: "/", host: host, header: page("Cookie", cookie)}).to(t, addr); a.status != http.StatusForbidden {
		t.Errorf("the cookie after its time: %d", a.status)
	}
}

// TestTicketOfAProgram: a ticket opens one WebSocket of a program, which sends no origin; the server sees neither the ticket nor
// a name that could be a page's.
func TestTicketOfAProgram(t *testing.T) {
	f, id := newFakes()
	other := f.add(api.SandboxRunning)
	p := withPreviews(f)
	for _, one := range []api.SandboxID{id, other} {
		f.change(one, func(s *api.Sandbox) { s.PrivateTraffic, s.Account = true, "ada" })
	}
	var got *http.Request
	f.port = func(_ int, c netConn) {
		answers(func(r *http.Request, _ string) { got = r }, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")(c)
	}
	addr := serve(t, f)
	hostOf := func(id api.SandboxID, port int) string { return fmt.Sprintf("%d-%s.box.example", port, id) }
	socket := func(more ...string) map[string]string {
		h := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	link := func(id api.SandboxID, port int) string {
		t.Helper()
		l, err := p.Link(f.row(t, id), port)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(l.URL, "https://"+hostOf(id, port))
	}
	open := link(id, 9222)
	for name, a := range map[string]ask{
		"without":              {path: "/", host: hostOf(id, 9222), header: socket()},
		"a page of another":    {path: open, host: hostOf(id, 9222), header: socket("Origin", "https://evil.example")},
		"its own page":         {path: open, host: hostOf(id, 9222), header: socket("Origin", "https://"+hostOf(id, 9222))},
		"a form":               {method: "POST", path: open, host: hostOf(id, 9222), header: socket()},
		"no upgrade":           {path: open, host: hostOf(id, 9222)},
		"another sandbox":      {path: link(id, 9222), host: hostOf(other, 9222), header: socket()},
		"another port":         {path: link(id, 9222), host: hostOf(id, 9223), header: socket()},
		"a shared address":     {path: link(id, 9222), header: socket("E2b-Sandbox-Id", string(id), "E2b-Sandbox-Port", "9222")},
		"another one's ticket": {path: link(other, 9222), host: hostOf(id, 9222), header: socket()},
	} {
		if a := a.to(t, addr); a.status != http.StatusForbidden || got != nil {
			t.Errorf("%s: %d, the program was asked: %v", name, a.status, got != nil)
		}
		got = nil
	}
	a := ask{path: strings.Replace(open, "/?", "/devtools/browser/x?a=b&", 1), host: hostOf(id, 9222), header: socket()}
	if first := a.to(t, addr); first.status != http.StatusOK || got == nil {
		t.Fatalf("the control: %d %s", first.status, first.body)
	}
	if got.Host != "localhost:9222" || got.URL.String() != "/devtools/browser/x?a=b" || got.Header.Get("Upgrade") != "websocket" {
		t.Errorf("the program sees %s %s %v", got.Host, got.URL, got.Header)
	}
	if got = nil; a.to(t, addr).status != http.StatusForbidden || got != nil {
		t.Error("a ticket was used twice")
	}
	late := link(id, 9222)
	f.mu.Lock()
	f.now = f.now.Add(10*time.Minute + time.Second)
	f.mu.Unlock()
	if (ask{path: late, host: hostOf(id, 9222), header: socket()}).to(t, addr).status != http.StatusForbidden || got != nil {
		t.Error("a ticket was used after its time")
	}
}

// TestPages: a browser that opens a page is told why nothing is there and what to do; other requests have the answers of
// E2B's wire. What is in a page comes from this program alone.
func TestPages(t *testing.T) {
	f, running := newFakes()
	withPreviews(f)
	starting, paused, ended, hidden := f.add(api.SandboxStarting), f.add(api.SandboxPaused), f.add(api.SandboxEnded), f.add(api.SandboxRunning)
	f.change(ended, func(s *api.Sandbox) { s.Reason = "<script>alert(1)</script>" })
	f.change(hidden, func(s *api.Sandbox) { s.PrivateTraffic = true })
	f.port = func(_ int, c netConn) { answers(nil, "SSH-2.0 <script>alert(1)</script>\r\n")(c) }
	addr := serve(t, f)
	ask1 := func(id api.SandboxID, header map[string]string) answer {
		t.Helper()
		return ask{path: "/%3Cscript%3E?<script>", host: "3000-" + string(id) + ".box.example", header: header}.to(t, addr)
	}
	check := func(id api.SandboxID, status int, title, next string, reload bool) {
		t.Helper()
		a := ask1(id, page())
		h := a.header
		if a.status != status || !strings.Contains(a.body, "<h1>"+title+"</h1>") || !strings.Contains(a.body, next) || (h.Get("Refresh") != "") != reload {
			t.Errorf("%s: %d %v\n%s", title, a.status, h, a.body)
		}
		csp := h.Get("Content-Security-Policy")
		if h.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || strings.Contains(a.body, "script") {
			t.Errorf("%s: %v\n%s", title, h, a.body)
		}
		for name, header := range map[string]map[string]string{
			"a program": {}, "a script": {"Accept": "*/*", "Sec-Fetch-Mode": "cors"}, "a script that asks for HTML": {"Accept": "text/html", "Sec-Fetch-Mode": "cors"},
		} {
			if b := ask1(id, header); b.status != status || !strings.HasPrefix(b.body, "{") || b.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: %d %s", title, name, b.status, b.body)
			}
		}
		if b := (ask{method: "POST", path: "/", host: "3000-" + string(id) + ".box.example", header: page()}).to(t, addr); !strings.HasPrefix(b.body, "{") {
			t.Errorf("%s, a form: %s", title, b.body)
		}
	}
	check(running, 502, "Port 3000 did not answer", "hortus sandbox forward "+string(running)+" 3000", false)
	check(hidden, 403, "This port is private", "hortus sandbox url "+string(hidden)+" 3000", false)
	check(starting, 502, "The sandbox is starting", "reloads itself", true)
	check(paused, 502, "The sandbox is paused", "hortus sandbox resume "+string(paused), false)
	check(ended, 502, "There is no such sandbox", "hortus sandbox ls", false)
	check(api.NewSandboxID(), 502, "There is no such sandbox", "hortus sandbox ls", false)
	f.port = nil
	check(running, 502, "Nothing listens on port 3000", "Start the program", true)
	if a := ask1("3000-<script>", page()); strings.Contains(a.body, "<script>") {
		t.Errorf("a name that is none: %s", a.body)
	}
}
