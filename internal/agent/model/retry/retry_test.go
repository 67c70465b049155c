package retry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/retry"
)

// flaky fails with its errors in order, then answers.
type flaky struct {
	errs  []error
	calls int
}

func (*flaky) Name() string { return "flaky" }

func (f *flaky) Generate(_ context.Context, _ model.Request, deltas func(model.Delta)) (model.Response, error) {
	f.calls++
	resp := model.Response{Usage: api.Usage{Requests: 1, InputTokens: 10}}
	if deltas != nil {
		deltas(model.Delta{Text: "half"})
	}
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return resp, err
	}
	resp.Message.Text = "whole"
	return resp, nil
}

var errOverloaded = api.Errorf(api.KindUnavailable, "overloaded")

func after(d time.Duration) error {
	return &api.Error{Kind: api.KindExhausted, Message: "slow down", Err: &model.Wait{For: d}}
}

// waits are a clock that only notes.
type waits struct{ all []time.Duration }

func (w *waits) wait(ctx context.Context, d time.Duration) error {
	w.all = append(w.all, d)
	return ctx.Err()
}

func never() float64 { return 0 }

func TestTries(t *testing.T) {
	times := func(err error, n int) []error { return slices.Repeat([]error{err}, n) }
	for _, tt := range []struct {
		name  string
		errs  []error
		cfg   retry.Config
		calls int
		waits []time.Duration
		kind  api.Kind
		hint  string
	}{
		{name: "at once", calls: 1},
		{name: "third time", errs: times(errOverloaded, 2), calls: 3, waits: []time.Duration{time.Second, 2 * time.Second}},
		{name: "never", errs: times(errOverloaded, 9), calls: 5, kind: api.KindUnavailable, hint: "after 5 attempts",
			waits: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{name: "most", errs: times(errOverloaded, 3), cfg: retry.Config{Most: 3 * time.Second}, calls: 4,
			waits: []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}},
		{name: "chance", errs: times(errOverloaded, 2), cfg: retry.Config{Chance: func() float64 { return 0.5 }}, calls: 3,
			waits: []time.Duration{750 * time.Millisecond, 1500 * time.Millisecond}},
		{name: "as the server asks", errs: []error{after(7 * time.Second), after(0)}, calls: 3, waits: []time.Duration{7 * time.Second, 0}},
		{name: "it asks for too much", errs: []error{after(time.Hour)}, calls: 1, kind: api.KindExhausted, hint: "wait 1h0m0s"},
		{name: "timeout", errs: []error{api.Errorf(api.KindTimeout, "silent")}, calls: 2, waits: []time.Duration{time.Second}},
		{name: "total", errs: times(after(50*time.Second), 9), calls: 3, waits: times2(50*time.Second, 2), kind: api.KindExhausted, hint: "wait 50s"},
		{name: "many doublings", errs: times(errOverloaded, 80), cfg: retry.Config{Tries: 70, Most: time.Second, Total: time.Hour}, calls: 70,
			waits: times2(time.Second, 69), kind: api.KindUnavailable, hint: "after 70 attempts"},
		{name: "refused key", errs: times(api.Errorf(api.KindUnauthenticated, "no"), 1), calls: 1, kind: api.KindUnauthenticated},
		{name: "bad request", errs: times(api.Errorf(api.KindInvalid, "no"), 1), calls: 1, kind: api.KindInvalid},
		{name: "declined", errs: times(api.Errorf(api.KindDeclined, "no"), 1), calls: 1, kind: api.KindDeclined},
		{name: "a defect", errs: times(errors.New("odd"), 1), calls: 1, kind: api.KindInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, w := &flaky{errs: tt.errs}, &waits{}
			tt.cfg.Wait = w.wait
			if tt.cfg.Chance == nil {
				tt.cfg.Chance = never
			}
			var told []string
			resp, err := retry.New(f, tt.cfg).Generate(t.Context(), model.Request{}, func(d model.Delta) {
				if d.Retry != nil {
					told = append(told, d.Retry.Err.Error())
					if d.Retry.Attempt != len(told) || d.Retry.Of == 0 {
						t.Errorf("told %+v", d.Retry)
					}
				}
			})
			if api.KindOf(err) != tt.kind || !strings.Contains(api.HintOf(err), tt.hint) {
				t.Errorf("error %v, hint %q", err, api.HintOf(err))
			}
			if f.calls != tt.calls || !slices.Equal(w.all, tt.waits) || len(told) != len(tt.waits) {
				t.Errorf("%d calls, waits %v, told %q", f.calls, w.all, told)
			}
			if tt.kind == "" && resp.Message.Text != "whole" {
				t.Errorf("%+v", resp)
			}
			if resp.Usage.Requests != tt.calls || resp.Usage.InputTokens != int64(10*tt.calls) {
				t.Errorf("usage %+v of %d calls", resp.Usage, tt.calls)
			}
		})
	}
}

func times2(d time.Duration, n int) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }

// The news of a retry comes after what it makes void and before what comes anew.
func TestOrder(t *testing.T) {
	f, w := &flaky{errs: []error{errOverloaded}}, &waits{}
	var got []string
	_, err := retry.New(f, retry.Config{Wait: w.wait}).Generate(t.Context(), model.Request{}, func(d model.Delta) {
		if d.Retry != nil {
			got = append(got, "retry")
		} else {
			got = append(got, d.Text)
		}
	})
	if want := []string{"half", "retry", "half"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %q", err, got)
	}
}

// The context ends the wait, the real one.
func TestCanceledWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &flaky{errs: []error{after(time.Minute)}}
	_, err := retry.New(f, retry.Config{}).Generate(ctx, model.Request{}, func(d model.Delta) {
		if d.Retry != nil {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || f.calls != 1 {
		t.Errorf("%v after %d calls", err, f.calls)
	}
}

// A wait that is longer than the context is not begun.
func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, w := &flaky{errs: []error{after(90 * time.Second)}}, &waits{}
	_, err := retry.New(f, retry.Config{Wait: w.wait}).Generate(ctx, model.Request{}, nil)
	if api.KindOf(err) != api.KindExhausted || len(w.all) != 0 || !strings.Contains(api.HintOf(err), "No time is left") {
		t.Errorf("%v (%s), waits %v", err, api.HintOf(err), w.all)
	}
}
