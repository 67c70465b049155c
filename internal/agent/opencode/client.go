package opencode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
)

// Bounds of what is read of a server.
const (
	// MaxEvent is the longest event, in bytes.
	MaxEvent = 16 << 20
	// maxAnswer is the longest answer to a request, in bytes.
	maxAnswer = 32 << 20
	// maxHeader is the longest header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxError is what is kept of the text of an error, in bytes.
	maxError = 2 << 10
	// maxID is the longest name of a session, a message or a part, in bytes.
	maxID = 200
)

// Times of requests.
const (
	// requestTime bounds a request and its answer.
	requestTime = 30 * time.Second
	// readyTime bounds one look at a server that is starting: a connection from that time may never be answered.
	readyTime = 5 * time.Second
	// readyWait is between two looks.
	readyWait = 100 * time.Millisecond
)

// The defaults of a Config.
const (
	DefaultGrace = 5 * time.Second
	// DefaultSilence is more than four of the server's own signs of life.
	DefaultSilence = 45 * time.Second
	DefaultPoll    = 10 * time.Second
	DefaultLost    = 2 * time.Minute
)

// Config is what a Client is made of. Dial is required.
type Config struct {
	// Dial connects with the server.
	Dial func(ctx context.Context) (net.Conn, error)
	// Gone reports whether an error of Dial says that the server has ended; nil if none does.
	Gone func(error) bool
	// Password is that of the server; empty for none.
	Password string
	// Update takes the reports of a turn, in order, in the goroutine of Prompt; nil for none. It must not call the client.
	Update func(acp.Update)
	// Grace is how long the server has to end a turn that was aborted; 0 is DefaultGrace.
	Grace time.Duration
	// Silence is how long the events may be silent before they are asked for again; 0 is DefaultSilence.
	Silence time.Duration
	// Poll is how often the state of a turn is asked for beside the events; 0 is DefaultPoll.
	Poll time.Duration
	// Lost is how long a turn continues without a connection; 0 is DefaultLost.
	Lost time.Duration
}

// Client is a client of one server. It makes one call after the other.
type Client struct {
	cfg   Config
	http  *http.Client
	conns *conns
}

// New makes a Client.
func New(cfg Config) *Client {
	cfg.Grace = cmp.Or(cfg.Grace, DefaultGrace)
	cfg.Silence = cmp.Or(cfg.Silence, DefaultSilence)
	cfg.Poll = cmp.Or(cfg.Poll, DefaultPoll)
	cfg.Lost = cmp.Or(cfg.Lost, DefaultLost)
	if cfg.Gone == nil {
		cfg.Gone = func(error) bool { return false }
	}
	if cfg.Update == nil {
		cfg.Update = func(acp.Update) {}
	}
	own := newConns(cfg.Dial)
	return &Client{cfg: cfg, conns: own, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return own.dial(ctx) },
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost:    2,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections. It is idempotent.
func (c *Client) Close() { c.conns.close() }

// Ready waits until the server answers, and returns its version.
func (c *Client) Ready(ctx context.Context) (string, error) {
	for {
		look, cancel := context.WithTimeout(ctx, readyTime)
		var out struct {
			Healthy bool
			Version string
		}
		err := c.call(look, http.MethodGet, "/global/health", nil, &out, nil)
		cancel()
		switch {
		case err == nil && out.Healthy:
			return clip(out.Version, maxID), nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case api.KindOf(err) == api.KindUnauthenticated, c.gone(err):
			return "", err
		}
		select {
		case <-time.After(readyWait):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// gone reports whether the server has ended.
func (c *Client) gone(err error) bool { return err != nil && c.cfg.Gone(err) }

type obj map[string]any

// NewSession begins a conversation about the directory in which the server runs.
func (c *Client) NewSession(ctx context.Context) (string, error) {
	var out struct{ ID string }
	// With a title the server asks no model for one. Nobody is there to answer the tool that asks.
	in := obj{"title": "hortus", "permission": []obj{{"permission": "question", "pattern": "*", "action": "deny"}}}
	err := c.call(ctx, http.MethodPost, "/session", in, &out, nil)
	if err == nil && !validSession(out.ID) {
		err = api.Errorf(api.KindInvalid, "the server named a session %.80q", out.ID)
	}
	return out.ID, err
}

// FindSession reports whether the server has a session.
func (c *Client) FindSession(ctx context.Context, id string) error {
	if !validSession(id) {
		return api.Errorf(api.KindNotFound, "%.80q is no name of a session", id)
	}
	var out struct{ ID string }
	err := c.call(ctx, http.MethodGet, "/session/"+url.PathEscape(id), nil, &out, nil)
	if err == nil && out.ID != id {
		err = api.Errorf(api.KindInvalid, "the server answered with the session %.80q instead of %s", out.ID, id)
	}
	return err
}

// validSession reports whether a name can be one of a session.
func validSession(id string) bool {
	return strings.HasPrefix(id, "ses") && validID(id)
}

// validID reports whether a name can be one of the server's.
func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// failure is an error of the server.
type failure struct {
	Name string
	Data struct{ Message string }
}

// text is what it says.
func (f failure) text() string {
	return clip(f.Name, maxID) + ": " + clip(f.Data.Message, maxError)
}

// call makes a request and reads its answer into out, which may be nil. next takes the cursor of the page before, if it is not
// nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any, next *string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTime, errSlow)
	defer cancel()
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if next != nil {
		*next = resp.Header.Get("X-Next-Cursor")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.broken(ctx, method, path, err)
	}
	if len(body) > maxAnswer {
		return api.Errorf(api.KindExhausted, "the server answered %s %s with more than %d bytes", method, path, maxAnswer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return api.Errorf(api.KindInvalid, "the server answered %s %s with something else than its API says: %w", method, path, err)
	}
	return nil
}

var errSlow = errors.New("the server does not answer in time")

// send makes a request. An answer that is an error is returned as one.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "encode %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, body)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "%s %s: %w", method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Password != "" {
		req.SetBasicAuth("opencode", c.cfg.Password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, method, path, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	kind := api.KindUnavailable
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		kind = api.KindUnauthenticated
	case http.StatusNotFound:
		kind = api.KindNotFound
	case http.StatusBadRequest:
		kind = api.KindInvalid
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // the status says that it failed
	var f failure
	text := clip(strings.TrimSpace(string(said)), maxError)
	if json.Unmarshal(said, &f) == nil && f.Name != "" {
		text = f.text()
	}
	return nil, api.Errorf(kind, "the server refused %s %s (%d): %s", method, path, resp.StatusCode, text)
}

// broken is the error of a request that has no answer.
func (c *Client) broken(ctx context.Context, method, path string, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		return api.Errorf(api.KindTimeout, "the server did not answer %s %s within %s", method, path, requestTime)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	kind := api.KindUnavailable
	if api.KindOf(err) == api.KindUnsupported { // of Dial
		kind = api.KindUnsupported
	}
	return api.Errorf(kind, "the server did not answer %s %s: %w", method, path, err).WithHint("%s", api.HintOf(err))
}

// clip returns at most most bytes of a text, of whole characters.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
