package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	// Public makes calls without a token, if Token is empty: they read what everybody may read.
	Public bool
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
	// maxEntries is the maximum number of entries of a list.
	maxEntries = 1000
)

// dialect is how the API of a kind of forge differs in form.
type dialect struct {
	// scheme is that of the header Authorization.
	scheme string
	// header is sent with every request.
	header map[string]string
	// sizeName and size are the query parameter for the size of a page, and the maximum.
	sizeName string
	size     int
	// linked lists have a Link header if there is a next page. Others end with an empty page.
	linked bool
}

// client calls one forge's API.
type client struct {
	cfg     Config
	dialect dialect
	api     *url.URL
	header  http.Header
	http    http.Client
}

// newClient validates the configuration.
func newClient(cfg Config, d dialect) (*client, error) {
	if err := cfg.Location.Check(); err != nil {
		return nil, err
	}
	if err := forge.CheckToken(cfg.Token); err != nil && (cfg.Token != "" || !cfg.Public) {
		return nil, api.Errorf(api.KindOf(err), "%s: %w", cfg.Location.Host, err)
	}
	u, err := url.Parse(strings.TrimRight(cfg.Location.API, "/") + "/")
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "invalid URL of the forge")
	}
	if cfg.Tries <= 0 {
		cfg.Tries = DefaultTries
	}
	if cfg.First <= 0 {
		cfg.First = DefaultFirst
	}
	if cfg.Most <= 0 {
		cfg.Most = DefaultMost
	}
	if cfg.Bytes <= 0 {
		cfg.Bytes = DefaultBytes
	}
	if cfg.Wait == nil {
		cfg.Wait = sleep
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &client{cfg: cfg, dialect: d, api: u, header: http.Header{}}
	c.http = http.Client{CheckRedirect: c.redirect, Timeout: DefaultTime}
	if cfg.HTTP != nil {
		c.http.Transport = cfg.HTTP.Transport
		if cfg.HTTP.Timeout > 0 {
			c.http.Timeout = cfg.HTTP.Timeout
		}
	}
	c.header.Set("Accept", "application/json")
	c.header.Set("User-Agent", "hortus")
	if cfg.Token != "" {
		c.header.Set("Authorization", d.scheme+" "+cfg.Token)
	}
	for name, value := range d.header {
		c.header.Set(name, value)
	}
	return c, nil
}

// isAPI reports whether an address belongs to the API.
func (c *client) isAPI(u *url.URL) bool {
	return u.Scheme == c.api.Scheme && u.Host == c.api.Host && u.User == nil &&
		strings.HasPrefix(u.EscapedPath(), c.api.EscapedPath()) && !strings.Contains(u.Path+"/", "/../")
}

// redirect follows redirects within the API only, and never changes the method.
func (c *client) redirect(req *http.Request, via []*http.Request) error {
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

// call sends in as JSON unless it is nil, and parses the answer to out unless that is nil. path
// is escaped and may have a query; a *string takes an answer that is text. The call is retried if that may help: a POST only if the forge
// rejected it because of a rate limit, because the forge may have done its work otherwise.
func (c *client) call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, c.errorf(api.KindInternal, "write a request: %v", err)
		}
	}
	for try := 1; ; try++ {
		header, answer, err := c.attempt(ctx, method, path, body)
		if err == nil {
			if text, ok := out.(*string); ok {
				*text = string(answer)
			} else if out != nil {
				if err := json.Unmarshal(answer, out); err != nil {
					return nil, c.errorf(api.KindUnavailable, "cannot parse the answer: %v", err)
				}
			}
			return header, nil
		}
		kind := api.KindOf(err)
		retry := kind == api.KindExhausted || kind == api.KindUnavailable && method != http.MethodPost
		if ctx.Err() != nil || !retry || try == c.cfg.Tries {
			return nil, err
		}
		if err := c.pause(ctx, try, err); err != nil {
			return nil, err
		}
	}
}

// attempt sends a request once. It reads the whole answer, so that an incomplete one is retried
// like any other failure.
func (c *client) attempt(ctx context.Context, method, path string, body []byte) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.api.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, c.errorf(api.KindInternal, "%s has no valid address", method)
	}
	req.Header = c.header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, c.failure(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // the status says enough
		return nil, nil, c.status(resp, b)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.Bytes+1))
	if err != nil {
		return nil, nil, c.failure(ctx, err)
	}
	if int64(len(b)) > c.cfg.Bytes {
		return nil, nil, c.errorf(api.KindInvalid, "answered %s %s with more than %d bytes", method, req.URL.Path, c.cfg.Bytes)
	}
	return resp.Header, b, nil
}

// list reads a list page by page until more returns false, and reports whether it has read all
// of it: it stops after maxEntries. It counts pages itself and follows no link.
func list[T any](ctx context.Context, c *client, path string, query url.Values, more func(page []T) bool) (complete bool, err error) {
	q := url.Values{c.dialect.sizeName: {strconv.Itoa(c.dialect.size)}}
	maps.Copy(q, query)
	for page := 1; page <= maxEntries/c.dialect.size; page++ {
		q.Set("page", strconv.Itoa(page))
		var entries []T
		header, err := c.call(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &entries)
		if err != nil {
			return false, err
		}
		if !more(entries) {
			return false, nil
		}
		last := len(entries) == 0
		if c.dialect.linked {
			last = !slices.ContainsFunc(header["Link"], func(link string) bool { return strings.Contains(link, `rel="next"`) })
		}
		if last {
			return true, nil
		}
	}
	return false, nil
}

// pause waits before the next attempt: as long as a rate limit asks for, otherwise with
// exponential backoff. It returns err if the delay would be too long.
func (c *client) pause(ctx context.Context, try int, err error) error {
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

// failure returns the error of an attempt without an answer.
func (c *client) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var own *api.Error
	if errors.As(err, &own) {
		return own // of redirect
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which the hint has
	}
	return c.errorf(api.KindUnavailable, "cannot be reached: %v", err).
		WithHint("Check the network and the address (%s).", c.api.Host)
}

// errorf returns an error about the forge, without the token.
func (c *client) errorf(kind api.Kind, format string, args ...any) *api.Error {
	return api.Errorf(kind, "%s: %s", c.cfg.Location.Host, c.sanitize(fmt.Sprintf(format, args...)))
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
