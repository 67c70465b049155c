package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// Config says which repository is spoken about, and how patiently. Zero fields
// take the defaults.
type Config struct {
	// Location is the repository; Kind and API must be set.
	Location forge.Location
	// Token proves who asks. It goes to the API's own address alone.
	Token string
	// HTTP gives the transport to use, and the longest time of one try; its cookies
	// and its policy of redirects are not used. Nil is http.DefaultTransport.
	HTTP *http.Client
	// Tries is how often a call is made at most.
	Tries int
	// First is the wait after the first failure; each further one is twice as long.
	// Most bounds one wait: a forge that asks for more is not called again.
	First, Most time.Duration
	// Bytes bounds one answer.
	Bytes int64
	// Wait sleeps; it returns the context's error when that ends first. Now tells
	// the time. Both are for tests.
	Wait func(ctx context.Context, d time.Duration) error
	Now  func() time.Time
}

// Defaults of a [Config]. DefaultTime is that of one try.
const (
	DefaultTries = 4
	DefaultFirst = 500 * time.Millisecond
	DefaultMost  = 30 * time.Second
	DefaultBytes = 16 << 20
	DefaultTime  = 30 * time.Second
	// maxError is what is read of an answer that is an error.
	maxError = 64 << 10
	// maxRedirects is how many redirects within the API are followed.
	maxRedirects = 3
)

// Client calls one forge's API.
type Client struct {
	cfg  Config
	base http.RoundTripper
	api  *url.URL
	auth func(http.Header, string)
	http *http.Client
}

// New checks the configuration. Auth puts the token into a request's header.
func New(cfg Config, auth func(h http.Header, token string)) (*Client, error) {
	if err := cfg.Location.Check(); err != nil {
		return nil, err
	}
	if err := forge.CheckToken(cfg.Token); err != nil {
		return nil, api.Errorf(api.KindOf(err), "%s: %w", cfg.Location.Host, err)
	}
	u, err := url.Parse(strings.TrimRight(cfg.Location.API, "/") + "/")
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "the address of the forge cannot be read")
	}
	c := &Client{cfg: cfg, base: http.DefaultTransport, api: u, auth: auth}
	c.http = &http.Client{Transport: c, CheckRedirect: c.redirect, Timeout: 0}
	timeout := DefaultTime
	if cfg.HTTP != nil {
		if cfg.HTTP.Transport != nil {
			c.base = cfg.HTTP.Transport
		}
		if cfg.HTTP.Timeout > 0 {
			timeout = cfg.HTTP.Timeout
		}
	}
	c.base = timed{c.base, timeout}
	if c.cfg.Tries <= 0 {
		c.cfg.Tries = DefaultTries
	}
	if c.cfg.First <= 0 {
		c.cfg.First = DefaultFirst
	}
	if c.cfg.Most <= 0 {
		c.cfg.Most = DefaultMost
	}
	if c.cfg.Bytes <= 0 {
		c.cfg.Bytes = DefaultBytes
	}
	if c.cfg.Wait == nil {
		c.cfg.Wait = sleep
	}
	if c.cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	return c, nil
}

// HTTP is the client to give to a library, which must not have the token.
func (c *Client) HTTP() *http.Client { return c.http }

// API is the base URL, with a slash at its end.
func (c *Client) API() string { return c.api.String() }

// Location is the repository.
func (c *Client) Location() forge.Location { return c.cfg.Location }

// inside says whether an address belongs to the API.
func (c *Client) inside(u *url.URL) bool {
	return u.Scheme == c.api.Scheme && u.Host == c.api.Host && u.User == nil &&
		strings.HasPrefix(u.EscapedPath(), c.api.EscapedPath()) && !strings.Contains(u.Path+"/", "/../")
}

