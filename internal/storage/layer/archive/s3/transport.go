package s3

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"hortus.dev/api"
)

// maxAnswer is the maximum size of an answer that is not an object, in bytes.
const maxAnswer = 8 << 20

// transport sends requests to one server, and ends those that the server does not answer in
// time. Only the time that is spent waiting for the server counts.
type transport struct {
	base http.RoundTripper
	// scheme and host are those of all requests.
	scheme, host string
	// wait is the maximum time without progress, rate the minimum number of bytes a second
	// after it.
	wait time.Duration
	rate int64
}

// allowed is the time for a number of bytes.
func (t *transport) allowed(bytes int64) time.Duration {
	return t.wait + time.Duration(float64(max(bytes, 0))/float64(t.rate)*float64(time.Second))
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.scheme || req.URL.Host != t.host {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, api.Errorf(api.KindDenied, "a request to another server than %s is refused", t.host)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	slow := api.Errorf(api.KindUnavailable, "%s did not answer in time", t.host)
	timer := time.AfterFunc(t.allowed(req.ContentLength), func() { cancel(slow) })
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		cancel(nil)
		if context.Cause(ctx) == error(slow) {
			err = slow
		}
		return nil, err
	}
	b := &body{from: resp.Body, t: t, ctx: ctx, cancel: cancel, limit: maxAnswer}
	if last, ok := req.Context().Value(lastBody{}).(*body); ok {
		*last = *b
		b = last
	}
	resp.Body = b
	return resp, nil
}

// lastBody is the key of a context's *body that becomes the body of the last answer.
type lastBody struct{}

// body is an answer. The library reads what it does not need to its end, so each has a limit at
// first.
type body struct {
	from   io.ReadCloser
	t      *transport
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  int64 // below 0 for none
	read   int64
	waited time.Duration
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.limit >= 0 && int64(len(p)) > b.limit-b.read {
		if p = p[:b.limit-b.read]; len(p) == 0 {
			return 0, fmt.Errorf("the answer of %s is larger than %d bytes", b.t.host, b.limit)
		}
	}
	slow := api.Errorf(api.KindUnavailable, "%s sends less than %d bytes a second", b.t.host, b.t.rate)
	start := time.Now()
	timer := time.AfterFunc(b.t.allowed(b.read)-b.waited, func() { b.cancel(slow) })
	n, err := b.from.Read(p)
	timer.Stop()
	b.waited += time.Since(start)
	b.read += int64(n)
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause == error(slow) {
			err = slow
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.cancel(nil)
	return b.from.Close()
}
