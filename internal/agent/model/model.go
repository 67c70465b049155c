package model

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"hortus.dev/api"
)

// Model answers requests.
type Model interface {
	// Name is what users choose the model by, for example "offline".
	Name() string
	// Generate answers one request. Deltas, when not nil, is called in order
	// with each piece as it comes, from the calling goroutine; the Response
	// holds the whole all the same.
	//
	// Errors: KindDeclined when the model cannot do what was asked, with a hint
	// for the user; KindInvalid for a request that it cannot read;
	// KindUnauthenticated, KindDenied and KindNotFound for a key or a name that
	// its server does not take; KindUnavailable, KindTimeout and KindExhausted
	// where trying again may help (see [RetryAfter]); the context's own error
	// when it ended. Beside an error the Response tells what was used so far.
	Generate(ctx context.Context, req Request, deltas func(Delta)) (Response, error)
}

// Role says who wrote a message.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Request is one call.
type Request struct {
	// System is the standing instruction; it is the stable prefix that hosted
	// models may cache.
	System   string
	Messages []Message
	Tools    []Tool
	// Output, when set, asks for one JSON value of that schema instead of prose.
	Output *Output
	// MaxTokens bounds the answer; 0 leaves it to the model.
	MaxTokens int
	// Temperature is for models that take one, see [Tempered]; nil leaves it to the model.
	Temperature *float64
}

// Output names a structured answer. Name is stable ("ExecutionPlan"), Schema is
// JSON Schema.
type Output struct {
	Name   string
	Schema json.RawMessage
}

// Message is one turn.
type Message struct {
	Role Role
	Text string
	// Calls are the tool calls of an assistant's message.
	Calls []Call
	// CallID is, in a tool's message, the call that it answers.
	CallID string
	// Failed marks a tool's message as the answer of a call that failed.
	Failed bool
	// Images are those of a tool's message. Only a model that [ReadsImages] may get them.
	Images []Image
}

// Tool is a function that the model may call. Input is JSON Schema.
type Tool struct {
	Name        string
	Description string
	Input       json.RawMessage
}

// Call is one use of a tool. Input is what the model wrote, which may not be the
// JSON that the tool wants; a message may hold it all the same, so that the model
// sees what it did.
type Call struct {
	ID    string
	Name  string
	Input json.RawMessage
}

// Delta is a piece of an answer: text, a call with a part of its input (the first
// one has none), or the news that the call of the model is made again.
type Delta struct {
	Text string
	Call *Call
	// Retry, when set, says that the answer so far is void and starts again.
	Retry *Retry
}

// Retry is a failed try of a call that will be made again.
type Retry struct {
	// Attempt is the try that failed, from 1; Of is how many there can be.
	Attempt, Of int
	// Wait is the time until the next.
	Wait time.Duration
	// Err is why this one failed.
	Err error
}

// StopReason is why an answer ended.
type StopReason string

const (
	StopEnd    StopReason = "end"
	StopTools  StopReason = "tools"
	StopLength StopReason = "length"
)

// Response is the whole answer.
type Response struct {
	Message Message
	Stop    StopReason
	Usage   api.Usage
}

const (
	// MaxTexts is the most texts of one call of an [Embedder].
	MaxTexts = 64
	// MaxText is the most bytes of one of them.
	MaxText = 8 << 10
)

// Embedder turns texts into vectors. Those of texts that mean the same have about the same direction. Like a
// [Model] it is safe for several goroutines and holds nothing that needs closing.
type Embedder interface {
	// Name is what users choose it by, for example "openai:NAME". Vectors of different names cannot be compared.
	Name() string
	// Embed returns a vector for each text, in their order. All have the same dimension, and are valid as package
	// vector checks it. Errors are those of Model.Generate, without KindDeclined.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Image is a picture in a message of a tool. Type is "image/png", "image/jpeg", "image/gif" or "image/webp".
type Image struct {
	Type string
	Data []byte
}

// ReadsImages reports whether a model says that it reads images. A model that wraps another one has the method
// Unwrap() Model, one that says it itself ReadsImages() bool; all others read none.
func ReadsImages(m Model) bool {
	for m != nil {
		switch x := m.(type) {
		case interface{ ReadsImages() bool }:
			return x.ReadsImages()
		case interface{ Unwrap() Model }:
			m = x.Unwrap()
		default:
			return false
		}
	}
	return false
}

// RetryAfter finds how long a server asked its callers to wait before the next
// try. The second result is false when it asked for nothing.
func RetryAfter(err error) (time.Duration, bool) {
	var w *Wait
	if !errors.As(err, &w) {
		return 0, false
	}
	return w.For, true
}

// Wait is the cause of an error whose server said when to come back. It adds
// nothing to the text.
type Wait struct{ For time.Duration }

// Error is empty: the error that has a Wait as its cause says it all.
func (*Wait) Error() string { return "" }

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
	return temperatureModel{m, temperature}, nil
}

// temperatureModel is a model with a temperature.
type temperatureModel struct {
	Model
	temperature float64
}

// Generate implements Model.
func (h temperatureModel) Generate(ctx context.Context, req Request, deltas func(Delta)) (Response, error) {
	req.Temperature = &h.temperature
	return h.Model.Generate(ctx, req, deltas)
}
