package broker

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
)

// keep are the secrets for headers of a test. A name that begins with "other" is one that is not
// for headers.
type keep struct {
	mu     sync.Mutex
	values map[string]string
	read   int // values
}

func (k *keep) set(name, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.values[name] = value; value == "" {
		delete(k.values, name)
	}
}

// reads returns how many values were read since the last call.
func (k *keep) reads() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.read = 0 }()
	return k.read
}

func (k *keep) value(_ context.Context, account, name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.values[name]
	k.read++
	switch {
	case !ok || account != "acc":
		return "", api.Errorf(api.KindNotFound, "no secret %s", name)
	case strings.HasPrefix(name, "other"):
		return "", api.Errorf(api.KindDenied, "secret %s is not for headers", name)
	case strings.HasPrefix(name, "broken"):
		return "", api.Errorf(api.KindConflict, "it cannot be decrypted")
	}
	return v, nil
}

func newHeaderRig(t *testing.T) (*rig, *keep) {
	k := &keep{values: map[string]string{"key": secretValue, "other": "value-of-other", "broken": "value-of-broken"}}
	return newRig(t, func(c *Config) { c.HeaderValue = k.value }), k
}

func (r *rig) rules(rules ...api.HeaderRule) {
	r.t.Helper()
	if err := r.session.SetHeaders(rules); err != nil {
		r.t.Fatal(err)
	}
}

// headerRule is a rule for a host, from names and values.
func headerRule(host string, pairs ...string) api.HeaderRule {
	out := api.HeaderRule{Host: host, Headers: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		out.Headers[pairs[i]] = pairs[i+1]
	}
	return out
}

// TestHeaderRules has requests to hosts with rules and to others, over both versions of HTTP.
func TestHeaderRules(t *testing.T) {
	r, _ := newHeaderRig(t)
	var s sink
	hosts := []string{"api.example.org", "other.example.org", "deep.a.below.example", "below.example", "fixed.example.org", "none.below.example", "clear.example.org"}
	for _, h := range hosts {
		r.https(&s, h+":443", h+":8443")
		r.http(&s, h+":80")
	}
	clear := headerRule("clear.example.org", "X-Key", "${secret:key}")
	clear.Port = 80
	r.rules(
		headerRule("API.example.org", "x-key", "Bearer ${secret:key}", "X-Env", "test"),
		headerRule("*.below.example", "Authorization", "${secret:key}"),
		headerRule("none.below.example"),
		headerRule("fixed.example.org", "X-Env", "fixed"),
		clear,
	)
	for _, http2 := range []bool{false, true} {
		c := r.client(http2)
		for _, q := range []struct {
			name, url string
			header    []string
			has       []string // what the server gets
			hasNot    []string
			uses      int
		}{
			{"the host of a rule", "https://api.example.org/", nil, []string{"X-Key:[Bearer " + secretValue + "]", "X-Env:[test]"}, nil, 1},
			{"a header that the program sends too", "https://api.example.org/", []string{"X-Key", "mine", "X-Key", "again", "X-Free", "free"}, []string{"X-Key:[Bearer " + secretValue + "]", "X-Free:[free]"}, []string{"mine", "again"}, 1},
			{"a header that servers may take for it", "https://api.example.org/", []string{"x_KEY", "mine"}, []string{"X-Key:[Bearer " + secretValue + "]"}, []string{"mine"}, 1},
			{"another host", "https://other.example.org/", []string{"X-Key", "mine"}, []string{"X-Key:[mine]"}, []string{secretValue, "X-Env"}, 0},
			{"another port", "https://api.example.org:8443/", []string{"X-Key", "mine"}, []string{"X-Key:[mine]"}, []string{secretValue, "X-Env"}, 0},
			{"http", "http://api.example.org/", []string{"X-Key", "mine"}, []string{"X-Key:[mine]"}, []string{secretValue, "X-Env"}, 0},
			{"http on the port of a rule", "http://clear.example.org/", []string{"X-Key", "mine"}, []string{"X-Key:[mine]"}, []string{secretValue}, 0},
			{"below a name", "https://deep.a.below.example/", nil, []string{"Authorization:[" + secretValue + "]"}, nil, 1},
			{"the name itself", "https://below.example/", nil, nil, []string{secretValue}, 0},
			{"a rule without headers", "https://none.below.example/", nil, nil, []string{secretValue}, 0},
			{"a rule without secrets", "https://fixed.example.org/", []string{"X-Env", "mine", "Range", "bytes=0-1"}, []string{"X-Env:[fixed]", "Range:[bytes=0-1]"}, []string{"mine"}, 0},
		} {
			s.take()
			r.alarms()
			resp, err := c.Do(request(t, "GET", q.url, nil, q.header...))
			if err != nil {
				t.Fatal(q.name, err)
			}
			readAll(t, resp)
			got := s.take()
			for _, text := range q.has {
				if !strings.Contains(got, text) {
					t.Errorf("%s: %q is missing: %s", q.name, text, got)
				}
			}
			for _, text := range q.hasNot {
				if strings.Contains(got, text) {
					t.Errorf("%s: %q was sent: %s", q.name, text, got)
				}
			}
			refused, used := r.alarms()
			if len(refused) != 0 || len(used) != q.uses {
				t.Fatalf("%s: %+v, %+v", q.name, refused, used)
			}
			for _, u := range used {
				if u.Secret != "key" || u.Account != "acc" || u.Sandbox != "sbx_1" || u.Task != "task_1" || u.Header == "" || u.Binding != 0 || u.Status != 200 || u.Host == "" {
					t.Errorf("%s: %+v", q.name, u)
				}
			}
		}
		r.mu.Lock()
		cached := r.cached
		r.cached = 0
		r.mu.Unlock()
		if cached != 6 { // those without a rule that sets something
			t.Errorf("the cache was asked %d times", cached)
		}
	}
}

