package acp

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Bounds of the texts of an update, in bytes.
const (
	maxLabel  = 200
	maxTitle  = 1 << 10
	maxInput  = 64 << 10
	maxOutput = 256 << 10
	maxPieces = 100
)

// UpdateKind is what an update reports.
type UpdateKind string

// The kinds that this package reads. Updates of other kinds have nothing else.
const (
	Said        UpdateKind = "agent_message_chunk"
	Thought     UpdateKind = "agent_thought_chunk"
	CallBegun   UpdateKind = "tool_call"
	CallChanged UpdateKind = "tool_call_update"
)

// Update is a report of the agent while it works.
type Update struct {
	Session string
	Kind    UpdateKind
	// Text is a piece of what was said or thought.
	Text string
	// Call is a call of a tool, with the fields that are known or have changed.
	Call Call
}

// CallStatus is how far a call is.
type CallStatus string

// The states of a call.
const (
	Pending   CallStatus = "pending"
	Running   CallStatus = "in_progress"
	Completed CallStatus = "completed"
	Failed    CallStatus = "failed"
)

// Call is the call of a tool by the agent. The agent's program made it: it proves nothing.
type Call struct {
	ID     string
	Title  string
	Kind   string // such as "edit" or "execute"
	Status CallStatus
	// Input is JSON, or what is left of it if it is long.
	Input  string
	Output string
}

// content is a block of content, or of the output of a call.
type content struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
	Path    string          `json:"path"`
}

// text is what people can read of it.
func (c content) text(depth int) string {
	switch {
	case c.Type == "text":
		return c.Text
	case c.Type == "content" && depth > 0:
		var in content
		if json.Unmarshal(c.Content, &in) == nil {
			return in.text(depth - 1)
		}
	case c.Type == "diff":
		return "[changed " + clip(c.Path, maxLabel) + "]"
	}
	return ""
}

// parseUpdate reads the parameters of session/update.
func parseUpdate(raw json.RawMessage) (Update, bool) {
	var in struct {
		SessionID string `json:"sessionId"`
		Update    struct {
			Kind       UpdateKind      `json:"sessionUpdate"`
			Content    json.RawMessage `json:"content"`
			ToolCallID string          `json:"toolCallId"`
			Title      string          `json:"title"`
			CallKind   string          `json:"kind"`
			Status     CallStatus      `json:"status"`
			RawInput   json.RawMessage `json:"rawInput"`
			RawOutput  json.RawMessage `json:"rawOutput"`
		} `json:"update"`
	}
	if json.Unmarshal(raw, &in) != nil || in.Update.Kind == "" || len(in.SessionID) > maxSessionID {
		return Update{}, false
	}
	from := in.Update
	u := Update{Session: in.SessionID, Kind: UpdateKind(clip(string(from.Kind), maxLabel))}
	switch from.Kind {
	case Said, Thought:
		var c content
		if json.Unmarshal(from.Content, &c) != nil {
			return Update{}, false
		}
		u.Text = clip(c.text(0), maxOutput)
	case CallBegun, CallChanged:
		if from.ToolCallID == "" || len(from.ToolCallID) > maxLabel {
			return Update{}, false
		}
		u.Call = Call{ID: from.ToolCallID, Title: clip(from.Title, maxTitle), Kind: clip(from.CallKind, maxLabel),
			Status: CallStatus(clip(string(from.Status), maxLabel)), Input: clip(compact(from.RawInput), maxInput), Output: output(from.Content, from.RawOutput)}
	}
	return u, true
}

// output is what people can read of the output of a call.
func output(blocks, raw json.RawMessage) string {
	var list []content
	var b strings.Builder
	if json.Unmarshal(blocks, &list) == nil {
		for _, c := range list[:min(len(list), maxPieces)] {
			b.WriteString(clip(c.text(1), maxOutput-min(maxOutput, b.Len())))
		}
	}
	if b.Len() > 0 {
		return b.String()
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return clip(text, maxOutput)
	}
	return clip(compact(raw), maxOutput)
}

// compact is JSON in one line; empty for nothing.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil || b.String() == "null" {
		return ""
	}
	return b.String()
}

// permission is a request for a permission.
type permission struct {
	title   string
	options []option
}

type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

func parsePermission(raw json.RawMessage) (permission, bool) {
	var in struct {
		ToolCall struct {
			Title string `json:"title"`
		} `json:"toolCall"`
		Options []option `json:"options"`
	}
	if json.Unmarshal(raw, &in) != nil || len(in.Options) == 0 || len(in.Options) > maxPieces {
		return permission{}, false
	}
	return permission{clip(in.ToolCall.Title, maxTitle), in.Options}, true
}

// choose returns the option that allows what is asked for, once if there is such an option: what is always allowed may be
// written to a file. It is empty if there is none.
func (p permission) choose() string {
	for _, kind := range []string{"allow_once", "allow_always"} {
		for _, o := range p.options {
			if o.Kind == kind {
				return o.ID
			}
		}
	}
	return ""
}

// outcome is the answer.
func (p permission) outcome(option string) json.RawMessage {
	if option == "" {
		return encode(obj{"outcome": obj{"outcome": "cancelled"}})
	}
	return encode(obj{"outcome": obj{"outcome": "selected", "optionId": option}})
}

// encode is the JSON of a value that always has one.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// clip returns at most most bytes of a text, of whole characters.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
