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

// Config is the repository, its token and the retries. Zero fields mean the defaults.
type Config struct {
	// Location is the repository; Kind and API must be set.
	Location forge.Location
	// Token is sent to the API's host only.
	Token string
	// HTTP has the transport and the timeout of an attempt; its cookies and its redirect
	// policy are ignored. Nil means http.DefaultTransport.
	HTTP *http.Client
	// Tries is the maximum number of attempts.
	Tries int
	// First is the delay after the first failure; each further one is twice as long.
	// Most is the maximum delay: if a forge asks for more, the call fails.
	First, Most time.Duration
	// Bytes is the maximum size of an answer.
	Bytes int64
	// Wait sleeps, or returns the context's error if that ends first. Now is the clock.
	// Both are for tests.
	Wait func(ctx context.Context, d time.Duration) error
	Now  func() time.Time
}

// Defaults of a [Config]. DefaultTime is the timeout of an attempt.
const (
	DefaultTries = 4
	DefaultFirst = 500 * time.Millisecond
	DefaultMost  = 30 * time.Second
	DefaultBytes = 16 << 20
	DefaultTime  = 30 * time.Second
	// maxError is the maximum size of an error answer.
	maxError = 64 << 10
	// maxRedirects is the maximum number of redirects within the API.
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

// New validates the configuration. auth sets the token in a request's header.
func New(cfg Config, auth func(h http.Header, token string)) (*Client, error) {
	if err := cfg.Location.Check(); err != nil {
		return nil, err
	}
	if err := forge.CheckToken(cfg.Token); err != nil {
		return nil, api.Errorf(api.KindOf(err), "%s: %w", cfg.Location.Host, err)
	}
	u, err := url.Parse(strings.TrimRight(cfg.Location.API, "/") + "/")
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "invalid URL of the forge")
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
	c.base = withTimeout{c.base, timeout}
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

// HTTP returns the client for a library, which must not have the token.
func (c *Client) HTTP() *http.Client { return c.http }

// API is the base URL, with a slash at its end.
func (c *Client) API() string { return c.api.String() }

// Location is the repository.
func (c *Client) Location() forge.Location { return c.cfg.Location }

// inside reports whether an address belongs to the API.
func (c *Client) isAPI(u *url.URL) bool {
	return u.Scheme == c.api.Scheme && u.Host == c.api.Host && u.User == nil &&
		strings.HasPrefix(u.EscapedPath(), c.api.EscapedPath()) && !strings.Contains(u.Path+"/", "/../")
}

// redirect follows redirects within the API only, and never changes the method.
func (c *Client) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case !c.isAPI(req.URL):
		return c.errorf(api.KindInvalid, "answered with a redirect to %q, outside of %s, which is not followed", req.URL.Host, c.api).
			WithHint("If the repository was moved, update its remote, or the URL of the forge.")
	case req.Method != via[0].Method:
		return c.errorf(api.KindInvalid, "answered %s with a redirect that would make it %s", via[0].Method, req.Method)
	case len(via) > maxRedirects:
		return c.errorf(api.KindUnavailable, "redirects without an end")
	}
	return nil
}

// RoundTrip implements [http.RoundTripper] for the libraries. It returns an *[api.Error]
// for a status of 400 or more. It retries idempotent calls (all but POST) if that may help,
// and a POST only if the forge rejected it because of a rate limit.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	if !c.isAPI(req.URL) {
		return nil, c.errorf(api.KindInternal, "a call to %s, outside of %s", req.URL.Host, c.api)
	}
	body, err := rewind(req)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		resp, err := c.attempt(req, body)
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

// rewind returns the body of a request, so that it can be sent again. [forge.Request.Check]
// bounds its size.
func rewind(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	defer req.Body.Close()
	return io.ReadAll(req.Body)
}

// once makes one try.
func (c *Client) attempt(from *http.Request, body []byte) (*http.Response, error) {
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
	// Read the whole answer here, so that an incomplete one is retried like any other
	// failure.
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

// Pause waits before the next attempt: as long as a rate limit asks for, otherwise with
// exponential backoff. It returns err if the delay would be too long.
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

// Failure turns an error of a library into one of the contract.
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
	return c.errorf(api.KindUnavailable, "cannot parse the answer: %v", err)
}

// failure returns the error of an attempt without an answer.
func (c *Client) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var own *api.Error
	if errors.As(err, &own) {
		return own
	}
	return c.errorf(api.KindUnavailable, "cannot be reached: %v", err).
		WithHint("Check the network and the address (%s).", c.api.Host)
}

// errorf returns an error about the forge, without the token.
func (c *Client) errorf(kind api.Kind, format string, args ...any) *api.Error {
	return api.Errorf(kind, "%s: %s", c.cfg.Location.Host, c.sanitize(fmt.Sprintf(format, args...)))
}

func path(req *http.Request) string { return req.Method + " " + req.URL.Path }

// timed bounds the time of one try, the body included.
type withTimeout struct {
	base http.RoundTripper
	most time.Duration
}

func (t withTimeout) RoundTrip(req *http.Request) (*http.Response, error) {
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