// TestHeaderAnswers: values are replaced in what servers answer, also after the rule has gone.
func TestHeaderAnswers(t *testing.T) {
	r, k := newHeaderRig(t)
	old := secretValue
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Echo", req.Header.Get("X-Key"))
		if req.URL.Path == "/kept" {
			fmt.Fprint(w, "kept ", old)
			return
		}
		fmt.Fprint(w, "you sent ", req.Header.Get("X-Key"))
	}), "api.example.org:443", "other.example.org:443")
	c := r.client(true)
	get := func(url string) string {
		t.Helper()
		resp, err := c.Do(request(t, "GET", url, nil))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Get("X-Echo") + " " + readAll(t, resp)
	}
	r.rules(headerRule("api.example.org", "X-Key", "Bearer ${secret:key}"))
	if got, want := get("https://api.example.org/"), "Bearer "+mark+" you sent Bearer "+mark; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := get("https://other.example.org/kept"); got != " kept "+secretValue {
		t.Errorf("the control, another host: %q", got)
	}
	k.set("key", "a second value, longer")
	if got := get("https://api.example.org/"); strings.Contains(got, "second") || !strings.Contains(got, "Bearer "+mark) {
		t.Errorf("the new value: %q", got)
	}
	if got := get("https://api.example.org/kept"); strings.Contains(got, secretValue) {
		t.Errorf("the old value: %q", got)
	}
	r.rules()
	if got := get("https://api.example.org/kept"); got != " kept "+mark {
		t.Errorf("after the rule has gone: %q", got)
	}
}