// redirect follows within the API only, and never turns a call into another.
func (c *Client) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case !c.inside(req.URL):
		return c.errorf(api.KindInvalid, "answered with a redirect to %q, outside of %s, which is not followed", req.URL.Host, c.api).
			WithHint("Was the repository moved? Set its remote, or the address of the forge, to where it is.")
	case req.Method != via[0].Method:
		return c.errorf(api.KindInvalid, "answered %s with a redirect that would make it %s", via[0].Method, req.Method)
	case len(via) > maxRedirects:
		return c.errorf(api.KindUnavailable, "redirects without an end")
	}
	return nil
}

// RoundTrip implements [http.RoundTripper] for the libraries. Answers of 400 and
// more are errors, *[api.Error]s as all of its errors but the context's. A call
// that changes nothing when made again (all but POST) is made again where that may
// help; a POST only if the forge said that it did nothing because of a rate limit.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	if !c.inside(req.URL) {
		return nil, c.errorf(api.KindInternal, "a call to %s, outside of %s", req.URL.Host, c.api)
	}
	body, err := rewind(req)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		resp, err := c.once(req, body)
		if err == nil {
			return resp, nil
		}
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		limited := api.KindOf(err) == api.KindExhausted
		again := limited || req.Method != http.MethodPost && api.KindOf(err) == api.KindUnavailable
		if !again || try == c.cfg.Tries {
			return nil, err
		}
		if werr := c.Pause(req.Context(), try, err); werr != nil {
			return nil, werr
		}
	}
}

// rewind gives the bytes of a request's body, so that it can be sent again. What
// is sent was bounded by [forge.Request.Check].
func rewind(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	defer req.Body.Close()
	return io.ReadAll(req.Body)
}

// once makes one try.
func (c *Client) once(from *http.Request, body []byte) (*http.Response, error) {
	req := from.Clone(from.Context())
	req.Body = nil
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	req.Header.Del("Authorization")
	c.auth(req.Header, c.cfg.Token)
	resp, err := c.base.RoundTrip(req)
	if err != nil {
		return nil, c.failure(req.Context(), err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
		return nil, c.status(resp, b)
	}
	// The whole answer is read here, so that a cut one is tried again like any
	// other failure.
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.Bytes+1))
	if err != nil {
		return nil, c.failure(req.Context(), err)
	}
	if int64(len(b)) > c.cfg.Bytes {
		return nil, c.errorf(api.KindInvalid, "answered %s with more than %d bytes", path(req), c.cfg.Bytes)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp, nil
}

// Pause waits before the next try: as long as a rate limit asks for, else longer
// from try to try. It gives err back when the wait would be too long.
func (c *Client) Pause(ctx context.Context, try int, err error) error {
	d := c.cfg.Most
	if try < 20 {
		d = min(c.cfg.First<<(try-1), c.cfg.Most)
	}
	d -= time.Duration(rand.Float64() * float64(d) / 2)
	if at, ok := forge.RetryAt(err); ok {
		if d = max(at.Sub(c.cfg.Now()), 0); d > c.cfg.Most {
			return err
		}
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(c.cfg.Now()) <= d {
		return err
	}
	return c.cfg.Wait(ctx, d)
}

// Failure turns what a library returned into an error of the contract.
func (c *Client) Failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var own *api.Error
	if errors.As(err, &own) {
		return own
	}
	return c.errorf(api.KindUnavailable, "the answer cannot be read: %v", err)
}

// failure is why no answer came.
func (c *Client) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var own *api.Error
	if errors.As(err, &own) {
		return own
	}
	return c.errorf(api.KindUnavailable, "cannot be reached: %v", err).
		WithHint("Is the network up, and is the address right (%s)?", c.api.Host)
}

// errorf makes an error about the forge, without the token.
func (c *Client) errorf(kind api.Kind, format string, args ...any) *api.Error {
	return api.Errorf(kind, "%s: %s", c.cfg.Location.Host, c.clean(fmt.Sprintf(format, args...)))
}

func path(req *http.Request) string { return req.Method + " " + req.URL.Path }

// timed bounds the time of one try, the body included.
type timed struct {
	base http.RoundTripper
	most time.Duration
}

func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), t.most)
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &closer{resp.Body, cancel}
	return resp, nil
}

type closer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *closer) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
