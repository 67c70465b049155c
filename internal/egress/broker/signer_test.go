package broker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

const (
	awsKey    = "AKIDEXAMPLE"
	awsSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func awsHeader(key, service string) string {
	return "AWS4-HMAC-SHA256 Credential=" + key + "/20200101/us-east-1/" + service + "/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + emptyHash
}

// TestSignVectors signs requests of the published test suite of Signature Version 4.
func TestSignVectors(t *testing.T) {
	p := NewPlaceholder()
	now := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for name, row := range map[string]struct{ method, url, want string }{
		"get-vanilla":                      {"GET", "https://example.amazonaws.com/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"get-vanilla-query-order-key-case": {"GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"post-vanilla":                     {"POST", "https://example.amazonaws.com/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
	} {
		r := request(t, row.method, row.url, nil, "Authorization", awsHeader(p, "service"), "X-Amz-Date", "20200101T000000Z", "X-Amz-Security-Token", "old")
		if err := sign(r, p, credentials{AccessKeyID: awsKey, SecretAccessKey: awsSecret}, now); err != nil {
			t.Fatal(name, err)
		}
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + row.want
		if got := r.Header.Get("Authorization"); got != want || r.Header.Get("X-Amz-Security-Token") != "" || r.Header.Get("X-Amz-Date") != "20150830T123600Z" {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestSignAsLibrary compares with signatures that the AWS SDK for Go v2 (v1.48.0) made of what
// the test suite above does not have: escapes, sorted values, headers, a token, a port.
func TestSignAsLibrary(t *testing.T) {
	p := NewPlaceholder()
	now := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for url, row := range map[string]struct{ service, token, headers, signature string }{
		"https://example.amazonaws.com":                                                {"sqs", "", "content-length;host;range;x-amz-content-sha256;x-amz-date;x-amz-meta-a", "384f6e841b54c9e8a162dce090925efc81502d925d4705804542f597bbc3ad13"},
		"https://example.amazonaws.com/a%20b/%C3%A9%2Fc+d":                             {"sqs", "", "content-length;host;range;x-amz-content-sha256;x-amz-date;x-amz-meta-a", "7b8ea0f28ec1e90676b7c78f9c3e8e49f17fe0f7589aff8dadac06fa15beb736"},
		"https://example.amazonaws.com/a%20b//%C3%A9%2Fc*d":                            {"s3", "", "content-length;host;range;x-amz-content-sha256;x-amz-date;x-amz-meta-a", "489989a978f9cde33eeba3397c0d2e93ea58fab3f7e30944ac959e863e6698a9"},
		"https://example.amazonaws.com:443/x":                                          {"s3", "session-token", "content-length;host;range;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-security-token", "194ca3da81ca808f19a50916b800dc843e2615a7e3c32f11bec786827944ea5a"},
		"https://example.amazonaws.com:8443/x?a-b=1&a=z&a=%20x&a=+&b&c=%2F~*&%C3%A9=1": {"s3", "", "content-length;host;range;x-amz-content-sha256;x-amz-date;x-amz-meta-a", "63beade953f31e06cf3ee49fd0b6667e42250a3f925f146c2da3be70b407daa7"},
	} {
		header := strings.Replace(awsHeader(p, row.service), "host;", "host;range;user-agent;content-length;", 1)
		r := request(t, "PUT", url, nil, "Authorization", header, "X-Amz-Meta-A", "  a  b   c ", "Range", "bytes=0-1", "User-Agent", "u")
		r.Header.Add("X-Amz-Meta-A", "d")
		r.ContentLength = 5
		r.Header.Set(payloadHash, "UNSIGNED-PAYLOAD")
		if err := sign(r, p, credentials{AccessKeyID: awsKey, SecretAccessKey: awsSecret, SessionToken: row.token}, now); err != nil {
			t.Fatal(url, err)
		}
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/" + row.service + "/aws4_request, SignedHeaders=" + row.headers + ", Signature=" + row.signature
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// verify checks the signature of a request as a server has got it, without the library.
func verify(r *http.Request, body []byte) error {
	var signed []string
	var scope []string
	signature := ""
	for _, f := range strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "), ", ") {
		k, v, _ := strings.Cut(f, "=")
		switch k {
		case "Credential":
			scope = strings.Split(v, "/")
		case "SignedHeaders":
			signed = strings.Split(v, ";")
		case "Signature":
			signature = v
		}
	}
	if len(scope) != 5 || scope[0] != awsKey {
		return fmt.Errorf("the scope is %v", scope)
	}
	path := r.URL.EscapedPath()
	if scope[3] != "s3" {
		path = strings.ReplaceAll(path, "%", "%25")
	}
	var query []string
	for k, vs := range r.URL.Query() {
		for _, v := range vs {
			query = append(query, url.QueryEscape(k)+"="+strings.ReplaceAll(url.QueryEscape(v), "+", "%20"))
		}
	}
	slices.Sort(query)
	canonical := r.Method + "\n" + path + "\n" + strings.Join(query, "&") + "\n"
	for _, h := range signed {
		v := strings.Join(r.Header.Values(h), ",")
		switch h {
		case "host":
			v = r.Host
		case "content-length":
			v = fmt.Sprint(r.ContentLength)
		}
		canonical += h + ":" + strings.TrimSpace(v) + "\n"
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if stated := r.Header.Get(payloadHash); stated != "" {
		if isHash(stated) && stated != hash {
			return errors.New("the hash of the body is wrong")
		}
		hash = stated
	}
	canonical += "\n" + strings.Join(signed, ";") + "\n" + hash
	sum = sha256.Sum256([]byte(canonical))
	mac := func(key []byte, s string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(s))
		return m.Sum(nil)
	}
	key := []byte("AWS4" + awsSecret)
	for _, s := range scope[1:] {
		key = mac(key, s)
	}
	text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + strings.Join(scope[1:], "/") + "\n" + hex.EncodeToString(sum[:])
	if want := hex.EncodeToString(mac(key, text)); want != signature {
		return fmt.Errorf("the signature is %s, want %s of %q", signature, want, canonical)
	}
	if token := r.Header.Get("X-Amz-Security-Token"); !slices.Contains(signed, "host") || token != "" && (token != "session-token" || !slices.Contains(signed, "x-amz-security-token")) {
		return errors.New("what must be signed is not")
	}
	return nil
}

// TestSigV4 sends requests to a server that checks signatures.
func TestSigV4(t *testing.T) {
	r := newRig(t)
	var got error
	reached := 0
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		reached++
		if got = verify(req, b); got == nil && req.Header.Get("X-Amz-Security-Token") == "" {
			got = errors.New("there is no session token")
		}
		fmt.Fprint(w, "echo ", awsSecret)
	}), "s3.example.org:443")
	r.values["aws"] = `{"accessKeyId":"` + awsKey + `","secretAccessKey":"` + awsSecret + `","sessionToken":"session-token"}`
	secret := bearer("aws")
	secret.Signer, secret.Bindings[0].Host = secrets.SigV4, "s3.example.org"
	p := r.grant(secret)[0]
	const home = "https://s3.example.org/bucket/a%20b?x=1%202&list-type"
	body := func() io.Reader { return strings.NewReader("the body") }
	sum := sha256.Sum256([]byte("the body"))
	for name, row := range map[string]struct {
		req    *http.Request
		status int
		reason string
	}{
		"no body":           {request(t, "GET", home, nil, "Authorization", awsHeader(p, "s3")), 200, ""},
		"another service":   {request(t, "GET", home, nil, "Authorization", awsHeader(p, "execute-api")), 200, ""},
		"hashed here":       {request(t, "PUT", home, body(), "Authorization", awsHeader(p, "s3"), "Content-Type", "text/plain"), 200, ""},
		"length not known":  {request(t, "PUT", home, &pieces{[]string{"the ", "body"}}, "Authorization", awsHeader(p, "s3")), 200, ""},
		"hash stated":       {request(t, "PUT", home, body(), "Authorization", awsHeader(p, "s3"), payloadHash, hex.EncodeToString(sum[:])), 200, ""},
		"not hashed":        {request(t, "PUT", home, body(), "Authorization", awsHeader(p, "s3"), payloadHash, "UNSIGNED-PAYLOAD"), 200, ""},
		"trailer":           {request(t, "PUT", home, body(), "Authorization", awsHeader(p, "s3"), payloadHash, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"), 200, ""},
		"signed chunks":     {request(t, "PUT", home, body(), "Authorization", awsHeader(p, "s3"), payloadHash, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), 403, "signed in chunks"},
		"bad hash":          {request(t, "PUT", home, body(), "Authorization", awsHeader(p, "s3"), payloadHash, "abc"), 403, "is not valid"},
		"too large":         {request(t, "PUT", home, io.LimitReader(zeros{}, maxSigned+1), "Authorization", awsHeader(p, "s3")), 403, "too large"},
		"a range":           {request(t, "GET", home, nil, "Authorization", awsHeader(p, "s3"), "Range", "bytes=0-1"), 403, "Range"},
		"bearer":            {request(t, "GET", home, nil, "Authorization", "Bearer "+p), 403, "Signature Version 4"},
		"bad scope":         {request(t, "GET", home, nil, "Authorization", awsHeader("x/"+p, "s3")), 403, "credential scope"},
		"bad region":        {request(t, "GET", home, nil, "Authorization", strings.Replace(awsHeader(p, "s3"), "us-east-1", "us east", 1)), 403, "credential scope"},
		"URL signed before": {request(t, "GET", home+"&X-Amz-Credential="+p+"/20200101/us-east-1/s3/aws4_request", nil), 403, "query parameter"},
		"body":              {request(t, "PUT", home, strings.NewReader("a "+p), "Authorization", awsHeader(p, "s3")), 403, "the body"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reached = errors.New("the server was not reached"), 0
			row.req.Header.Set("X-Amz-Date", "20200101T000000Z")
			resp, err := r.client(false).Do(row.req)
			if err != nil {
				t.Fatal(err)
			}
			text := readAll(t, resp)
			if resp.StatusCode != row.status || !strings.Contains(text, row.reason) || (row.status == 200) != (got == nil) {
				t.Errorf("%d %q, the server: %v", resp.StatusCode, text, got)
			}
			if row.status != 200 && reached > 0 || strings.Contains(text, awsSecret) {
				t.Errorf("the server was reached %d times: %q", reached, text)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// tokenServer is a server of OAuth tokens.
type tokenServer struct {
	mu      sync.Mutex
	valid   string // the refresh token that it takes
	calls   int
	rotate  bool
	refusal string
}

// ServeHTTP implements http.Handler.
func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	w.Header().Set("Content-Type", "application/json")
	if s.refusal != "" || r.FormValue("refresh_token") != s.valid || r.FormValue("client_id") != "client" || r.FormValue("client_secret") != "client-secret" || r.FormValue("grant_type") != "refresh_token" {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, r.FormValue("refresh_token"))
		return
	}
	next := ""
	if s.rotate {
		s.valid = fmt.Sprint("refresh-token-", s.calls)
		next = s.valid
	}
	fmt.Fprintf(w, `{"access_token":"access-token-%d","token_type":"Bearer","expires_in":3600,"refresh_token":%q}`, s.calls, next)
}

// TestOAuth uses access tokens of a server.
func TestOAuth(t *testing.T) {
	world, roots := newCA(t, 2)
	tokens := &tokenServer{valid: "refresh-token-0", rotate: true}
	ts := httptest.NewUnstartedServer(tokens)
	ts.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return world.Leaf(h.ServerName) }}
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.StartTLS()
	defer ts.Close()
	var mu sync.Mutex
	now := time.Unix(1_000_000, 0)
	var rotated []string
	var logged strings.Builder
	dialed := ""
	change := func(c *Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		c.Roots = roots
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			dialed = address
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, ts.Listener.Addr().String())
		}
		c.Rotated = func(account, name, was, token string) { rotated = append(rotated, account+" "+name+" "+was+" "+token) }
		c.Logger = textLogger(&logged)
	}
	r := newRig(t, change)
	var s sink
	r.https(&s, "api.example.org:443")
	r.values["oauth"] = `{"tokenUrl":"https://login.example.org/token","refreshToken":"refresh-token-0","clientId":"client","clientSecret":"client-secret"}`
	secret := bearer("oauth")
	secret.Signer = secrets.OAuth
	p := r.grant(secret)[0]
	c := r.client(true)
	send := func() int {
		resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+p))
		if err != nil {
			t.Error(err)
			return 0
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if n := send(); n != 200 {
				t.Error(n)
			}
		})
	}
	all.Wait()
	if got := s.take(); strings.Count(got, "Bearer access-token-1]") != 8 || tokens.calls != 1 || dialed != "login.example.org:443" {
		t.Errorf("%d refreshes of %s, the server got %q", tokens.calls, dialed, got)
	}
	mu.Lock()
	now = now.Add(time.Hour - tokenMargin)
	mu.Unlock()
	if n, got := send(), s.take(); n != 200 || !strings.Contains(got, "access-token-2") || tokens.calls != 2 {
		t.Errorf("after it expired: %d, %d refreshes, the server got %q", n, tokens.calls, got)
	}
	if want := []string{"acc oauth refresh-token-0 refresh-token-1", "acc oauth refresh-token-0 refresh-token-2"}; !slices.Equal(rotated, want) {
		t.Errorf("replaced refresh tokens: %v", rotated)
	}
	// The new refresh token becomes the value: that is no other token. Another one is.
	r.values["oauth"] = strings.Replace(r.values["oauth"], "refresh-token-0", "refresh-token-2", 1)
	if n, got := send(), s.take(); n != 200 || !strings.Contains(got, "access-token-2") || tokens.calls != 2 {
		t.Errorf("after its value was replaced: %d, %d refreshes, the server got %q", n, tokens.calls, got)
	}
	tokens.valid = "refresh-token-x"
	r.values["oauth"] = strings.Replace(r.values["oauth"], "refresh-token-2", "refresh-token-x", 1)
	if n, got := send(), s.take(); n != 200 || !strings.Contains(got, "access-token-3") || tokens.calls != 3 {
		t.Errorf("with another value: %d, %d refreshes, the server got %q", n, tokens.calls, got)
	}
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	tokens.refusal = "yes"
	if n, got := send(), s.take(); n != 502 || got != "" || !strings.Contains(logged.String(), "invalid_grant") || strings.Contains(logged.String(), "refresh-token-3") {
		t.Errorf("%d, the log %s, the server got %q", n, logged.String(), got)
	}
	tokens.refusal = ""
	if n := send(); n != 200 {
		t.Errorf("after the error: %d", n)
	}
	s.take()
	// Values that are not used: another scheme, no certificate of a known authority.
	for name, row := range map[string]struct {
		value string
		roots *x509.CertPool
	}{
		"http":        {`{"tokenUrl":"http://login.example.org/token","refreshToken":"refresh-token-0","clientId":"client"}`, roots},
		"no JSON":     {`refresh-token-0`, roots},
		"certificate": {r.values["oauth"], x509.NewCertPool()},
	} {
		other := newRig(t, change, func(c *Config) { c.Roots = row.roots })
		other.https(&s, "api.example.org:443")
		other.values["oauth"] = row.value
		calls := tokens.calls
		p := other.grant(secret)[0]
		resp, err := other.client(true).Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+p))
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); resp.StatusCode != 502 || s.take() != "" || tokens.calls != calls {
			t.Errorf("%s: %d %q", name, resp.StatusCode, text)
		}
	}
}