// TestHeaderRefusals: a request whose rule cannot be followed is not sent.
func TestHeaderRefusals(t *testing.T) {
	r, k := newHeaderRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	c := r.client(false)
	send := func(header ...string) (int, string) {
		t.Helper()
		resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, header...))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, readAll(t, resp)
	}
	for _, q := range []struct {
		name   string
		secret string
		value  string
		status int
		alarm  string
	}{
		{"the control", "key", secretValue, 200, ""},
		{"removed", "key", "", 403, "does not exist any more"},
		{"set again", "key", secretValue, 200, ""},
		{"not for headers", "other", "value-of-other", 403, "not for headers"},
		{"not readable", "broken", "x", 502, ""},
		{"a line break", "key", "value\r\nX-Other: injected", 502, ""},
		{"too short", "key", "short", 502, ""},
		{"too large together", "key", strings.Repeat("x", 60<<10), 502, ""},
	} {
		k.set(q.secret, q.value)
		r.rules(headerRule("api.example.org", "X-Key", "${secret:"+q.secret+"}", "X-Also", "${secret:"+q.secret+"}"))
		s.take()
		r.alarms()
		status, text := send("X-Key", "mine")
		got := s.take()
		refused, _ := r.alarms()
		if status != q.status || (got != "") != (q.status == 200) || strings.Contains(text, "value-of") || q.value != "" && strings.Contains(text, q.value) {
			t.Errorf("%s: %d %q, the server got %q", q.name, status, text, got)
		}
		if q.alarm == "" && len(refused) != 0 || q.alarm != "" && (len(refused) != 1 || !strings.Contains(refused[0].Refused, q.alarm) || refused[0].Secret != q.secret) {
			t.Errorf("%s: %+v", q.name, refused)
		}
	}
	// Secrets that are too large are not all read.
	var all []string
	for i := range 20 {
		name := fmt.Sprintf("large%d", i)
		k.set(name, strings.Repeat("x", 60<<10))
		all = append(all, fmt.Sprintf("X-%d", i), "${secret:"+name+"}")
	}
	r.rules(headerRule("api.example.org", all...))
	k.reads()
	if status, _ := send(); status != 502 {
		t.Errorf("%d", status)
	}
	if n := k.reads(); n != 2 {
		t.Errorf("%d secrets were read", n)
	}
	// A trailer of the same name comes after the headers.
	k.set("key", secretValue)
	r.rules(headerRule("api.example.org", "X-Key", "${secret:key}"))
	for name, status := range map[string]int{"X-Other": 200, "X_key": 400} {
		req := request(t, "POST", "https://api.example.org/", io.MultiReader(strings.NewReader("body")))
		req.Trailer = http.Header{name: {"mine"}}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if readAll(t, resp); resp.StatusCode != status {
			t.Errorf("a trailer %s: %d, want %d", name, resp.StatusCode, status)
		}
	}
	// Another account's secret is none of this sandbox's.
	other := r.broker.Session(Owner{Sandbox: "sbx_2", Account: "bob"})
	defer other.Close()
	if _, err := other.headerValue(t.Context(), "key"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	// Without rules nothing is set, and a session that is closed has none.
	r.rules()
	s.take()
	if status, _ := send("X-Key", "mine"); status != 200 || !strings.Contains(s.take(), "X-Key:[mine]") {
		t.Error("without rules")
	}
	target := policy.Target{Host: "api.example.org", Port: 443}
	r.rules(headerRule("api.example.org", "X-Key", "${secret:key}"))
	if !r.session.SetsHeaders(target) {
		t.Error("the control: the rule is not there")
	}
	r.session.Close()
	if r.session.SetsHeaders(target) || r.session.SetHeaders(nil) == nil {
		t.Error("a closed session has rules")
	}
}

// TestHeaderWithPlaceholder: a placeholder in a header that a rule replaces is decided as any other.
func TestHeaderWithPlaceholder(t *testing.T) {
	r, _ := newHeaderRig(t)
	var s sink
	r.https(&s, "api.example.org:443", "free.example.org:443")
	p := r.grant(bearer("token"))[0]
	r.values["token"] = "value-of-token"
	r.rules(headerRule("api.example.org", "X-Key", "${secret:key}"), headerRule("free.example.org", "Authorization", "${secret:key}"))
	c := r.client(true)
	for _, q := range []struct {
		url    string
		status int
		has    string
	}{
		{"https://api.example.org/", 200, "value-of-token"},
		{"https://free.example.org/", 403, ""},
	} {
		resp, err := c.Do(request(t, "GET", q.url, nil, "Authorization", "Bearer "+p))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if got := s.take(); resp.StatusCode != q.status || !strings.Contains(got, q.has) || q.has != "" && !strings.Contains(got, secretValue) {
			t.Errorf("%s: %d, %s", q.url, resp.StatusCode, got)
		}
	}
	if refused, used := r.alarms(); len(refused) != 1 || len(used) != 2 {
		t.Errorf("%+v %+v", refused, used)
	}
}

