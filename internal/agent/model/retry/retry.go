package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// Config is how often and how patiently. Zero fields take the defaults.
type Config struct {
	// Tries is how often a call is made at most.
	Tries int
	// First is the wait after the first failure; each further one is twice as
	// long, up to Most. Chance takes away up to half of it.
	First, Most time.Duration
	// Total bounds all waits of one call together. A server that asks for more
	// is not called again.
	Total time.Duration
	// Wait sleeps; it returns the context's error when that ends first. Chance
	// gives a number from 0 up to 1. Both are for tests.
	Wait   func(ctx context.Context, d time.Duration) error
	Chance func() float64
}

// Defaults of a [Config].
const (
	DefaultTries = 5
	DefaultFirst = time.Second
	DefaultMost  = 30 * time.Second
	DefaultTotal = 2 * time.Minute
)

// Model calls another model, more than once where that may help.
type Model struct {
	model.Model
	cfg Config
}

var _ model.Model = (*Model)(nil)

// Unwrap returns the model that is called.
func (m *Model) Unwrap() model.Model { return m.Model }

// New wraps m.
func New(m model.Model, cfg Config) *Model { return &Model{Model: m, cfg: cfg.withDefaults()} }

func (c Config) withDefaults() Config {
	if c.Tries <= 0 {
		c.Tries = DefaultTries
	}
	if c.First <= 0 {
		c.First = DefaultFirst
	}
	if c.Most <= 0 {
		c.Most = DefaultMost
	}
	if c.Total <= 0 {
		c.Total = DefaultTotal
	}
	if c.Wait == nil {
		c.Wait = sleep
	}
	if c.Chance == nil {
		c.Chance = rand.Float64
	}
	return c
}

// MaxTemperature implements [model.Tempered].
func (m *Model) MaxTemperature() (float64, bool) { return model.MaxTemperature(m.Model) }

// Generate implements [model.Model]. The usage is that of all tries.
func (m *Model) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (resp model.Response, err error) {
	var used api.Usage
	err = m.cfg.run(ctx, "choose another model with --model", func() (err error) {
		resp, err = m.Model.Generate(ctx, req, deltas)
		used = used.Add(resp.Usage)
		resp.Usage = used
		return err
	}, func(r model.Retry) {
		if deltas != nil {
			deltas(model.Delta{Retry: &r})
		}
	})
	return resp, err
}

// run calls until a call succeeds, another try cannot help or a limit is reached. failed is called before each wait.
// instead is what a person can do other than to wait.
func (c Config) run(ctx context.Context, instead string, call func() error, failed func(model.Retry)) error {
	var waited time.Duration
	for try := 1; ; try++ {
		err := call()
		if err == nil || ctx.Err() != nil || !passing(err) {
			return err
		}
		if try == c.Tries {
			return told(err, "The request failed after %d attempts. Retry later, or %s.", try, instead)
		}
		wait := c.wait(err, try)
		if waited += wait; waited > c.Total {
			return told(err, "The next attempt would have to wait %s. Retry then, or %s.", wait.Round(time.Second), instead)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return told(err, "No time is left for another attempt. Retry later, or %s.", instead)
		}
		failed(model.Retry{Attempt: try, Of: c.Tries, Wait: wait, Err: err})
		if werr := c.Wait(ctx, wait); werr != nil {
			return werr
		}
	}
}

// passing reports whether another try may help.
func passing(err error) bool {
	switch api.KindOf(err) {
	case api.KindUnavailable, api.KindTimeout, api.KindExhausted:
		return true
	}
	return false
}

// wait is how long to wait after a try.
func (c Config) wait(err error, try int) time.Duration {
	if asked, ok := model.RetryAfter(err); ok {
		return asked
	}
	d := c.Most
	// Past 30 doublings any first wait is above the most.
	if try <= 30 {
		d = min(c.First<<(try-1), c.Most)
	}
	return d - time.Duration(c.Chance()*float64(d)/2)
}

// told adds the next step to an error that has none.
func told(err error, format string, args ...any) error {
	e := *api.AsError(err)
	if e.Hint != "" {
		return &e
	}
	return e.WithHint(format, args...)
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
