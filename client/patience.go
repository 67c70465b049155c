package client

import (
	"context"
	"net/http"
	"time"

	"hortus.dev/api"
)

// Patience is how requests wait for a daemon that does not serve: one that is started again, or a node without its
// database, whose work it or another node continues.
type Patience struct {
	// For is how long a request is sent again.
	For time.Duration
	// Waits, if it is set, is called with the reason when a request begins to wait, and with nil when it has been answered.
	// Several goroutines may call it.
	Waits func(reason error)
}

type patienceKey struct{}

// WithPatience has requests that read, and streams of events, wait for the daemon. Requests that change something fail at
// once: whether they were carried out is not known.
func WithPatience(ctx context.Context, p Patience) context.Context {
	if p.Waits == nil {
		p.Waits = func(error) {}
	}
	return context.WithValue(ctx, patienceKey{}, p)
}

// patienceOf returns the patience of a context; the zero value waits for nothing.
func patienceOf(ctx context.Context) Patience {
	p, _ := ctx.Value(patienceKey{}).(Patience)
	return p
}

const (
	// waitAtLeast and waitAtMost bound the time between two attempts.
	waitAtLeast, waitAtMost = 500 * time.Millisecond, 5 * time.Second
)

// gaveUp is the error of a request that waited in vain.
type gaveUp struct{ error }

func (g gaveUp) Unwrap() error { return g.error }

// try sends a request until the daemon serves it.
func (p Patience) try(ctx context.Context, send func() (*http.Response, error)) (*http.Response, error) {
	for began, waits := time.Now(), false; ; {
		resp, err := send()
		switch {
		case api.KindOf(err) != api.KindUnavailable || api.GoneOf(err):
			if waits && err == nil {
				p.Waits(nil)
			}
			return resp, err
		case time.Since(began) >= p.For:
			return nil, gaveUp{err}
		}
		if !waits {
			waits = true
			p.Waits(err)
		}
		if err := sleep(ctx, min(max(api.RetryAfterOf(err), waitAtLeast), waitAtMost)); err != nil {
			return nil, err
		}
	}
}
