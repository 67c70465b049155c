package broker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
)

func TestPlaceholder(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		p := NewPlaceholder()
		if !ValidPlaceholder(p) || seen[p] || url.QueryEscape(p) != p || url.PathEscape(p) != p || len(p) > 63 {
			t.Fatal(p)
		}
		seen[p] = true
	}
	for _, p := range []string{"", Prefix, strings.ToUpper(NewPlaceholder()), NewPlaceholder() + "a", Prefix + strings.Repeat("1", 26)} {
		if ValidPlaceholder(p) {
			t.Errorf("%q is valid", p)
		}
	}
}

func TestSetGrantsRefuses(t *testing.T) {
	r := newRig(t)
	good := Grant{Placeholder: NewPlaceholder(), Secret: bearer("a")}
	bad := bearer("b")
	bad.Bindings[0].Host = "127.0.0.1x."
	for name, grants := range map[string][]Grant{
		"malformed placeholder": {{Placeholder: "x", Secret: bearer("a")}},
		"the same placeholder":  {good, {Placeholder: good.Placeholder, Secret: bearer("b")}},
		"the same secret":       {good, {Placeholder: NewPlaceholder(), Secret: bearer("a")}},
		"too many":              many(api.MaxSecretGrants+1, ""),
		"too many that ended":   many(maxEnded+1, "it was removed"),
		"an ended one's":        {{Placeholder: good.Placeholder, Secret: bearer("b"), Ended: "it was removed"}, good},
		"bad path":              {{Placeholder: NewPlaceholder(), Secret: bearer("a", "v1")}},
	} {
		if err := r.session.SetGrants(grants); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.session.SetGrants([]Grant{good}); err != nil {
		t.Error(err)
	}
	r.session.Close()
	if r.session.SetGrants([]Grant{good}) == nil {
		t.Error("a closed session took grants")
	}
}

func many(n int, ended string) []Grant {
	var out []Grant
	for i := range n {
		out = append(out, Grant{Placeholder: NewPlaceholder(), Secret: bearer(fmt.Sprint("s", i)), Ended: ended})
	}
	return out
}

// TestRevocation removes, replaces and renews grants.
func TestRevocation(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/kept" {
			fmt.Fprint(w, secretValue)
			return
		}
		s.ServeHTTP(w, req)
	}), "api.example.org:443")
	c := r.client(true)
	send := func(placeholder string) int {
		resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+placeholder))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		return resp.StatusCode
	}
	kept := func() string {
		resp, err := c.Do(request(t, "GET", "https://api.example.org/kept", nil))
		if err != nil {
			t.Fatal(err)
		}
		return readAll(t, resp)
	}
	if got := kept(); got != secretValue {
		t.Errorf("without grants the answer is %q", got)
	}
	a := r.grant(bearer("a"))[0]
	if got := kept(); got != a {
		t.Errorf("before the first use the answer is %q", got)
	}
	if n := send(a); n != 200 {
		t.Error(n)
	}
	if err := r.session.SetGrants(nil); err != nil {
		t.Fatal(err)
	}
	if n := send(a); n != 403 {
		t.Error(n)
	}
	if got := kept(); strings.Contains(got, secretValue) {
		t.Errorf("after the grant was removed the answer is %q", got)
	}
	b := r.grant(bearer("a"))[0]
	if m, n := send(a), send(b); m != 403 || n != 200 {
		t.Error(m, n)
	}
	r.session.Close()
	if n := send(b); n != 403 {
		t.Error(n)
	}
}

// TestOverlap has a request match two bindings, and two secrets for the same requests.
func TestOverlap(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	both := bearer("both", "/a/**", "/a")
	both.Bindings = append(both.Bindings, bearer("", "/a/b").Bindings...)
	r.values["one"], r.values["two"] = "value-of-one", "value-of-two"
	p := r.grant(both, bearer("one"), bearer("two"))
	for _, row := range []struct {
		path, placeholder string
		status            int
		want              string
	}{
		{"/a", p[0], 200, secretValue}, {"/a/b", p[0], 403, ""}, {"/a/b", p[1], 200, "value-of-one"}, {"/a/b", p[2], 200, "value-of-two"},
	} {
		resp, err := r.client(false).Do(request(t, "GET", "https://api.example.org"+row.path, nil, "Authorization", row.placeholder))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if got := s.take(); resp.StatusCode != row.status || !strings.Contains(got, row.want) || row.status != 200 && got != "" {
			t.Errorf("%+v: %d, the server got %q", row, resp.StatusCode, got)
		}
	}
}

