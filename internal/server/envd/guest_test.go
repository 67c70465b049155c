package envd_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
)

func TestTokens(t *testing.T) {
	f, id := newFakes()
	other := f.add(api.SandboxRunning)
	var mu sync.Mutex
	asked := 0
	f.guest = answers(func(r *http.Request, _ string) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Access") || strings.HasPrefix(name, "X-Api") || strings.HasPrefix(name, "E2b") || name == "Cookie" {
				t.Errorf("header %s reached the guest", name)
			}
		}
	}, ok204)
	addr := serve(t, f)
	right := "envd" + string(id)
	for name, tt := range map[string]struct {
		path   string
		header map[string]string
		status int
	}{
		"the control":         {"/metrics", headers(id, "X-Api-Key", "e2b_0", "Cookie", "a=b"), 204},
		"no token":            {"/metrics", headers(id, "X-Access-Token", ""), 401},
		"health needs none":   {"/health", headers(id, "X-Access-Token", ""), 204},
		"health, a wrong one": {"/health", headers(id, "X-Access-Token", "x"), 204},
		"a wrong one":         {"/metrics", headers(id, "X-Access-Token", right+"x"), 401},
		"cut":                 {"/metrics", headers(id, "X-Access-Token", right[:len(right)-1]), 401},
		"another sandbox's":   {"/metrics", headers(id, "X-Access-Token", "envd"+string(other)), 401},
		"the traffic token":   {"/metrics", headers(id, "X-Access-Token", "traffic"+string(id)), 401},
		"files without":       {"/files?path=a", headers(id, "X-Access-Token", ""), 401},
		"an odd parameter":    {"/metrics?every=5", headers(id), 400},
		"one of files":        {"/files?path=a&mode=0777", headers(id), 400},
		"two paths":           {"/files?path=a&path=b", headers(id), 400},
		"two users":           {"/files?path=a&username=user&username=root", headers(id), 400},
		"half an escape":      {"/files?path=%zz", headers(id), 400},
		"signed, and odd":     {signedURL("a", "", sign("a", "read", "", right, ""), "") + "&mode=0777", headers(id, "X-Access-Token", ""), 400},
		"a semicolon":         {"/files?path=a;username=root", headers(id), 400},
		"compose, signed":     {"/files/compose?signature=v1_x", headers(id, "X-Access-Token", ""), 401},
	} {
		if got := (ask{path: tt.path, header: tt.header}).to(t, addr); got.status != tt.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	// Without its token a sandbox that is there and one that never was are told
	// apart by nothing.
	a := ask{path: "/metrics", header: headers(id, "X-Access-Token", "x")}.to(t, addr)
	b := ask{path: "/metrics", header: headers(api.NewSandboxID(), "X-Access-Token", "x")}.to(t, addr)
	if a.status != b.status || a.body != b.body {
		t.Errorf("%+v and %+v", a, b)
	}
	got := raw(t, addr, "GET /metrics HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: "+string(id)+"\r\nX-Access-Token: guess\r\nX-Access-Token: "+right+"\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 401 ") {
		t.Errorf("two tokens: %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked != 3 {
		t.Errorf("the guest was asked %d times", asked)
	}
}

// TestInternalRoutes requests what is between a guest and its host.
func TestInternalRoutes(t *testing.T) {
	f, id := newFakes()
	f.guest = answers(func(r *http.Request, _ string) { t.Errorf("the guest was asked for %s", r.URL) }, ok204)
	addr := serve(t, f)
	for _, path := range []string{"/", "/init", "/freeze", "/hortus/port?port=22", "/hortus/trust", "/files/../init", "/files/", "//files",
		"/files%2f..%2finit", "/health/../init", "/process.Process/Nothing", "/./init", "/v1/info"} {
		got := raw(t, addr, "GET "+path+" HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: "+string(id)+"\r\nX-Access-Token: envd"+string(id)+"\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 404 ") {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// TestNoUpgrades requests a way around the wire.
func TestNoUpgrades(t *testing.T) {
	f, id := newFakes()
	f.guest = answers(func(r *http.Request, _ string) { t.Errorf("the guest was asked for %s", r.URL) }, ok204)
	addr := serve(t, f)
	got := raw(t, addr, "GET /health HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: "+string(id)+"\r\nUpgrade: hortus-port\r\nConnection: Upgrade, close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("%q", got)
	}
	got = raw(t, addr, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 3000-"+string(id)+".x\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 405 ") && !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("%q", got)
	}
}

// TestGone: clients that showed the sandbox's token are told why it does not run, others only that it does not.
func TestGone(t *testing.T) {
	f, _ := newFakes()
	f.guest = answers(nil, ok204)
	addr := serve(t, f)
	asleep := f.add(api.SandboxPaused)
	ended := f.add(api.SandboxEnded)
	f.change(ended, func(b *api.Sandbox) { b.Reason = "its time to live passed" })
	lost := f.add(api.SandboxLost)
	why := map[api.SandboxID]string{
		asleep: "The sandbox is paused: Sandbox.connect() resumes it", lost: "The sandbox has ended",
		ended: "The sandbox has ended (its time to live passed)",
	}
	for _, id := range []api.SandboxID{asleep, ended, lost, api.NewSandboxID(), "i4f2b"} {
		for _, a := range []ask{
			{path: "/health", header: headers(id, "X-Access-Token", "")},
			{path: "/metrics", header: headers(id)},
			{path: "/", header: headers(id, "E2b-Sandbox-Port", "3000")},
			{path: "/", host: "3000-" + string(id) + ".localhost"},
			{method: "POST", path: "/process.Process/Start", header: headers(id, "Content-Type", "application/connect+json")},
		} {
			got := a.to(t, addr)
			want := "The sandbox was not found"
			if a.header["X-Access-Token"] != "" && a.header["E2b-Sandbox-Port"] != "3000" {
				want = cmp.Or(why[id], want)
			}
			var body struct {
				ID      string `json:"sandboxId"`
				Message string `json:"message"`
				Code    int    `json:"code"`
			}
			err := json.Unmarshal([]byte(got.body), &body)
			if got.status != http.StatusBadGateway || err != nil || body.ID != string(id) || body.Code != 502 || body.Message != want {
				t.Errorf("%s %s: %d %s", a.path, id, got.status, got.body)
			}
		}
	}
}

func TestUserOfRequest(t *testing.T) {
	f, id := newFakes()
	f.guest = answers(func(r *http.Request, _ string) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Basic ") {
			t.Errorf("the guest got %q", r.Header.Get("Authorization"))
		}
	}, ok204)
	addr := serve(t, f)
	if got := (ask{path: "/metrics", header: headers(id, "Authorization", "Basic dXNlcjo=")}).to(t, addr); got.status != 204 {
		t.Errorf("user: %+v", got)
	}
	// A password beside the user is none of the guest's business.
	f.guest = answers(func(r *http.Request, _ string) {
		if got := r.Header.Get("Authorization"); got != "Basic dXNlcjo=" {
			t.Errorf("the guest got %q", got)
		}
	}, ok204)
	if got := (ask{path: "/metrics", header: headers(id, "Authorization", "Basic dXNlcjplMmJfMDEyMw==")}).to(t, addr); got.status != 204 {
		t.Errorf("a user and a password: %+v", got)
	}
	asUser := "Basic " + base64.StdEncoding.EncodeToString([]byte("e2b_0123456789012345678901234567890123456789:"))
	for _, a := range []string{"Bearer e2b_0123", asUser, "Basic !", "Basic dXNlcg=="} {
		if got := (ask{path: "/metrics", header: headers(id, "Authorization", a)}).to(t, addr); got.status != 401 || strings.Contains(got.body, "0123") {
			t.Errorf("%s: %+v", a, got)
		}
	}
}

// TestCrowdedAccount: requests to a sandbox, of its guest and of its ports, count for its account.
func TestCrowdedAccount(t *testing.T) {
	f, id := newFakes()
	f.guest = answers(func(*http.Request, string) {}, ok204)
	addr := serve(t, f)
	port := headers(id)
	port["E2b-Sandbox-Port"] = "3000"
	for name, header := range map[string]map[string]string{"guest": headers(id), "port": port} {
		if got := (ask{path: "/metrics", header: header}).to(t, addr); got.status == http.StatusTooManyRequests {
			t.Errorf("%s, the control: %d %s", name, got.status, got.body)
		}
	}
	f.crowded = api.Errorf(api.KindExhausted, "too many")
	for name, header := range map[string]map[string]string{"guest": headers(id), "port": port} {
		got := ask{path: "/metrics", header: header}.to(t, addr)
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// TestUploadIsRefused: a file that an account may not store does not reach the guest; what reads passes.
func TestUploadIsRefused(t *testing.T) {
	f, id := newFakes()
	f.guest = answers(func(*http.Request, string) {}, ok204)
	addr := serve(t, f)
	f.stored = api.Errorf(api.KindExhausted, "account \"a\" has no space left")
	for _, c := range []struct {
		method, path string
		status       int
	}{{"POST", "/files?path=a", http.StatusInsufficientStorage}, {"POST", "/files/compose", http.StatusInsufficientStorage}, {"GET", "/files?path=a", http.StatusNoContent}} {
		got := (ask{method: c.method, path: c.path, header: headers(id), body: "{}"}).to(t, addr)
		if got.status != c.status || c.status != http.StatusNoContent && !strings.Contains(got.body, "has no space left") {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
}
