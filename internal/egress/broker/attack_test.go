package broker

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// pieces is a body that is read in pieces, and whose length is not known.
type pieces struct{ parts []string }

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	if p.parts[0] = p.parts[0][n:]; p.parts[0] == "" {
		p.parts = p.parts[1:]
	}
	return n, nil
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func deflated(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + strings.ToUpper(string("0123456789abcdef"[s[i]>>4])+string("0123456789abcdef"[s[i]&15])))
	}
	return b.String()
}

// TestExfiltration sends a placeholder where it may not be. The same request with other text is
// the control.
func TestExfiltration(t *testing.T) {
	const home, other = "https://api.example.org/v1/a", "https://other.example.org/"
	rows := []struct {
		name string
		make func(t *testing.T, text string) *http.Request
	}{
		{"path", func(t *testing.T, x string) *http.Request { return request(t, "GET", home+"/"+x, nil) }},
		{"path, percent-encoded", func(t *testing.T, x string) *http.Request { return request(t, "GET", home+"/"+percent(x), nil) }},
		{"path, encoded twice", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home+"/"+strings.ReplaceAll(percent(x), "%", "%25"), nil)
		}},
		{"path, upper case", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home+"/"+strings.ToUpper(x), nil)
		}},
		{"query", func(t *testing.T, x string) *http.Request { return request(t, "GET", home+"?k="+x, nil) }},
		{"query, percent-encoded", func(t *testing.T, x string) *http.Request { return request(t, "GET", home+"?k="+percent(x), nil) }},
		{"query, name", func(t *testing.T, x string) *http.Request { return request(t, "GET", home+"?"+x+"=k", nil) }},
		{"query, divided by &", func(t *testing.T, x string) *http.Request { return request(t, "GET", home+"?"+percent("a="+x), nil) }},
		{"other header", func(t *testing.T, x string) *http.Request { return request(t, "GET", home, nil, "X-Other", x) }},
		{"header name", func(t *testing.T, x string) *http.Request { return request(t, "GET", home, nil, x, "1") }},
		{"cookie", func(t *testing.T, x string) *http.Request { return request(t, "GET", home, nil, "Cookie", "a="+x) }},
		{"duplicate header", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home, nil, "Authorization", "Bearer "+x, "Authorization", "Bearer 2")
		}},
		{"twice in the header", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home, nil, "Authorization", "Bearer "+x+" "+x)
		}},
		{"header and another one", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home, nil, "Authorization", "Bearer "+x, "X-Other", x)
		}},
		{"header, changed", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home, nil, "Authorization", "Bearer "+strings.ToUpper(x))
		}},
		{"header, percent-encoded", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home, nil, "Authorization", "Bearer "+percent(x))
		}},
		{"basic for a header", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", home, nil, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+x)))
		}},
		{"body", func(t *testing.T, x string) *http.Request {
			return request(t, "POST", home, strings.NewReader(`{"a":"`+x+`"}`))
		}},
		{"body in chunks", func(t *testing.T, x string) *http.Request {
			return request(t, "POST", home, &pieces{[]string{"a " + x[:9], x[9:20], x[20:], " b"}})
		}},
		{"body, gzip", func(t *testing.T, x string) *http.Request {
			return request(t, "POST", home, strings.NewReader(gzipped(strings.Repeat("text ", 30_000)+x)), "Content-Encoding", "gzip")
		}},
		{"body, deflate", func(t *testing.T, x string) *http.Request {
			return request(t, "POST", home, strings.NewReader(deflated("a "+x)), "Content-Encoding", "deflate")
		}},
		{"body, gzip in a list", func(t *testing.T, x string) *http.Request {
			return request(t, "POST", home, strings.NewReader(gzipped("a "+x)), "Content-Encoding", "identity, gzip", "Content-Encoding", "")
		}},
		{"body, gzip in two members", func(t *testing.T, x string) *http.Request {
			return request(t, "POST", home, strings.NewReader(gzipped("a "+x[:20])+gzipped(x[20:])), "Content-Encoding", "gzip")
		}},
		{"trailer", func(t *testing.T, x string) *http.Request {
			r := request(t, "POST", home, &pieces{[]string{"body"}})
			r.Trailer = http.Header{"X-End": {x}}
			return r
		}},
		{"other host", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", other, nil, "Authorization", "Bearer "+x)
		}},
		{"other host, body", func(t *testing.T, x string) *http.Request { return request(t, "POST", other, strings.NewReader(x)) }},
		{"other port", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", "https://api.example.org:8443/v1/a", nil, "Authorization", "Bearer "+x)
		}},
		{"http", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", "http://api.example.org/v1/a", nil, "Authorization", "Bearer "+x)
		}},
		{"method", func(t *testing.T, x string) *http.Request {
			return request(t, "DELETE", home, nil, "Authorization", "Bearer "+x)
		}},
		{"other path", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", "https://api.example.org/v2", nil, "Authorization", "Bearer "+x)
		}},
		{"ambiguous path", func(t *testing.T, x string) *http.Request {
			return request(t, "GET", "https://api.example.org/v1/a/%2e%2e/b", nil, "Authorization", "Bearer "+x)
		}},
	}
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443", "other.example.org:443", "api.example.org:8443")
	r.http(&s, "api.example.org:80")
	secret := bearer("token", "/v1/**")
	secret.Bindings[0].Methods = []string{"GET", "POST"}
	placeholder := r.grant(secret)[0]
	for _, http2 := range []bool{false, true} {
		c := r.client(http2)
		send := func(t *testing.T, req *http.Request, status int) string {
			t.Helper()
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text := readAll(t, resp)
			if resp.StatusCode != status {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, status, text)
			}
			return text
		}
		for _, row := range rows {
			t.Run(map[bool]string{false: "HTTP/1.1 ", true: "HTTP/2 "}[http2]+row.name, func(t *testing.T) {
				send(t, row.make(t, "harmless-text-"+placeholder[len(Prefix):]), 200)
				if refused, used := r.alarms(); len(refused) > 0 || len(used) > 0 {
					t.Errorf("the control was recorded: %+v %+v", refused, used)
				}
				s.take()
				text := send(t, row.make(t, placeholder), 403)
				got := strings.ToLower(s.take())
				if strings.Contains(got, placeholder) || strings.Contains(got, secretValue) {
					t.Errorf("the server got %q", got)
				}
				if strings.Contains(text, secretValue) || !strings.Contains(text, "was refused") && !strings.Contains(text, "placeholder") {
					t.Errorf("the answer is %q", text)
				}
				refused, used := r.alarms()
				if len(refused) != 1 || len(used) != 0 || refused[0].Sandbox != "sbx_1" || refused[0].Task != "task_1" || refused[0].Account != "acc" || refused[0].At.IsZero() || len(refused[0].Commands) != 1 || refused[0].Method == "" || refused[0].Host == "" {
					t.Errorf("recorded %+v, used %+v", refused, used)
				} else if refused[0].Secret != "token" && !strings.Contains(row.name, "upper case") && !strings.Contains(row.name, "percent") && !strings.Contains(row.name, "header name") {
					t.Errorf("recorded %+v", refused[0])
				}
			})
		}
		// The secret itself may be used.
		t.Run("control", func(t *testing.T) {
			send(t, request(t, "POST", home, strings.NewReader("body"), "Authorization", "Bearer "+placeholder), 200)
			if got := s.take(); !strings.Contains(got, "Bearer "+secretValue) || strings.Contains(got, placeholder) {
				t.Errorf("the server got %q", got)
			}
			refused, used := r.alarms()
			if len(refused) != 0 || len(used) != 1 || used[0].Secret != "token" || used[0].Status != 200 || used[0].Binding != 1 || used[0].Sent != 4 || used[0].Received != 4 || used[0].Path != "/v1/a" || used[0].Scheme != "https" {
				t.Errorf("refused %+v, used %+v", refused, used)
			}
		})
	}
}