// TestOverride has a program ask the server to read another method or path.
func TestOverride(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443", "any.example.org:443")
	secret := bearer("token", "/a")
	secret.Bindings = append(secret.Bindings, bearer("").Bindings...)
	secret.Bindings[1].Host = "any.example.org"
	p := r.grant(secret)[0]
	for _, row := range []struct {
		url, header string
		status      int
	}{
		{"https://api.example.org/a", "X-Control", 200}, {"https://api.example.org/a", "X-Http-Method-Override", 403},
		{"https://api.example.org/a", "X-Original-Url", 403}, {"https://api.example.org/a?a=1&%5fmethod=DELETE", "X-Control", 403},
		{"https://any.example.org/a?_method=DELETE", "X-Original-Url", 200}, // any method and path is allowed
	} {
		resp, err := r.client(true).Do(request(t, "GET", row.url, nil, "Authorization", p, row.header, "DELETE"))
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		if got := s.take(); resp.StatusCode != row.status || (got != "") != (row.status == 200) {
			t.Errorf("%+v: %d %q, the server got %q", row, resp.StatusCode, text, got)
		}
	}
}

// TestDenied sends a placeholder in requests that are refused for other reasons.
func TestDenied(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	p := r.grant(bearer("token"))[0]
	for _, text := range []string{"harmless", p} {
		host := request(t, "GET", "https://api.example.org/", nil)
		host.Host = text + ".example.org"
		for i, req := range []*http.Request{host, request(t, "GET", "https://api.example.org/denied/"+text, nil), request(t, "GET", "https://api.example.org/denied", nil, "Authorization", text)} {
			resp, err := r.client(true).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if answer := readAll(t, resp); resp.StatusCode == 200 || s.take() != "" {
				t.Errorf("%d: %d %q", i, resp.StatusCode, answer)
			}
			if refused, _ := r.alarms(); (len(refused) == 1) != (text == p) || text == p && (refused[0].Secret != "token" || refused[0].Scheme != "https") {
				t.Errorf("%d %q: %+v", i, text, refused)
			}
		}
	}
}

// TestMisuse sends a placeholder in a body whose header has the secret where it may be.
func TestMisuse(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	p := r.grant(bearer("token"))[0]
	for _, http2 := range []bool{false, true} {
		for text, status := range map[string]int{"harmless": 200, p: 403} {
			resp, err := r.client(http2).Do(request(t, "POST", "https://api.example.org/", &pieces{[]string{"begin ", text[:5], text[5:]}}, "Authorization", p))
			if err != nil {
				t.Fatal(err)
			}
			answer := readAll(t, resp)
			if got := s.take(); resp.StatusCode != status || strings.Contains(got, p) || status == 200 && !strings.Contains(got, text) {
				t.Errorf("%d %q, the server got %q", resp.StatusCode, answer, got)
			}
		}
	}
}

// TestUnreadable has values that cannot be read or used. The reason is in the log only, and the
// value nowhere.
func TestUnreadable(t *testing.T) {
	var log strings.Builder
	r := newRig(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	var s sink
	r.https(&s, "api.example.org:443")
	p := r.grant(bearer("token"))[0]
	for value, status := range map[string]int{"good-value": 200, "bad\r\nX-Evil: 1": 502, "short": 502, "tab\tand nul\x00": 502} {
		r.values["token"] = value
		resp, err := r.client(false).Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", p))
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		if got := s.take(); resp.StatusCode != status || status != 200 && got != "" || strings.Contains(text, value) {
			t.Errorf("%q: %d %q, the server got %q", value, resp.StatusCode, text, got)
		}
		if strings.Contains(log.String(), value) {
			t.Errorf("the log has the value: %s", log.String())
		}
	}
	delete(r.values, "token")
	resp, err := r.client(false).Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", p))
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, resp); resp.StatusCode != 502 || strings.Contains(text, "no value") || !strings.Contains(log.String(), "no value") {
		t.Errorf("%d %q %s", resp.StatusCode, text, log.String())
	}
}

// TestRedirect has a server redirect to a host that no secret is bound to. The client follows.
func TestRedirect(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "https://other.example.org/?"+url.Values{"q": {req.Header.Get("X-Key")}}.Encode(), http.StatusTemporaryRedirect)
	}), "api.example.org:443")
	r.https(&s, "other.example.org:443")
	secret := bearer("token")
	secret.Bindings[0].In.Name = "X-Key"
	p := r.grant(secret)[0]
	c := r.client(true)
	c.CheckRedirect = nil
	resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, "X-Key", p))
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, resp); resp.StatusCode != 403 || s.take() != "" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	if refused, used := r.alarms(); len(refused) != 1 || refused[0].Host != "other.example.org" || len(used) != 1 || used[0].Host != "api.example.org" || used[0].Status != 307 {
		t.Errorf("%+v %+v", refused, used)
	}
}

