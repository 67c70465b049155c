package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/turn"
)

// maxAnswer is the longest answer that is parsed.
const maxAnswer = 4 << 20

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
// the model, which has [turn.Most] answers in all.
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
	var useless turn.Useless
	for {
		resp, err := r.asker().Call(ctx, req, nil)
		used = used.Add(resp.Usage)
		if err != nil {
			return zero, used, err
		}
		out, err := parse(resp.Message.Text, check)
		if err == nil {
			return out, used, nil
		}
		if resp.Stop == model.StopLength {
			err = api.Errorf(api.KindInvalid, "the answer exceeds the maximum length and was truncated; write a much shorter one: %w", err)
		}
		if !useless.Count(ctx, r.asker(), err) {
			return zero, used, api.Errorf(api.KindInvalid, "model %s did not give the %s a usable %s: %w", r.model.Name(), r.name, r.output, err).
				WithHint("Retry, or choose another model with --model.")
		}
		req.Messages = append(req.Messages,
			model.Message{Role: model.RoleAssistant, Text: clip(resp.Message.Text, 64<<10)},
			model.Message{Role: model.RoleUser, Text: fmt.Sprintf(
				"Your answer is invalid: %v. Answer again with one JSON value of the schema %s. Write nothing else.", err, r.output)})
	}
}

// asker is the role as one who asks.
func (r role) asker() turn.Asker { return turn.Asker{Role: r.name, Model: r.model, Emit: r.emit} }

// parse reads exactly one JSON value without unknown fields.
func parse[Out any](text string, check func(*Out) error) (Out, error) {
	var out Out
	if len(text) > maxAnswer {
		return out, api.Errorf(api.KindInvalid, "the answer has %d bytes; the maximum is %d", len(text), maxAnswer)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, api.Errorf(api.KindInvalid, "the answer is not JSON of the requested schema: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return out, api.Errorf(api.KindInvalid, "the answer has text after the JSON value")
	}
	return out, check(&out)
}

func clip(s string, max int) string {
	if len(s) > max {
		return s[:max]
	}
	return s
}
