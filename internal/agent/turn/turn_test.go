package turn_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/turn"
)

// stumbling fails a try, and then answers or fails for good.
type stumbling struct{ err error }

func (stumbling) Name() string { return "stumbling" }

func (s stumbling) Generate(_ context.Context, _ model.Request, deltas func(model.Delta)) (model.Response, error) {
	deltas(model.Delta{Text: "void"})
	deltas(model.Delta{Retry: &model.Retry{Attempt: 1, Of: 5, Err: errors.New("overloaded")}})
	deltas(model.Delta{Text: "whole"})
	return model.Response{Message: model.Message{Text: "whole"}, Usage: api.Usage{Requests: 2}}, s.err
}

type facts struct {
	kinds []api.EventType
	data  []any
}

func (f *facts) Emit(_ context.Context, t api.EventType, data any) {
	f.kinds, f.data = append(f.kinds, t), append(f.data, data)
}

func TestCall(t *testing.T) {
	for _, fails := range []error{nil, api.Errorf(api.KindDenied, "no")} {
		f := &facts{}
		a := turn.Asker{Role: "agent", Model: stumbling{fails}, Emit: f}
		var heard []string
		resp, err := a.Call(t.Context(), model.Request{}, func(d model.Delta) { heard = append(heard, d.Text) })
		if !errors.Is(err, fails) || resp.Usage.Requests != 2 || !slices.Equal(heard, []string{"void", "", "whole"}) {
			t.Errorf("%+v, %v, %q", resp, err, heard)
		}
		if !slices.Equal(f.kinds, []api.EventType{api.EventModelRetry, api.EventModel}) {
			t.Fatalf("%v", f.kinds)
		}
		again, _ := f.data[0].(api.ModelRetryEvent)
		end, _ := f.data[1].(api.ModelEvent)
		if again.Role != "agent" || again.Model != "stumbling" || again.Of != 5 || again.Error != "overloaded" {
			t.Errorf("%+v", again)
		}
		if end.Role != "agent" || end.Usage.Requests != 2 || (end.Error != "") != (fails != nil) {
			t.Errorf("%+v", end)
		}
		if _, err := a.Call(t.Context(), model.Request{}, nil); !errors.Is(err, fails) {
			t.Error(err)
		}
	}
}

func TestUseless(t *testing.T) {
	f := &facts{}
	a := turn.Asker{Role: "agent", Model: stumbling{}, Emit: f}
	var u turn.Useless
	var got []bool
	count := func() { got = append(got, u.Count(t.Context(), a, errors.New("no JSON"))) }
	count()
	count()
	u.Reset()
	count()
	count()
	count()
	if want := []bool{true, true, true, true, false}; !slices.Equal(got, want) || len(f.kinds) != 4 {
		t.Errorf("%v, %v", got, f.kinds)
	}
	if e, _ := f.data[3].(api.ModelRetryEvent); e.Attempt != 2 || e.Of != turn.Most || e.Error != "no JSON" {
		t.Errorf("%+v", e)
	}
}