// TestSetHeadersBounds: rules that name ever more secrets do not use ever more memory.
func TestSetHeadersBounds(t *testing.T) {
	r, _ := newHeaderRig(t)
	for name, rule := range map[string]api.HeaderRule{
		"an address": headerRule("192.0.2.1", "X-Key", "a"), "Host": headerRule("api.example.org", "Host", "a"), "a bad name": headerRule("a..b", "X-Key", "a"),
	} {
		if err := r.session.SetHeaders([]api.HeaderRule{rule}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range api.MaxSecretGrants {
		r.rules(headerRule("api.example.org", "X-Key", fmt.Sprintf("${secret:s%d}", i)))
	}
	if err := r.session.SetHeaders([]api.HeaderRule{headerRule("api.example.org", "X-Key", "${secret:more}")}); api.KindOf(err) != api.KindExhausted {
		t.Error(err)
	}
	for i := range maxSent + 1 {
		r.rules(headerRule(fmt.Sprintf("h%d.example.org", i), "X-Key", "${secret:s1}"))
	}
	rs := r.session.headers.rules.Load()
	if len(rs.sent) > maxSent || len(rs.everywhere) != api.MaxSecretGrants {
		t.Errorf("%d pairs, %d names", len(rs.sent), len(rs.everywhere))
	}
	if got := rs.sentTo(policy.Target{Host: "h0.example.org", Port: 443}); len(got) != api.MaxSecretGrants {
		t.Errorf("%q", got)
	}
}

// TestHeaderWebSocket opens WebSockets with a secret in a header, and takes it away.
func TestHeaderWebSocket(t *testing.T) {
	r, _ := newHeaderRig(t)
	var mu sync.Mutex
	var got string
	begun, goOn := make(chan struct{}, 1), make(chan struct{}, 1)
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		got = req.Header.Get("X-Key")
		mu.Unlock()
		if req.URL.Path == "/slow" {
			begun <- struct{}{}
			<-goOn
		}
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+frame(0x81, false, "echo "+req.Header.Get("X-Key")))
		io.Copy(io.Discard, brw)
	}), "api.example.org:443", "other.example.org:443")
	one, other := headerRule("api.example.org", "X-Key", "${secret:key}"), headerRule("other.example.org", "X-Env", "x")
	dial := func() *bufio.Reader {
		t.Helper()
		c := tls.Client(r.open("api.example.org:443"), &tls.Config{RootCAs: r.trust, ServerName: "api.example.org"})
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: api.example.org\r\nX-Key: mine\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		br := bufio.NewReader(c)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if got != secretValue {
			t.Errorf("the server got %q", got)
		}
		head := make([]byte, 2)
		if _, err := io.ReadFull(br, head); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, head[1])
		if _, err := io.ReadFull(br, text); err != nil || strings.Contains(string(text), secretValue) || !strings.HasPrefix(string(text), "echo ") {
			t.Fatalf("%q, %v", text, err)
		}
		return br
	}
	for name, end := range map[string]func(){
		"the rule has gone":     func() { r.rules(other) },
		"the rule names others": func() { r.rules(headerRule("api.example.org", "X-Key", "nothing")) },
		"the secret has gone":   func() { r.session.RevokeHeader("key") },
	} {
		r.rules(one)
		br := dial()
		r.rules(one, other) // the control: it stays
		r.session.RevokeHeader("another")
		if r.session.mu.Lock(); len(r.session.sockets) != 1 {
			t.Errorf("%s: the control: %d sockets", name, len(r.session.sockets))
		}
		r.session.mu.Unlock()
		end()
		if _, err := br.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: it is still open: %v", name, err)
		}
	}
	// The secret is taken away while the server has not answered; the control has it.
	for name, status := range map[string]int{"": 101, "key": 403} {
		r.rules(one)
		c := tls.Client(r.open("api.example.org:443"), &tls.Config{RootCAs: r.trust, ServerName: "api.example.org"})
		fmt.Fprint(c, "GET /slow HTTP/1.1\r\nHost: api.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		<-begun
		if name != "" {
			r.session.RevokeHeader(name)
		}
		goOn <- struct{}{}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != status {
			t.Errorf("taken away before the answer: %q: %+v, %v", name, resp, err)
		}
		c.Close()
	}
}
