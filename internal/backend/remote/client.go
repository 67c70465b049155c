package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hortus.dev/api"
)

const (
	// maxAnswer is the maximum size of an answer of a service, in bytes.
	maxAnswer = 8 << 20
	// callTimeout is the maximum time of a request that has no earlier deadline.
	callTimeout = 2 * time.Minute
	// maxRefusal is how much of a refusal is read, and maxQuoted how much an error quotes of it.
	maxRefusal, maxQuoted = 64 << 10, 600
)

// ClientConfig configures a [Client].
type ClientConfig struct {
	// Name is the service's.
	Name string
	// Key returns the API key. It is asked before each request, so that a key can be replaced. nil is a service that knows
	// its client by a certificate of TLS.
	Key func(ctx context.Context) (string, error)
	// TLS is nil for the authorities of this machine and no certificate.
	TLS *tls.Config
	// Refused returns the kind and the hint of an error, by the status and the message of an answer. nil is a service whose clients
	// have API keys.
	Refused func(status int, message string) (kind api.Kind, hint string)
}

// Client sends requests to a service. It follows no redirect, so that no header gets to another host.
type Client struct {
	cfg       ClientConfig
	transport *http.Transport
	http      http.Client
}

// NewClient returns a client.
func NewClient(cfg ClientConfig) *Client {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
		TLSHandshakeTimeout:    20 * time.Second,
		ResponseHeaderTimeout:  callTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true, // a small answer stays small
		// WebSockets need HTTP/1.1.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	t.TLSClientConfig = cfg.TLS
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{cfg: cfg, transport: t, http: http.Client{Transport: t, CheckRedirect: stay}}
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Transport carries requests that are not of the API. It uses HTTP/1.1, and follows no redirect.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Call is one request.
type Call struct {
	Method string
	URL    string
	Header http.Header
	// In is sent as JSON, unless it is nil or an io.Reader, whose Type is set.
	In   any
	Type string
	// Out is what the JSON of the answer is decoded to, unless it is nil, or a func(io.Reader) error, which reads the
	// answer itself.
	Out any
	// Head, unless it is nil, is called with the headers of an accepted answer.
	Head func(http.Header)
	// Want are the accepted statuses; any of 2xx if there are none.
	Want []int
	// Doing says what for, in an error.
	Doing string
}

// Key returns the API key: KindUnauthenticated if it is empty, and "" for a service without one.
func (c *Client) Key(ctx context.Context) (string, error) {
	if c.cfg.Key == nil {
		return "", nil
	}
	key, err := c.cfg.Key(ctx)
	if err == nil && key == "" {
		err = api.Errorf(api.KindUnauthenticated, "the API key of %s is empty", c.cfg.Name)
	}
	return key, err
}

// Do sends a request and reads its answer. The kind of an error is that of ClientConfig.Refused. Without one, KindNotFound for 404,
// KindUnauthenticated for 401 and 403, KindExhausted for 429, and KindUnavailable for everything else that the service does.
func (c *Client) Do(ctx context.Context, call Call) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key, err := c.Key(ctx)
	if err != nil {
		return err
	}
	fail := func(kind api.Kind, format string, args ...any) error {
		text := redact(fmt.Sprintf(format, args...), key)
		return api.Errorf(kind, "%s: %s: %s", c.cfg.Name, call.Doing, text)
	}
	var body io.Reader
	switch in := call.In.(type) {
	case nil:
	case io.Reader:
		body = in
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return fail(api.KindInternal, "%v", err)
		}
		body, call.Type = bytes.NewReader(b), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, call.URL, body)
	if err != nil {
		return fail(api.KindInvalid, "%v", err)
	}
	if call.Header != nil {
		req.Header = call.Header.Clone()
	}
	if call.Type != "" {
		req.Header.Set("Content-Type", call.Type)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cerr := ctx.Err(); cerr != nil {
			return fail(api.KindOf(cerr), "%v", cerr)
		}
		return fail(api.KindUnavailable, "%v", plain(err))
	}
	defer resp.Body.Close()
	limited := &io.LimitedReader{R: resp.Body, N: maxAnswer + 1}
	if !wanted(resp.StatusCode, call.Want) {
		b, _ := io.ReadAll(io.LimitReader(limited, maxRefusal))
		text := message(redact(string(b), key))
		refused := kindOf
		if c.cfg.Refused != nil {
			refused = c.cfg.Refused
		}
		kind, hint := refused(resp.StatusCode, text)
		err := fail(kind, "%s", text)
		switch {
		case resp.StatusCode/100 == 3:
			err = fail(kind, "the answer is a redirect, which is not followed: %.200q", resp.Header.Get("Location"))
		case text == "":
			err = fail(kind, "unexpected status %d: %.300q", resp.StatusCode, redact(string(b), key))
		}
		e := api.Errorf(kind, "%w", err).WithHint("%s", hint)
		if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && after > 0 {
			e.RetryAfterMS = min(int64(after), 3600) * 1000
		}
		return e
	}
	if call.Head != nil {
		call.Head(resp.Header)
	}
	switch out := call.Out.(type) {
	case nil:
		_, err = io.Copy(io.Discard, limited)
	case func(io.Reader) error:
		err = out(limited)
	default:
		err = json.NewDecoder(limited).Decode(out)
	}
	if limited.N <= 0 {
		return fail(api.KindUnavailable, "the answer has more than %d bytes", maxAnswer)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
		return fail(api.KindOf(err), "%v", err)
	}
	if err != nil {
		return fail(api.KindUnavailable, "the answer is malformed: %v", err)
	}
	return nil
}

