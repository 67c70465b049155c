package tool

import (
	"context"
	"encoding/json"
	"strings"

	"hortus.dev/internal/agent/loop"
)

const finishAbout = `End your work. Make this your last call.`

// maxSummary bounds what is kept of a model's own word, in bytes.
const maxSummary = 16 << 10

// valueField is the argument of finish for tasks with a structured result.
var valueField = field{name: "value", doc: "The structured result, a JSON value that is valid for the JSON Schema of the task. Omit it only with blocked."}

// finish makes the tool. With value it demands a structured result.
func finish(value func(json.RawMessage) (json.RawMessage, error)) *tool {
	t := &tool{name: "finish", about: finishAbout, input: fields{
		{name: "summary", kind: "string", need: true, doc: "What you changed, why, and how you tested it."},
		{name: "blocked", kind: "string", doc: "Why you cannot complete the request. Omit it otherwise."},
	}}
	if value != nil {
		t.input = append(t.input, valueField)
	}
	t.run = func(_ context.Context, in args) (loop.Result, error) {
		summary := strings.TrimSpace(in.str("summary"))
		blocked := strings.TrimSpace(in.str("blocked"))
		if summary == "" && blocked == "" {
			return loop.Result{}, teach("the summary is empty; describe your changes in a sentence")
		}
		end := &loop.Finish{Summary: clip(summary, maxSummary), Blocked: clip(blocked, maxSummary)}
		if value != nil {
			var err error
			if end.Value, err = result(in, blocked != "", value); err != nil {
				return loop.Result{}, err
			}
		}
		short := "finished: " + oneLine(summary, 100)
		if blocked != "" {
			short = "blocked: " + oneLine(blocked, 100)
		}
		return loop.Result{Text: "Your work has ended.", Short: short, Finish: end}, nil
	}
	return t
}

// result returns the structured result. A model may write the value as a string with JSON.
func result(in args, blocked bool, check func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	raw, ok := in["value"].(json.RawMessage)
	switch {
	case !ok && blocked:
		return nil, nil
	case !ok:
		return nil, teach("the field value is missing; it must be valid for the JSON Schema of the task")
	}
	value, err := check(raw)
	var text string
	if err != nil && json.Unmarshal(raw, &text) == nil {
		if inner, err := check(json.RawMessage(text)); err == nil {
			return inner, nil
		}
	}
	if err != nil {
		return nil, teach("your work has not ended: the field value is not accepted: %v. Correct it and call finish again", err)
	}
	return value, nil
}