// TestStrangePlaceholder sends the placeholder of a sandbox that this one was forked from, with
// and without grants of its own.
func TestStrangePlaceholder(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	c := r.client(true)
	strange := NewPlaceholder()
	for _, granted := range []bool{false, true} {
		if granted {
			r.grant(bearer("token"))
		}
		resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+strange))
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); resp.StatusCode != 403 || !strings.Contains(text, "none of this sandbox") || s.take() != "" {
			t.Errorf("%d %q", resp.StatusCode, text)
		}
		if refused, _ := r.alarms(); len(refused) != 1 || refused[0].Secret != "" {
			t.Errorf("%+v", refused)
		}
	}
	// Text that only resembles a placeholder is none.
	resp, err := c.Do(request(t, "POST", "https://api.example.org/"+Prefix, strings.NewReader("see "+Prefix+"* and "+strange[:len(strange)-1])))
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, resp); resp.StatusCode != 200 {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

// TestPlaces puts a value into each place.
func TestPlaces(t *testing.T) {
	r := newRig(t)
	var s sink
	r.https(&s, "api.example.org:443")
	r.http(&s, "plain.example.org:80")
	binding := func(host string, kind secrets.PlaceKind, name string) secrets.Binding {
		return secrets.Binding{Host: host, In: secrets.Place{Kind: kind, Name: name}}
	}
	secret := secrets.Secret{Name: "s", Bindings: []secrets.Binding{
		binding("API.example.org", secrets.InHeader, "x-api-key"), binding("api.example.org", secrets.InQuery, "key"), binding("api.example.org", secrets.InBasic, ""),
		{Scheme: "http", Host: "plain.example.org", In: secrets.Place{Kind: secrets.InHeader, Name: "X-Api-Key"}},
	}}
	p := r.grant(secret)[0]
	basicOf := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	const home = "https://api.example.org/"
	rows := []struct {
		req     *http.Request
		want    string
		status  int
		binding int
	}{
		{request(t, "GET", home, nil, "X-Api-Key", p), "X-Api-Key:[" + secretValue + "]", 200, 1},
		{request(t, "GET", home, nil, "X-Api-Key", "a "+p+" b"), "X-Api-Key:[a " + secretValue + " b]", 200, 1},
		{request(t, "GET", home+"?a=1&key="+p+"&b", nil), "/?a=1&key=" + url.QueryEscape(secretValue) + "&b", 200, 2},
		{request(t, "GET", home+"?key="+percent(p), nil), "/?key=" + url.QueryEscape(secretValue), 200, 2},
		{request(t, "GET", home+"?key=x"+p, nil), "", 403, 0},
		{request(t, "GET", home+"?key="+p+"&key=1", nil), "", 403, 0},
		{request(t, "GET", home+"?Key="+p, nil), "", 403, 0},
		{request(t, "GET", home, nil, "Authorization", basicOf("user:"+p)), "basic user " + secretValue, 200, 3},
		{request(t, "GET", home, nil, "Authorization", basicOf(p+":x")), "basic " + secretValue + " x", 200, 3},
		{request(t, "GET", home, nil, "Authorization", basicOf(p+":"+p)), "", 403, 0},
		{request(t, "GET", home, nil, "Authorization", basicOf("user:x"+p)), "", 403, 0},
		{request(t, "GET", home, nil, "Authorization", "Bearer "+p), "", 403, 0},
		{request(t, "GET", "http://plain.example.org/", nil, "X-Api-Key", p), "X-Api-Key:[" + secretValue + "]", 200, 4},
	}
	for i, row := range rows {
		resp, err := r.client(false).Do(row.req)
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		if got := s.take(); resp.StatusCode != row.status || !strings.Contains(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%d: %d %s, the server got %q, want %q", i, resp.StatusCode, text, got, row.want)
		}
		refused, used := r.alarms()
		if row.status == 200 && (len(used) != 1 || used[0].Binding != row.binding) || row.status == 403 && len(refused) != 1 {
			t.Errorf("%d: refused %+v, used %+v", i, refused, used)
		}
	}
	if r.cached != 0 {
		t.Errorf("the cache was asked about %d requests with a secret", r.cached)
	}
	resp, err := r.client(false).Do(request(t, "GET", home, nil))
	if err != nil {
		t.Fatal(err)
	}
	if readAll(t, resp); r.cached != 1 {
		t.Errorf("the cache was asked about %d requests without a secret", r.cached)
	}
}