// redact removes the API key.
func redact(text, key string) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, key, "[API key]")
}

// plain removes the address of an error of a request: a query may have a token.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func wanted(status int, want []int) bool {
	for _, w := range want {
		if w == status {
			return true
		}
	}
	return len(want) == 0 && status/100 == 2
}

// message returns the text for people in the JSON of a refusal: every service has it as "message". It returns "" if there is none.
func message(answer string) string {
	var in struct{ Message string }
	_ = json.Unmarshal([]byte(answer), &in) // another type of message is none
	return Plain(in.Message)
}

// Plain makes one printable line of a service's text, and cuts a long one after a word.
func Plain(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if len(text) <= maxQuoted {
		return text
	}
	text = strings.ToValidUTF8(text[:maxQuoted], "")
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		text = text[:i]
	}
	return text + " ..."
}

func kindOf(status int, _ string) (api.Kind, string) {
	switch status {
	case http.StatusNotFound:
		return api.KindNotFound, ""
	case http.StatusUnauthorized, http.StatusForbidden:
		return api.KindUnauthenticated, "check the secret with the API key of the service, and what the key may do"
	case http.StatusTooManyRequests:
		return api.KindExhausted, "the limit of the service's account is reached: end some sandboxes, or wait"
	}
	return api.KindUnavailable, ""
}

// ParseURL reads the configured address of a service: http or https, a host, and perhaps a path.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, api.Errorf(api.KindInvalid, "%.200q is not an address such as https://api.example.org", text)
	}
	return u, nil
}

// CheckID refuses an ID of a service that could mean something else in a path, or in the name of a host.
func CheckID(service, id string) error {
	bad := id == "" || len(id) > 63
	for i := 0; i < len(id) && !bad; i++ {
		ch := id[i]
		bad = (ch < 'a' || ch > 'z') && (ch < '0' || ch > '9') && (ch != '-' || i == 0)
	}
	if bad {
		return api.Errorf(api.KindUnavailable, "%s: the sandbox has the malformed ID %.80q", service, id)
	}
	return nil
}

// CheckURL returns an address that a service gave, if it has the scheme of the service's API and its host is one of the
// domains, or below one.
func CheckURL(service, address, scheme string, domains []string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err == nil && u.Scheme == scheme && u.User == nil && u.Host != "" {
		for _, d := range domains {
			host := u.Host
			if !strings.Contains(d, ":") {
				host = u.Hostname()
			}
			if host == d || strings.HasSuffix(host, "."+d) {
				return u, nil
			}
		}
	}
	return nil, api.Errorf(api.KindUnavailable, "%s: it gave the address %.200q, which is not of %s", service, address, cmp.Or(strings.Join(domains, ", "), "any domain"))
}
