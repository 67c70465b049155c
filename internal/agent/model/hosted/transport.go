package hosted

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	"hortus.dev/api"
)

// Limits bound one answer. Zero fields take the defaults.
type Limits struct {
	// Bytes is the most that is read of one answer, with everything around it.
	Bytes int64
	// Event is the most that one event of a stream may have, in bytes.
	Event int
	// Idle is the longest time without a byte, Whole the longest altogether.
	Idle, Whole time.Duration
}

// The default limits. A stream wraps every few letters in some hundred bytes, so
// Bytes is far above what an answer holds.
const (
	DefaultBytes = 256 << 20
	DefaultEvent = 8 << 20
	DefaultIdle  = 2 * time.Minute
	DefaultWhole = 10 * time.Minute
	// MaxAnswer is the most text, tool input included, that a model collects of
	// one answer, in bytes. What continues is cut there.
	MaxAnswer = 4 << 20
	// maxError is what is read of an answer that is an error.
	maxError = 64 << 10
)

// Transport is an [http.RoundTripper] for calls that are answered with a stream
// of events, or with one document. Its errors are *[api.Error]s.
type Transport struct {
	// Base does the work; nil means a clone of [http.DefaultTransport].
	Base   http.RoundTripper
	Limits Limits
	// Document expects JSON instead of a stream of events.
	Document bool
}

// NewClient is an HTTP client for streams, over a transport with the given base and limits.
func NewClient(base http.RoundTripper, limits Limits) *http.Client {
	return newClient(base, limits, false)
}

// NewDocumentClient is an HTTP client for documents, over a transport with the given base and limits.
func NewDocumentClient(base http.RoundTripper, limits Limits) *http.Client {
	return newClient(base, limits, true)
}

func newClient(base http.RoundTripper, limits Limits, document bool) *http.Client {
	if base == nil {
		t, ok := http.DefaultTransport.(*http.Transport)
		if ok {
			base = t.Clone()
		} else {
			base = http.DefaultTransport
		}
	}
	if limits.Bytes == 0 {
		limits.Bytes = DefaultBytes
	}
	if limits.Event == 0 {
		limits.Event = DefaultEvent
	}
	if limits.Idle == 0 {
		limits.Idle = DefaultIdle
	}
	if limits.Whole == 0 {
		limits.Whole = DefaultWhole
	}
	return &http.Client{
		Transport: &Transport{Base: base, Limits: limits, Document: document},
		// The transport refuses a redirect before the client could follow it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	b := &body{ctx: ctx, cancel: cancel, limits: t.Limits, left: t.Limits.Bytes}
	b.idle = time.AfterFunc(t.Limits.Idle, func() {
		cancel(api.Errorf(api.KindTimeout, "no data for %s", t.Limits.Idle))
	})
	b.whole = time.AfterFunc(t.Limits.Whole, func() {
		cancel(api.Errorf(api.KindTimeout, "the answer is incomplete after %s", t.Limits.Whole))
	})
	resp, err := t.Base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		err = b.reason(err)
		b.stop()
		return nil, err
	}
	b.from = resp.Body
	resp.Body = b
	want, called := "text/event-stream", "an event stream"
	if b.document = t.Document; t.Document {
		want, called = "application/json", "JSON"
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode >= 400:
		b.left, b.quiet = maxError, true
	case resp.StatusCode >= 300:
		where := "another URL"
		if u, err := url.Parse(resp.Header.Get("Location")); err == nil && u.Host != "" {
			where = u.Host
		}
		resp.Body.Close()
		return nil, api.Errorf(api.KindInvalid, "answered %d, a redirect to %s; redirects are not followed", resp.StatusCode, where).
			WithHint("Set the base URL to the address of the API.")
	case kind != want:
		resp.Body.Close()
		return nil, api.Errorf(api.KindInvalid, "answered with %q instead of %s", resp.Header.Get("Content-Type"), called).
			WithHint("Check that the base URL is that of a compatible API.")
	}
	return resp, nil
}

// body is a response body within its limits.
type body struct {
	from        io.ReadCloser
	ctx         context.Context
	cancel      context.CancelCauseFunc
	idle, whole *time.Timer
	limits      Limits
	left        int64
	meter
	// quiet ends at the limit without an error. A document has no events to measure.
	quiet, document bool
	once            sync.Once
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.quiet {
			return 0, io.EOF
		}
		return 0, api.Errorf(api.KindExhausted, "the answer has more than %d bytes", b.limits.Bytes)
	}
	p = p[:min(int64(len(p)), b.left)]
	n, err := b.from.Read(p)
	b.left -= int64(n)
	if n > 0 {
		b.idle.Reset(b.limits.Idle)
		b.measure(p[:n])
		if b.event > b.limits.Event && !b.quiet && !b.document {
			return 0, api.Errorf(api.KindExhausted, "an event of the response is larger than %d bytes", b.limits.Event)
		}
	}
	if err != nil && err != io.EOF {
		err = b.reason(err)
	}
	return n, err
}

// meter measures the events of a stream.
type meter struct {
	event int  // bytes since the last empty line, which ends an event
	line  int  // bytes of the line so far
	cr    bool // which is one return
}

func (m *meter) measure(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			m.cr = m.line == 0 && len(p) == 1 && p[0] == '\r'
			m.line += len(p)
			m.event += len(p)
			return
		}
		m.event += i + 1
		switch m.line + i {
		case 0:
			m.event = 0
		case 1: // a return before the newline is part of the line's end
			if m.cr || (m.line == 0 && p[0] == '\r') {
				m.event = 0
			}
		}
		m.line, m.cr = 0, false
		p = p[i+1:]
	}
}

// reason is why a call failed: a limit of ours, the caller's end, or err.
func (b *body) reason(err error) error {
	var own *api.Error
	if errors.As(context.Cause(b.ctx), &own) {
		return own
	}
	if b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	return err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.stop()
	return b.from.Close()
}

func (b *body) stop() {
	b.once.Do(func() {
		b.idle.Stop()
		b.whole.Stop()
		b.cancel(nil)
	})
}