// TestBrokenAnswer has a server answer with a malformed header that has the value.
func TestBrokenAnswer(t *testing.T) {
	r := newRig(t)
	r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", req.Header.Get("X-Key"))
	}), "api.example.org:80")
	secret := bearer("token")
	secret.Bindings[0].In.Name, secret.Bindings[0].Scheme = "X-Key", "http"
	p := r.grant(secret)[0]
	resp, err := r.client(false).Do(request(t, "GET", "http://api.example.org/", nil, "X-Key", p))
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, resp); resp.StatusCode != 502 || leaks(text, secretValue) {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

// TestConnectionWithoutBody: an answer without a body ends a connection that had a secret, so that what a server sends
// behind it is not the answer to the next request.
func TestConnectionWithoutBody(t *testing.T) {
	r := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					switch req.URL.Path {
					case "/head":
						fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Connection: %d\r\nContent-Length: 5\r\n\r\n", n)
					case "/empty":
						fmt.Fprintf(c, "HTTP/1.1 204 No Content\r\nX-Connection: %d\r\n\r\n", n)
					default:
						fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Connection: %d\r\nContent-Length: 5\r\n\r\nhello", n)
					}
				}
			}()
		}
	}()
	r.addresses["api.example.org:80"] = ln.Addr().String()
	secret := bearer("token")
	secret.Bindings[0].Scheme = "http"
	p := r.grant(secret)[0]
	c := r.client(false)
	var got []string
	for _, row := range []string{"GET /body", "GET /body", "HEAD /head", "GET /body", "POST /empty", "GET /body", "GET /body"} {
		method, path, _ := strings.Cut(row, " ")
		resp, err := c.Do(request(t, method, "http://api.example.org"+path, nil, "Authorization", p))
		if err != nil {
			t.Fatal(row, err)
		}
		readAll(t, resp)
		got = append(got, resp.Header.Get("X-Connection"))
	}
	if want := []string{"0", "0", "0", "1", "1", "2", "2"}; !slices.Equal(got, want) {
		t.Errorf("connections %v, want %v", got, want)
	}
}

// TestTCP sends bytes over a connection that is not HTTP, alone and after CONNECT.
func TestTCP(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	r.addresses["db.example.org:5432"] = l.Addr().String()
	r.classes["db.example.org:5432"] = api.EgressTCP
	p := r.grant(bearer("token"))[0]
	harmless := strings.Repeat("h", PlaceholderSize)
	for _, text := range []string{harmless, p} {
		for _, split := range []int{0, 1, 20, 39} {
			c := r.open("db.example.org:5432")
			io.WriteString(c, text[:split])
			echoed := make([]byte, split)
			if _, err := io.ReadFull(c, echoed); err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, text[split:])
			rest := make([]byte, len(text)-split)
			n, err := io.ReadFull(c, rest)
			if sent := err == nil; sent != (text == harmless) || text == p && n > 0 {
				t.Errorf("%q, split at %d: %q came back, %v", text, split, rest[:n], err)
			}
			c.Close()
		}
	}
	if refused, _ := r.alarms(); len(refused) != 4 || refused[0].Host != "db.example.org" || refused[0].Port != 5432 {
		t.Errorf("%+v", refused)
	}
}

// TestNames checks names that are looked up.
func TestNames(t *testing.T) {
	r := newRig(t)
	p := NewPlaceholder()
	for _, name := range []string{p + ".example.org", "a." + strings.ToUpper(p) + ".example.org", "x" + p + "x.example.org"} {
		if r.session.CheckName(name, 0) == nil {
			t.Errorf("%s was not refused", name)
		}
	}
	if refused, _ := r.alarms(); len(refused) != 3 {
		t.Errorf("%+v", refused)
	}
	for _, name := range []string{"example.org", "hortus-secret-storage.example.org", strings.Repeat("a", 60) + ".example.org"} {
		if refusal := r.session.CheckName(name, 443); refusal != nil {
			t.Errorf("%s: %v", name, refusal)
		}
	}
}

// TestFlood refuses more than is recorded.
func TestFlood(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRig(t, func(c *Config) { c.Now = func() time.Time { return now } })
	for range 10 * maxAlarms {
		r.session.CheckName(NewPlaceholder(), 0)
	}
	refused, _ := r.alarms()
	if len(refused) != maxAlarms+1 || !strings.HasPrefix(refused[maxAlarms].Refused, "more refusals") {
		t.Errorf("%d records, the last one %+v", len(refused), refused[len(refused)-1])
	}
	now = now.Add(time.Second)
	r.session.CheckName(NewPlaceholder(), 0)
	if refused, _ = r.alarms(); len(refused) != 1 {
		t.Errorf("%+v", refused)
	}
}

// TestConcurrent uses a session while its grants are replaced.
func TestConcurrent(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	p := r.grant(bearer("token"))[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			grants := []Grant{{Placeholder: p, Secret: bearer("token")}}
			if i%2 == 1 {
				grants = nil
			}
			if err := r.session.SetGrants(grants); err != nil {
				t.Error(err)
			}
		}
	})
	c := r.client(true)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				resp, err := c.Do(request(t, "POST", "https://api.example.org/", strings.NewReader("body"), "Authorization", p))
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	clients.Wait()
	cancel()
	all.Wait()
	if strings.Contains(s.take(), p) {
		t.Error("the server got a placeholder")
	}
}
