package anthropic

import (
	"encoding/json"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/platform/price"
)

// event is one event of a stream, with what is used of all kinds of events.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		StopReason  string `json:"stop_reason"`
		StopDetails struct {
			Explanation string `json:"explanation"`
		} `json:"stop_details"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

// usage counts tokens. Input does not include those of the cache.
type usage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
}

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
	stop   string
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
func (a *answer) take(ev event) {
	switch ev.Type {
	case "message_start":
		u := ev.Message.Usage
		a.tokens.Cached, a.tokens.Written = u.Read, u.Written
		a.tokens.Input = u.Input + u.Read + u.Written
		a.tokens.Output = u.Output
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
		a.tokens.Output = max(a.tokens.Output, ev.Usage.Output)
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

func (a *answer) begin(index int64, id, name string, whole json.RawMessage) {
	if !a.grow(len(id) + len(name) + 64) {
		return
	}
	c := &call{index: index, id: id, name: name}
	if string(whole) != "null" {
		c.whole = whole
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
	case a.full, a.stop == "max_tokens", a.stop == "model_context_window_exceeded":
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
	case a.stop == "refusal":
		return a.end.Declined(a.why)
	}
	return nil
}
