package retry_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/retry"
)

// shaky fails with its errors in order, then answers.
type shaky struct {
	errs  []error
	calls int
}

func (*shaky) Name() string { return "shaky" }

func (s *shaky) Embed(context.Context, []string) ([][]float32, error) {
	s.calls++
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	return [][]float32{{1}}, nil
}

func TestEmbedTries(t *testing.T) {
	for _, c := range []struct {
		name  string
		errs  []error
		kind  api.Kind
		calls int
		waits []time.Duration
	}{
		{"at once", nil, "", 1, nil},
		{"after an overload", []error{errOverloaded, after(7 * time.Second)}, "", 3, []time.Duration{time.Second, 7 * time.Second}},
		{"never", []error{errOverloaded, errOverloaded, errOverloaded}, api.KindUnavailable, 3, []time.Duration{time.Second, 2 * time.Second}},
		{"a wait that is too long", []error{after(time.Hour)}, api.KindExhausted, 1, nil},
		{"a wrong key", []error{api.Errorf(api.KindUnauthenticated, "no")}, api.KindUnauthenticated, 1, nil},
	} {
		w, s := &waits{}, &shaky{errs: c.errs}
		e := retry.NewEmbedder(s, retry.Config{Tries: 3, Wait: w.wait, Chance: never})
		got, err := e.Embed(t.Context(), []string{"x"})
		if api.KindOf(err) != c.kind || s.calls != c.calls || !slices.Equal(w.all, c.waits) || (err == nil) != (len(got) == 1) {
			t.Errorf("%s: %v, %v after %d calls, waits %v", c.name, got, err, s.calls, w.all)
		}
		if strings.Contains(api.HintOf(err), "--model") {
			t.Errorf("%s: hint %q", c.name, api.HintOf(err))
		}
	}
}
