package rest

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

const secret = "tok-0123456789"

func newTestClient(t testing.TB) *client {
	t.Helper()
	c, err := newClient(Config{
		Location: forge.Location{Kind: forge.GitHub, Host: "h.example", Owner: "o", Name: "n", API: "https://h.example/api/v3"}, Token: secret,
	}, githubDialect)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func respond(code int, header ...string) *http.Response {
	r := &http.Response{StatusCode: code, Header: http.Header{}, Request: &http.Request{Method: "GET", URL: &url.URL{Path: "/x"}}}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestStatus(t *testing.T) {
	c := newTestClient(t)
	for _, tt := range []struct {
		resp *http.Response
		body string
		kind api.Kind
		says string
	}{
		{respond(401), `{"message":"Bad credentials"}`, api.KindUnauthenticated, "401: Bad credentials"},
		{respond(403), `{"message":"403 Forbidden"}`, api.KindDenied, "403 Forbidden"},
		{respond(403, "X-RateLimit-Remaining", "0"), ``, api.KindExhausted, "403: forbidden"},
		{respond(403), `{"message":"You have exceeded a secondary rate limit."}`, api.KindExhausted, "secondary"},
		{respond(403, "X-RateLimit-Remaining", "17"), `{}`, api.KindDenied, "forbidden"},
		{respond(404), `{"message":"404 Project Not Found"}`, api.KindNotFound, "Project"},
		{respond(409), `{"message":["Another open merge request: !5"]}`, api.KindConflict, "409: Another open merge request: !5"},
		{respond(422), `{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"No commits between a and b"}]}`,
			api.KindConflict, "Validation Failed: No commits between a and b"},
		{respond(422), `{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"head","code":"invalid"}]}`,
			api.KindConflict, "code invalid: field head: resource PullRequest"},
		{respond(400), `{"message":{"source_branch":["does not exist"]}}`, api.KindInvalid, "source_branch does not exist"},
		{respond(400), `{"error":"title is missing"}`, api.KindInvalid, "title is missing"},
		{respond(423), ``, api.KindConflict, "locked"},
		{respond(451), ``, api.KindDenied, "legal"},
		{respond(429), `slow`, api.KindExhausted, "too many"},
		{respond(500), `<html>`, api.KindUnavailable, "internal server error"},
		{respond(599), ``, api.KindUnavailable, "599"},
	} {
		err := c.status(tt.resp, []byte(tt.body))
		if api.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) || code(err) != tt.resp.StatusCode || !strings.HasPrefix(err.Error(), "h.example: ") {
			t.Errorf("%d %s: %v (%s)", tt.resp.StatusCode, tt.body, err, api.KindOf(err))
		}
	}
}

func code(err error) int {
	var a *statusError
	if !errors.As(err, &a) {
		return 0
	}
	return a.code
}

func TestLimit(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0", 0},
		{"Retry-After", "2000000000", maxWait},
		{"Retry-After", "Sat, 21 Nov 2026 12:01:30 GMT", 90 * time.Second},
		{"Retry-After", "Sat, 21 Nov 2020 12:01:30 GMT", 0},
		{"X-RateLimit-Reset", "1795262460", time.Minute},
		{"RateLimit-Reset", "1795262460", time.Minute},
		{"X-RateLimit-Reset", "1", 0},
		{"X-RateLimit-Reset", "9223372036854775807", maxWait},
	} {
		at, ok := limit(respond(429, tt.name, tt.value), now)
		if !ok || at.Sub(now) != tt.want {
			t.Errorf("%s: %s: %s, %v", tt.name, tt.value, at.Sub(now), ok)
		}
	}
	for _, value := range []string{"", "-1", "soon", "1e9", "99999999999999"} {
		if at, ok := limit(respond(429, "Retry-After", value), now); !ok || !at.IsZero() {
			t.Errorf("%q: %s, %v", value, at, ok)
		}
	}
	if _, ok := limit(respond(500, "Retry-After", "5"), now); ok {
		t.Error("a failure is no rate limit")
	}
}

// FuzzStatus: whatever a forge answers, the error is one short printable line
// without the token, and no wait is longer than a day.
func FuzzStatus(f *testing.F) {
	f.Add(403, []byte(`{"message":"rate limit `+secret+`"}`), "Retry-After", "5")
	f.Add(422, []byte(`{"errors":[[["x"]],{"message":{"a":"b"}}],"message":{"base":["x","y"]}}`), "X-RateLimit-Reset", "-5")
	f.Add(500, []byte("{\"message\":\"\\u0000\\n\xff\"}"), "RateLimit-Reset", "99999999999")
	c := newTestClient(f)
	f.Fuzz(func(t *testing.T, code int, body []byte, name, value string) {
		resp := respond(code)
		resp.Header[name] = []string{value}
		err := c.status(resp, body)
		said := err.Error() + api.HintOf(err)
		if strings.Contains(said, secret) || len(said) > 1500 || strings.ContainsAny(said, "\n\r\x00\x1b") || strings.ToValidUTF8(said, "") != said {
			t.Errorf("%q", said)
		}
		if at, ok := forge.RetryAt(err); ok && time.Until(at) > maxWait {
			t.Errorf("until %s", at)
		}
	})
}

func TestInside(t *testing.T) {
	c := newTestClient(t)
	for address, want := range map[string]bool{
		"https://h.example/api/v3/repos/o/n":           true,
		"https://h.example/api/v3":                     false,
		"https://h.example/api/v30/x":                  false,
		"https://h.example/api/v3/../../other":         false,
		"https://h.example/api/v3/%2e%2e/%2e%2e/other": false,
		"https://h.example/api/v3/..":                  false,
		"https://h.example/other":                      false,
		"http://h.example/api/v3/x":                    false,
		"https://h.example:8443/api/v3/x":              false,
		"https://u@h.example/api/v3/x":                 false,
		"https://h.example.evil/api/v3/x":              false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if c.isAPI(u) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
}