// TestOAuthCeiling: the daemon fetches no token from a server that the ceiling of the sandbox's key does not allow.
func TestOAuthCeiling(t *testing.T) {
	world, roots := newCA(t, 2)
	ts := httptest.NewUnstartedServer(&tokenServer{valid: "refresh-token-0"})
	ts.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return world.Leaf(h.ServerName) }}
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.StartTLS()
	defer ts.Close()
	for name, row := range map[string]struct {
		rule api.EgressRule
		want int
	}{
		"control":        {api.EgressRule{Action: api.EgressAllow, Host: "login.example.org", Ports: "443"}, 200},
		"another host":   {api.EgressRule{Action: api.EgressAllow, Host: "api.example.org", Ports: "443"}, 403},
		"another port":   {api.EgressRule{Action: api.EgressAllow, Host: "login.example.org", Ports: "8443"}, 403},
		"another method": {api.EgressRule{Action: api.EgressAllow, Host: "login.example.org", Ports: "443", Methods: []string{"GET"}}, 403},
		"another path":   {api.EgressRule{Action: api.EgressAllow, Host: "login.example.org", Ports: "443", Paths: []string{"/other"}}, 403},
	} {
		dialed := false
		r := newRig(t, func(c *Config) {
			c.Roots = roots
			c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				dialed = true
				return new(net.Dialer).DialContext(ctx, network, ts.Listener.Addr().String())
			}
		})
		ceiling, err := policy.Compile(api.EgressPolicy{Rules: []api.EgressRule{row.rule}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.serve(Owner{Sandbox: "sbx_1", Account: "acc", Ceiling: ceiling})
		var s sink
		r.https(&s, "api.example.org:443")
		r.values["oauth"] = `{"tokenUrl":"https://login.example.org/token","refreshToken":"refresh-token-0","clientId":"client","clientSecret":"client-secret"}`
		secret := bearer("oauth")
		secret.Signer = secrets.OAuth
		p := r.grant(secret)[0]
		resp, err := r.client(true).Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+p))
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		refused, _ := r.alarms()
		if resp.StatusCode != row.want || dialed != (row.want == 200) || (len(refused) == 1) != (row.want == 403) {
			t.Errorf("%s: status %d %q, dialed %v, recorded %+v", name, resp.StatusCode, text, dialed, refused)
		}
	}
}
