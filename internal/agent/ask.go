package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/model"
)

// Bounds of one question to a model.
const (
	// maxAnswer is the longest answer that is parsed.
	maxAnswer = 4 << 20
	// askTimeout bounds one call, with all tries of a model that tries again.
	askTimeout = 15 * time.Minute
	// corrections is how often a malformed answer is sent back.
	corrections = 2
)

// role is how a role asks its model.
type role struct {
	name   string // "planner"
	system string
	output string // "ExecutionPlan"
	schema json.RawMessage
	model  model.Model
	emit   Emitter
}

// ask sends the input as the one user message, and parses the answer into out.
// Check says what is wrong with an answer that parsed; what it says goes back to
// the model, at most [corrections] times.
func ask[Out any](ctx context.Context, r role, input any, check func(*Out) error) (Out, api.Usage, error) {
	var zero Out
	var used api.Usage
	text, err := json.Marshal(input)
	if err != nil {
		return zero, used, api.Errorf(api.KindInternal, "encode the input of the %s: %w", r.name, err)
	}
	req := model.Request{
		System:   r.system,
		Messages: []model.Message{{Role: model.RoleUser, Text: string(text)}},
		Output:   &model.Output{Name: r.output, Schema: r.schema},
	}
	for try := 0; ; try++ {
		resp, err := r.call(ctx, req)
		used = used.Add(resp.Usage)
		if err != nil {
			return zero, used, err
		}
		out, err := parse(resp.Message.Text, check)
		if err == nil {
			return out, used, nil
		}
		if resp.Stop == model.StopLength {
			err = api.Errorf(api.KindInvalid, "the answer was cut, being too long; it must be much shorter: %w", err)
		}
		if try == corrections {
			return zero, used, api.Errorf(api.KindInvalid, "model %s gave the %s no usable %s: %w", r.model.Name(), r.name, r.output, err).
				WithHint("Run it again, or choose another model with --model.")
		}
		r.again(ctx, model.Retry{Attempt: try + 1, Of: corrections + 1, Err: err})
		req.Messages = append(req.Messages,
			model.Message{Role: model.RoleAssistant, Text: clip(resp.Message.Text, 64<<10)},
			model.Message{Role: model.RoleUser, Text: fmt.Sprintf(
				"That answer cannot be used: %v. Answer again with one JSON value of the schema %s and nothing else.", err, r.output)})
	}
}

// call asks once and reports it.
func (r role) call(ctx context.Context, req model.Request) (model.Response, error) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	start := time.Now()
	resp, err := r.model.Generate(limited, req, func(d model.Delta) {
		if d.Retry != nil {
			r.again(ctx, *d.Retry)
		}
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = api.Errorf(api.KindTimeout, "model %s gave no whole answer within %s", r.model.Name(), askTimeout).
			WithHint("Try again later, or choose another model with --model.")
	}
	ev := api.ModelEvent{Role: r.name, Model: r.model.Name(), MS: time.Since(start).Milliseconds(), Usage: resp.Usage}
	if err != nil {
		ev.Error = err.Error()
	}
	r.emit.Emit(ctx, api.EventModel, ev)
	return resp, err
}

// again reports that the model is asked once more.
func (r role) again(ctx context.Context, why model.Retry) {
	r.emit.Emit(ctx, api.EventModelRetry, api.ModelRetryEvent{
		Role: r.name, Model: r.model.Name(), Attempt: why.Attempt, Of: why.Of, WaitMS: why.Wait.Milliseconds(), Error: why.Err.Error(),
	})
}

// parse reads exactly one JSON value without unknown fields.
func parse[Out any](text string, check func(*Out) error) (Out, error) {
	var out Out
	if len(text) > maxAnswer {
		return out, api.Errorf(api.KindInvalid, "the answer has %d bytes; at most %d are read", len(text), maxAnswer)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, api.Errorf(api.KindInvalid, "the answer is not the JSON that was asked for: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return out, api.Errorf(api.KindInvalid, "the answer goes on after its JSON value")
	}
	return out, check(&out)
}

func clip(s string, max int) string {
	if len(s) > max {
		return s[:max]
	}
	return s
}
