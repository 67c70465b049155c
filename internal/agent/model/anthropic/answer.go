package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/platform/price"
)

// answer collects what a stream brings.
type answer struct {
	end    hosted.Endpoint
	deltas func(model.Delta)
	// output is the tool whose input is the answer.
	output string

	text   strings.Builder
	calls  []*call
	size   int
	full   bool // hosted.MaxAnswer was reached
	stop   sdk.StopReason
	done   bool
	tokens price.Tokens
	why    string
}

// call is a tool call as it comes.
type call struct {
	index    int64
	id, name string
	input    strings.Builder
	// whole is an input that came at once.
	whole json.RawMessage
}

// take adds one event.
func (a *answer) take(ev sdk.MessageStreamEventUnion) {
	switch ev.Type {
	case "message_start":
		u := ev.Message.Usage
		a.tokens.Cached, a.tokens.Written = u.CacheReadInputTokens, u.CacheCreationInputTokens
		a.tokens.Input = u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		a.tokens.Output = u.OutputTokens
	case "content_block_start":
		b := ev.ContentBlock
		switch b.Type {
		case "text":
			a.addText(b.Text)
		case "tool_use":
			a.begin(ev.Index, b.ID, b.Name, b.Input)
		}
	case "content_block_delta":
		switch ev.Delta.Type {
		case "text_delta":
			a.addText(ev.Delta.Text)
		case "input_json_delta":
			a.addInput(ev.Index, ev.Delta.PartialJSON)
		default:
			// What a model thinks is not kept, and is bounded like the rest.
			a.grow(len(ev.Delta.Thinking) + len(ev.Delta.Signature))
		}
	case "message_delta":
		a.stop = ev.Delta.StopReason
		a.tokens.Output = max(a.tokens.Output, ev.Usage.OutputTokens)
		a.why = ev.Delta.StopDetails.Explanation
	case "message_stop":
		a.done = true
	}
}

// grow counts what came and reports whether it is still to be kept.
func (a *answer) grow(n int) bool {
	a.size += n
	a.full = a.size > hosted.MaxAnswer
	return !a.full
}

func (a *answer) addText(s string) {
	if s == "" || !a.grow(len(s)) {
		return
	}
	a.text.WriteString(s)
	a.tell(model.Delta{Text: s})
}

func (a *answer) begin(index int64, id, name string, whole any) {
	if !a.grow(len(id) + len(name) + 64) {
		return
	}
	c := &call{index: index, id: id, name: name}
	if raw, err := json.Marshal(whole); err == nil && whole != nil {
		c.whole = raw
	}
	a.calls = append(a.calls, c)
	if name != a.output {
		a.tell(model.Delta{Call: &model.Call{ID: id, Name: name}})
	}
}

func (a *answer) addInput(index int64, s string) {
	if s == "" || !a.grow(len(s)) {
		return
	}
	for _, c := range a.calls {
		if c.index != index {
			continue
		}
		c.input.WriteString(s)
		if c.name == a.output {
			a.tell(model.Delta{Text: s})
		} else {
			a.tell(model.Delta{Call: &model.Call{ID: c.id, Name: c.name, Input: json.RawMessage(s)}})
		}
		return
	}
}

func (a *answer) tell(d model.Delta) {
	if a.deltas != nil {
		a.deltas(d)
	}
}

// response is what was collected.
func (a *answer) response() model.Response {
	msg := model.Message{Role: model.RoleAssistant, Text: a.text.String()}
	answered := false
	for _, c := range a.calls {
		raw := json.RawMessage(c.input.String())
		if len(raw) == 0 {
			raw = c.whole
		}
		if len(raw) == 0 {
			raw = json.RawMessage("{}")
		}
		if c.name == a.output && a.output != "" {
			if !answered {
				msg.Text, answered = string(raw), true
			}
			continue
		}
		msg.Calls = append(msg.Calls, model.Call{ID: c.id, Name: c.name, Input: raw})
	}
	resp := model.Response{Message: msg, Stop: model.StopEnd}
	switch {
	case a.full, a.stop == sdk.StopReasonMaxTokens, a.stop == sdk.StopReasonModelContextWindowExceeded:
		resp.Stop = model.StopLength
	case len(msg.Calls) > 0:
		resp.Stop = model.StopTools
	}
	return resp
}

// problem returns what is wrong with a stream that ended without an error.
func (a *answer) problem() error {
	switch {
	case !a.done:
		return a.end.Cut()
	case a.stop == sdk.StopReasonRefusal:
		return a.end.Declined(a.why)
	}
	return nil
}

// words reads the API's error document.
func words(raw string) (class, text string) {
	var doc struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(raw), &doc); err != nil {
		return "", raw
	}
	if doc.Error.Type == "" && doc.Type != "error" {
		return doc.Type, doc.Message
	}
	return doc.Error.Type, doc.Error.Message
}
