package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/platform/price"
)

// text is a text in an answer. Servers of others send null, lists or objects in some places,
// which are not used.
type text string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// answer collects what a stream brings, over either API.
type answer struct {
	end    hosted.Endpoint
	deltas func(model.Delta)

	text    strings.Builder
	refusal strings.Builder
	calls   []*call
	size    int
	full    bool // hosted.MaxAnswer was reached
	done    bool
	length  bool
	refused bool
	failed  error
	tokens  price.Tokens
}

// call is a tool call as it comes; index is its place in the answer.
type call struct {
	index    int64
	id, name string
	input    strings.Builder
}

// grow counts what came and reports whether it is still to be kept.
func (a *answer) grow(n int) bool {
	a.size += n
	a.full = a.size > hosted.MaxAnswer
	return !a.full
}

func (a *answer) addText(s string) {
	if s != "" && a.grow(len(s)) {
		a.text.WriteString(s)
		a.tell(model.Delta{Text: s})
	}
}

func (a *answer) addRefusal(s string) {
	if s != "" && a.grow(len(s)) {
		a.refused = true
		a.refusal.WriteString(s)
	}
}

// call finds the call at an index, or begins it. Another id begins another call,
// since some servers number all calls alike.
func (a *answer) call(index int64, id, name string) *call {
	for _, c := range slices.Backward(a.calls) {
		if c.index == index && (id == "" || id == c.id) {
			return c
		}
	}
	if !a.grow(len(id) + len(name) + 64) {
		return nil
	}
	c := &call{index: index, id: id, name: name}
	a.calls = append(a.calls, c)
	a.tell(model.Delta{Call: &model.Call{ID: id, Name: name}})
	return c
}

func (a *answer) addInput(c *call, s string) {
	if c != nil && s != "" && a.grow(len(s)) {
		c.input.WriteString(s)
		a.tell(model.Delta{Call: &model.Call{ID: c.id, Name: c.name, Input: json.RawMessage(s)}})
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
	for _, c := range a.calls {
		raw := c.input.String()
		if raw == "" {
			raw = "{}"
		}
		msg.Calls = append(msg.Calls, model.Call{ID: c.id, Name: c.name, Input: json.RawMessage(raw)})
	}
	resp := model.Response{Message: msg, Stop: model.StopEnd}
	switch {
	case a.full, a.length:
		resp.Stop = model.StopLength
	case len(msg.Calls) > 0:
		resp.Stop = model.StopTools
	}
	return resp
}

// problem returns what is wrong with a stream that ended without an error.
func (a *answer) problem() error {
	switch {
	case a.failed != nil:
		return a.failed
	case !a.done:
		return a.end.Cut()
	case a.refused:
		return a.end.Declined(a.refusal.String())
	}
	return nil
}
