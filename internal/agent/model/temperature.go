package model

import (
	"context"

	"hortus.dev/api"
)

// Tempered is a model that may take a temperature.
type Tempered interface {
	// MaxTemperature is the highest temperature; ok is false if the model takes none.
	MaxTemperature() (most float64, ok bool)
}

// MaxTemperature is the highest temperature that a model takes; ok is false if it takes none.
func MaxTemperature(m Model) (most float64, ok bool) {
	if t, is := m.(Tempered); is {
		return t.MaxTemperature()
	}
	return 0, false
}

// WithTemperature is a model whose requests have a temperature. KindInvalid if it does not take it.
func WithTemperature(m Model, temperature float64) (Model, error) {
	most, ok := MaxTemperature(m)
	switch {
	case !ok:
		return nil, api.Errorf(api.KindInvalid, "the model %s does not take a temperature", m.Name()).WithHint("leave the temperature out, or use another model")
	case !(temperature >= 0 && temperature <= most):
		return nil, api.Errorf(api.KindInvalid, "the temperature %v is not between 0 and %v, which is what the model %s takes", temperature, most, m.Name())
	}
	return heated{m, temperature}, nil
}

// heated is a model with a temperature.
type heated struct {
	Model
	temperature float64
}

// Generate implements Model.
func (h heated) Generate(ctx context.Context, req Request, deltas func(Delta)) (Response, error) {
	req.Temperature = &h.temperature
	return h.Model.Generate(ctx, req, deltas)
}
