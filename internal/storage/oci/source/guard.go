package source

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"hortus.dev/api"
)

// guardTransport limits what a registry may send: the size of a manifest, and the time in which it
// sends nothing. Blobs are limited by who reads them.
type guardTransport struct {
	base  http.RoundTripper
	stall time.Duration
}

// RoundTrip implements http.RoundTripper.
func (g *guardTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stalled := api.Errorf(api.KindUnavailable, "the registry %.100s sent nothing for %s", req.URL.Host, g.stall)
	b := &guardedBody{stall: g.stall, cancel: cancel, left: -1, timer: time.AfterFunc(g.stall, func() { cancel(stalled) })}
	if strings.Contains(req.URL.Path, "/manifests/") {
		b.left = maxDocument
	}
	resp, err := g.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		err = b.cause(ctx, err)
		b.end()
		return nil, err
	}
	b.ReadCloser, b.ctx = resp.Body, ctx
	resp.Body = b
	return resp, nil
}

// guardedBody is the body of a response.
type guardedBody struct {
	io.ReadCloser
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	left   int64 // bytes; negative for no limit
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	if b.left >= 0 && int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	b.timer.Reset(b.stall)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop() // the reader may be slower than the registry
	if b.left >= 0 {
		if b.left -= int64(n); b.left < 0 {
			return 0, api.Errorf(api.KindInvalid, "the manifest has more than %d bytes", maxDocument)
		}
	}
	if err != nil && err != io.EOF {
		err = b.cause(b.ctx, err)
	}
	return n, err
}

// cause returns why a request ended.
func (b *guardedBody) cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

func (b *guardedBody) end() {
	b.timer.Stop()
	b.cancel(nil)
}

// Close implements io.Closer.
func (b *guardedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
