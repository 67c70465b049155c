package envd_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
)

// sign makes a signature as E2B's clients do.
func sign(path, operation, user, token, expires string) string {
	text := path + ":" + operation + ":" + user + ":" + token
	if expires != "" {
		text += ":" + expires
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + strings.TrimRight(base64.StdEncoding.EncodeToString(sum[:]), "=")
}

// TestSign is the example that clients are tested with.
func TestSign(t *testing.T) {
	got := sign("hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", "")
	if want := "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func signedURL(path, user, signature, expires string) string {
	q := url.Values{"path": {path}, "signature": {signature}}
	if user != "" {
		q.Set("username", user)
	}
	if expires != "" {
		q.Set("signature_expiration", expires)
	}
	return "/files?" + q.Encode()
}

// fileGuest serves any file, and keeps what it was asked.
func fileGuest(f *fakes) func() []*http.Request {
	var mu sync.Mutex
	var seen []*http.Request
	f.guest = answers(func(r *http.Request, _ string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
	}, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nfile")
	return func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestSignedURL(t *testing.T) {
	f, id := newFakes()
	for range 20 {
		f.add(api.SandboxRunning)
	}
	seen := fileGuest(f)
	addr := serve(t, f)
	token := "envd" + string(id)
	soon := strconv.FormatInt(f.clock().Unix()+60, 10)
	past := strconv.FormatInt(f.clock().Unix()-1, 10)
	dead := f.add(api.SandboxEnded)
	for name, tt := range map[string]struct {
		method, target string
		status         int
		says           string
	}{
		"read":              {"GET", signedURL("a b.txt", "", sign("a b.txt", "read", "", token, ""), ""), 200, "file"},
		"as a user":         {"GET", signedURL("a", "root", sign("a", "read", "root", token, ""), ""), 200, "file"},
		"until soon":        {"GET", signedURL("a", "", sign("a", "read", "", token, soon), soon), 200, "file"},
		"write":             {"POST", signedURL("a", "", sign("a", "write", "", token, ""), ""), 200, "file"},
		"of no path":        {"POST", "/files?signature=" + url.QueryEscape(sign("", "write", "", token, "")), 200, "file"},
		"expired":           {"GET", signedURL("a", "", sign("a", "read", "", token, past), past), 401, "signature is already expired"},
		"expired, forged":   {"GET", signedURL("a", "", sign("a", "read", "", "guess", past), past), 401, "invalid signature"},
		"moved on":          {"GET", signedURL("a", "", sign("a", "read", "", token, past), soon), 401, "invalid signature"},
		"without its end":   {"GET", signedURL("a", "", sign("a", "read", "", token, past), ""), 401, "invalid signature"},
		"no number":         {"GET", signedURL("a", "", sign("a", "read", "", token, "x"), "x"), 401, "invalid signature"},
		"forged":            {"GET", signedURL("a", "", sign("a", "read", "", "guess", ""), ""), 401, "invalid signature"},
		"of nothing":        {"GET", "/files?path=a&signature=", 401, "invalid signature"},
		"of a dead sandbox": {"GET", signedURL("a", "", sign("a", "read", "", "envd"+string(dead), ""), ""), 401, "invalid signature"},
		"another path":      {"GET", signedURL("b", "", sign("a", "read", "", token, ""), ""), 401, "invalid signature"},
		"another user":      {"GET", signedURL("a", "root", sign("a", "read", "", token, ""), ""), 401, "invalid signature"},
		"another operation": {"POST", signedURL("a", "", sign("a", "read", "", token, ""), ""), 401, "invalid signature"},
		"another method":    {"PUT", signedURL("a", "", sign("a", "read", "", token, ""), ""), 401, "invalid signature"},
		"two paths":         {"GET", signedURL("a", "", sign("a", "read", "", token, ""), "") + "&path=b", 401, "invalid signature"},
		// A path may hold what looks like the rest of a signature: this one was
		// signed to be read, and would be written as another user.
		"a path in a user": {"POST", signedURL("a", "b:read:", sign("a:write:b", "read", "", token, ""), ""), 401, "invalid signature"},
	} {
		t.Run(name, func(t *testing.T) {
			for where, h := range map[string]map[string]string{
				"by signature": nil, "by header": headers(id, "X-Access-Token", ""),
			} {
				before := len(seen())
				got := ask{method: tt.method, path: tt.target, header: h}.to(t, addr)
				if got.status != tt.status || !strings.Contains(got.body, tt.says) {
					t.Errorf("%s: %d %s", where, got.status, got.body)
				}
				if tt.status != 200 && len(seen()) != before {
					t.Errorf("%s: the guest was asked", where)
				}
			}
		})
	}
	for _, r := range seen() {
		if q := r.URL.Query(); q.Has("signature") || q.Has("signature_expiration") {
			t.Errorf("a signature reached the guest: %s", r.URL)
		}
	}
}

// TestForgedLearnsNothing compares what a stranger is told, whatever it guessed.
func TestForgedLearnsNothing(t *testing.T) {
	f, id := newFakes()
	fileGuest(f)
	addr := serve(t, f)
	good := sign("a", "read", "", "envd"+string(id), "")
	var first string
	for i, s := range []string{"v1_x", good[:len(good)-1], good + "=", strings.ToUpper(good), "v2" + good[2:], strings.Repeat("x", 10_000)} {
		got := ask{path: signedURL("a", "", s, "")}.to(t, addr)
		got.header.Del("Date")
		text := strconv.Itoa(got.status) + got.body
		for k, v := range got.header {
			text += k + strings.Join(v, ",")
		}
		if i == 0 {
			first = got.body
		}
		if got.status != http.StatusUnauthorized || got.body != first || strings.Contains(text, string(id)) {
			t.Errorf("%.40q: %s", s, text)
		}
	}
}

// TestForgedIsSlowedDown: after some guesses an address is told to wait, while one
// that signs well is served.
func TestForgedIsSlowedDown(t *testing.T) {
	f, id := newFakes()
	fileGuest(f)
	addr := serve(t, f)
	good := ask{path: signedURL("a", "", sign("a", "read", "", "envd"+string(id), ""), "")}
	for range 200 {
		if got := good.to(t, addr); got.status != http.StatusOK {
			t.Fatalf("a good one: %+v", got)
		}
	}
	refused := 0
	for range 100 {
		if got := (ask{path: signedURL("a", "", "v1_forged", "")}).to(t, addr); got.status == http.StatusTooManyRequests {
			refused++
			if got.header.Get("Retry-After") != "1" {
				t.Errorf("when to come again: %v", got.header)
			}
		}
	}
	if refused != 50 {
		t.Errorf("%d of 100 guesses were refused unseen, want 50", refused)
	}
	f.mu.Lock()
	f.now = f.now.Add(1e9) // a second later
	f.mu.Unlock()
	if got := good.to(t, addr); got.status != http.StatusOK {
		t.Errorf("a good one later: %+v", got)
	}
}

// FuzzSignature serves signed addresses that a client made up.
func FuzzSignature(f *testing.F) {
	f.Add("GET", "path=a&signature=v1_x&signature_expiration=1")
	f.Add("POST", "path=a:b&username=c:d&signature=")
	fk, id := newFakes()
	fileGuest(fk)
	token := "envd" + string(id)
	addr := serve(f, fk)
	f.Fuzz(func(t *testing.T, method, query string) {
		if method != "GET" && method != "POST" {
			return
		}
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		got := ask{method: method, path: "/files?" + q.Encode() + "&signature=", header: headers(id, "X-Access-Token", "")}.to(t, addr)
		if got.status == http.StatusOK {
			t.Errorf("%s %q was served without a signature by %q", method, query, token)
		}
	})
}
