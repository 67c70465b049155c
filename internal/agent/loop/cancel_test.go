package loop_test

import (
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// heard calls a function at every piece of an answer.
type heard struct {
	model.Model
	piece func(model.Delta)
}

func (h heard) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	return h.Model.Generate(ctx, req, func(d model.Delta) { deltas(d); h.piece(d) })
}

// quiet waits until no goroutine of the loop or of a model's client is left.
func quiet(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var b strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			t.Fatal(err)
		}
		left := ""
		for stack := range strings.SplitSeq(b.String(), "\n\n") {
			ours := strings.Contains(stack, "internal/agent/loop.") || strings.Contains(stack, "internal/agent/model/") || strings.Contains(stack, "internal/agent/turn")
			if ours && !strings.Contains(stack, "testing.tRunner") {
				left = stack
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a goroutine is left:\n%s", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// In the middle of a text: what was said stays, marked as cut, and the next Run
// continues from there.
func TestCancelText(t *testing.T) {
	each(t, `
-- endless --
endless: true
pace: 1ms

on
-- next --
last: Go on.
expect: onon
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, _ *requests) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		w := newWork(heard{m, func(model.Delta) {
			if n++; n == 5 {
				cancel()
			}
		}}, nil)
		rep := w.Run(ctx, "Go.")
		if rep.Stop != api.StopCanceled || !errors.Is(rep.Err, context.Canceled) || !strings.HasPrefix(rep.Text, "onon") || rep.Steps != 0 {
			t.Fatalf("%+v", rep)
		}
		if says := of[api.SayEvent](w.facts); len(says) != 1 || !says[0].Cut || says[0].Text != rep.Text {
			t.Errorf("%+v", says)
		}
		if all := w.entries(t); !all[2].Cut || all[2].Text != rep.Text || all[3].Stop != api.StopCanceled {
			t.Errorf("%+v", all)
		}
		quiet(t)
		if rep := w.Run(t.Context(), "Go on."); rep.Stop != api.StopFinished {
			t.Errorf("%+v", rep)
		}
		w.entries(t)
	})
}

// In the middle of a call: the tool gets the context, and what was requested and
// did not run is told and answered.
func TestCancelTool(t *testing.T) {
	each(t, `
-- three --
call: view
also: shell {"command": "sleep"}
also: view {"path": "b.txt"}

{"path": "a.txt"}
`, func(t *testing.T, m model.Model, _ *requests) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWork(m, func(_ *loop.Config, b *bench) {
			b.wait = func(ctx context.Context) { cancel(); <-ctx.Done() }
		})
		rep := w.Run(ctx, "Go.")
		if rep.Stop != api.StopCanceled || !slices.Equal(rep.Completed, []string{"view a.txt"}) ||
			!slices.Equal(rep.Skipped, []string{"shell sleep (stopped)", "view b.txt"}) {
			t.Errorf("%+v", rep)
		}
		if h := w.History(); h[3].Text != "so far" || !h[3].Failed || !strings.Contains(h[4].Text, "not run") {
			t.Errorf("%+v", h)
		}
		w.entries(t)
		quiet(t)
	})
}
