package broker

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// FuzzHead puts a value into hostile heads of requests. "P" stands for a placeholder, "E" for a
// percent-encoded one. A request that is not refused has the value once, and no placeholder.
func FuzzHead(f *testing.F) {
	f.Add("/a", "key=P", "Bearer x", uint8(1))
	f.Add("/a", "", "Bearer P", uint8(0))
	f.Add("/a", "", "Basic dTpQ", uint8(2))
	f.Add("/P", "key=1&key=P&E=2", "P P", uint8(0))
	f.Add("/a", "key=P;x&%6bey=E", "", uint8(1))
	f.Add("/a%2fE", "key=%P", "Basic P", uint8(2))
	p := Prefix + strings.Repeat("abcdefghijklm", 2)
	const value = "VALUE+of the/secret=&"
	kinds := []secrets.Place{{Kind: secrets.InHeader, Name: "authorization"}, {Kind: secrets.InQuery, Name: "key"}, {Kind: secrets.InBasic}}
	f.Fuzz(func(t *testing.T, path, query, header string, kind uint8) {
		put1 := strings.NewReplacer("P", p, "E", percent(p))
		u, err := url.ParseRequestURI("/" + put1.Replace(path))
		if err != nil || len(query)+len(header)+len(path) > 2000 {
			return
		}
		u.RawQuery = put1.Replace(query)
		r := &http.Request{Method: "GET", Host: "api.example.org", URL: u, Header: http.Header{"Authorization": {put1.Replace(header)}}}
		in := kinds[int(kind)%len(kinds)]
		hits := locate(r)
		if len(hits) != 1 || !hits[0].place.is(in) || hits[0].text != p {
			if len(hits) == 0 && (strings.Contains(u.RequestURI(), p) || strings.Contains(r.Header.Get("Authorization"), p)) {
				t.Fatalf("no placeholder was found in %q %q", u.RequestURI(), r.Header)
			}
			return
		}
		if put(r, in, p, value) != "" {
			return
		}
		text := r.URL.RequestURI() + "\n" + r.Header.Get("Authorization")
		if user, password, ok := r.BasicAuth(); ok {
			text += "\n" + user + "\n" + password
		}
		if strings.Contains(strings.ToLower(unescape(unescape(text))), p) {
			t.Fatalf("%q has a placeholder", text)
		}
		user, password, _ := r.BasicAuth()
		n := strings.Count(fmt.Sprint(r.URL.Query()["key"], user, " ", password), value)
		if in.Kind == secrets.InHeader {
			n = strings.Count(r.Header.Get("Authorization"), value)
		}
		if n != 1 {
			t.Fatalf("%q has the value %d times", text, n)
		}
	})
}
