package model_test

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

type plain struct{ asked *float64 }

func (*plain) Name() string { return "plain" }
func (p *plain) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	p.asked = req.Temperature
	return model.Response{}, nil
}

type tempered struct{ plain }

func (*tempered) MaxTemperature() (float64, bool) { return 1, true }

func TestTemperature(t *testing.T) {
	m := &tempered{}
	hot, err := model.WithTemperature(m, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	if hot.Generate(t.Context(), model.Request{}, nil); m.asked == nil || *m.asked != 0.5 || hot.Name() != "plain" {
		t.Errorf("asked with %v", m.asked)
	}
	if m.Generate(t.Context(), model.Request{}, nil); m.asked != nil {
		t.Error("the model itself has a temperature now")
	}
	for name, c := range map[string]struct {
		m model.Model
		t float64
	}{"too high": {m, 1.1}, "negative": {m, -0.1}, "a model that takes none": {&plain{}, 0.5}} {
		if _, err := model.WithTemperature(c.m, c.t); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
