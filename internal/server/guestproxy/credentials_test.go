package guestproxy

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	testKey   = "e2b_0123456789abcdef0123456789abcdef01234567"
	testToken = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	testSig   = "v1_0123456789abcdefghijABCDEFGHIJ0123456789abc"
)

// TestCredentialsIn finds a secret however a client writes it, and nothing else.
func TestCredentialsIn(t *testing.T) {
	c := Credentials{Tokens: []string{testToken, ""}}
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	for _, secret := range []string{testKey, testToken} {
		for _, text := range []string{
			secret, "Bearer " + secret, "bEARER  " + secret, "Token token=\"" + secret + "\"", "sk_" + secret + "ff",
			url.QueryEscape("a=" + secret), strings.Replace(secret, "2", "%32", 1), url.QueryEscape(url.QueryEscape("?k=%32" + secret)),
			"%zz%" + secret + "%", "Basic " + std([]byte(secret+":")), "Basic " + std([]byte("user:"+secret)), url.QueryEscape(std([]byte("me:" + secret))),
			"base64url.bearer.authorization.k8s.io." + raw([]byte(secret)), "bearer-" + raw([]byte(secret)), "ab_" + raw([]byte(`{"token":"`+secret+`"}`)),
		} {
			if !c.In(text) {
				t.Errorf("not found in %q", text)
			}
		}
	}
	for _, text := range []string{
		"", "Bearer its-own", "Basic " + std([]byte("user:password")), "e2b_", testKey[:len(testKey)-1], strings.ToUpper(testKey),
		"e2b_" + strings.Repeat("g", 40), testToken[1:], strings.Repeat("A", 1000), "%", "%e2", strings.Repeat("%", 100), std([]byte(strings.Repeat("x", 100))),
		"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	} {
		if c.In(text) {
			t.Errorf("found in %q", text)
		}
	}
}

func TestStripHeader(t *testing.T) {
	c := Credentials{Tokens: []string{testToken}}
	for name, tt := range map[string]struct{ name, give, want string }{
		"its own bearer":         {"Authorization", "Bearer its-own", "Bearer its-own"},
		"a key":                  {"Authorization", "Bearer " + testKey, ""},
		"cookies":                {"Cookie", "a=b; session=" + testKey + "; c=d", "a=b; c=d"},
		"one cookie":             {"Cookie", "session=" + testKey, ""},
		"first cookie":           {"Cookie", "k=" + testToken + "; c=d", "c=d"},
		"subprotocols":           {"Sec-Websocket-Protocol", "chat, token." + testToken + ", v2", "chat, v2"},
		"its own referer":        {"Referer", "http://h/a?signature=mine", "http://h/a?signature=mine"},
		"a signed referer":       {"Referer", "http://h/files?path=a&signature=" + testSig, ""},
		"an escaped one":         {"Referer", "http://h/files?path=a&sign%61ture=%76" + testSig[1:] + "#x", ""},
		"a referer with a token": {"Referer", "http://h/?t=" + testToken, ""},
		"any other":              {"X-Anything", "x " + testKey, ""},
		"an empty one":           {"X-Empty", "", ""},
	} {
		h := http.Header{tt.name: {tt.give}}
		if c.StripHeader(h); h.Get(tt.name) != tt.want {
			t.Errorf("%s: %q, want %q", name, h.Get(tt.name), tt.want)
		}
	}
	h := http.Header{"X-Many": {"a", testKey, "b"}, "X-Empty": {""}, "Cookie": {"k=" + testKey, "a=b"}}
	c.StripHeader(h)
	if len(h["X-Many"]) != 2 || len(h["X-Empty"]) != 1 || len(h["Cookie"]) != 1 || h.Get("Cookie") != "a=b" {
		t.Errorf("%v", h)
	}
}

func TestStripQuery(t *testing.T) {
	c := Credentials{Tokens: []string{testToken}}
	for give, want := range map[string]string{
		"":                                    "",
		"q=1&q=2;x&%zz&&":                     "q=1&q=2;x&%zz&&", // as it was written
		"a=1&key=" + testKey + "&b=2":         "a=1&b=2",
		"t=" + url.QueryEscape(testToken):     "",
		"path=a&signature=" + testSig + "&b=": "path=a&b=",
		"signature=its-own":                   "signature=its-own",
	} {
		r := &http.Request{URL: &url.URL{RawQuery: give}, Header: http.Header{}, Trailer: http.Header{"X-Late": nil}}
		if c.Strip(r); r.URL.RawQuery != want || r.Trailer != nil {
			t.Errorf("%q: %q, want %q", give, r.URL.RawQuery, want)
		}
	}
}
