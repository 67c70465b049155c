package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// outputAsk goes behind the system text of a request for a structured answer.
const outputAsk = "\n\nAnswer with exactly one call of the tool %NAME%. Write no other text."

func outputName(req model.Request) string {
	if req.Output == nil {
		return ""
	}
	return req.Output.Name
}

// request is the body of a call.
type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	Stream      bool      `json:"stream"`
	Temperature *float64  `json:"temperature,omitempty"`
	System      []*block  `json:"system,omitempty"`
	Messages    []message `json:"messages"`
	Tools       []*tool   `json:"tools,omitempty"`
}

// message is the turn of one side.
type message struct {
	Role    string   `json:"role"`
	Content []*block `json:"content"`
}

// block is a part of a message: text, an image, the use of a tool, or its result.
type block struct {
	Type      string   `json:"type"`
	Text      string   `json:"text,omitempty"`
	ID        string   `json:"id,omitempty"`
	Name      string   `json:"name,omitempty"`
	Input     any      `json:"input,omitempty"`
	ToolUseID string   `json:"tool_use_id,omitempty"`
	IsError   *bool    `json:"is_error,omitempty"`
	Content   []*block `json:"content,omitempty"`
	Source    *source  `json:"source,omitempty"`
	// Cache marks the end of what the cache may keep.
	Cache *cache `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Cache       *cache          `json:"cache_control,omitempty"`
}

type cache struct {
	Type string `json:"type"`
}

func ephemeral() *cache { return &cache{"ephemeral"} }

func text(s string) *block { return &block{Type: "text", Text: filled(s)} }

// body turns a request into the API's words.
func (m *Model) body(req model.Request) (request, error) {
	p := request{Model: m.cfg.Model, MaxTokens: m.cfg.MaxTokens, Stream: true, Temperature: req.Temperature}
	if req.MaxTokens > 0 {
		p.MaxTokens = req.MaxTokens
	}
	tools := req.Tools
	system := req.System
	if out := req.Output; out != nil {
		// The last, so that the tools before it are the same prefix with and
		// without an output.
		tools = append(tools[:len(tools):len(tools)], model.Tool{
			Name: out.Name, Description: "Submit your answer, the " + out.Name + ".", Input: out.Schema,
		})
		system += string(bytes.ReplaceAll([]byte(outputAsk), []byte("%NAME%"), []byte(out.Name)))
	}
	for _, t := range tools {
		if !object(t.Input) {
			return p, api.Errorf(api.KindInvalid, "the schema of %s is not a JSON object", t.Name)
		}
		p.Tools = append(p.Tools, &tool{Name: t.Name, Description: t.Description, InputSchema: t.Input})
	}
	// Tools come before the system text in the cached prefix, so that one mark
	// behind the last of both covers all.
	switch {
	case system != "":
		p.System = []*block{{Type: "text", Text: system, Cache: ephemeral()}}
	case len(p.Tools) > 0:
		p.Tools[len(p.Tools)-1].Cache = ephemeral()
	}
	p.Messages = messages(req.Messages)
	// A conversation continues: what was said so far is read from the cache by the
	// next call. A first question may be the only one and is not worth it, unless
	// there are tools: then an answer calls one.
	if n := len(p.Messages); n > 1 || len(req.Tools) > 0 {
		keepTurns(p.Messages)
	}
	return p, nil
}

// keepTurns marks the last two turns of the user, results of tools among them, for
// the cache. The later mark is what the next call reads; the earlier one finds
// what the call before has kept, however many blocks lie between, which a search
// back from a single mark does not.
func keepTurns(all []message) {
	marks := 0
	for _, m := range slices.Backward(all) {
		if m.Role != "user" || len(m.Content) == 0 {
			continue
		}
		m.Content[len(m.Content)-1].Cache = ephemeral()
		if marks++; marks == 2 {
			return
		}
	}
}

// messages turns turns into the API's messages. What comes from the user and
// from tools in one go is one message, as the API wants it.
func messages(turns []model.Message) []message {
	out := []message{}
	add := func(role string, blocks ...*block) {
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
			return
		}
		out = append(out, message{role, blocks})
	}
	for _, t := range turns {
		switch t.Role {
		case model.RoleTool:
			add("user", toolResult(t))
		case model.RoleAssistant:
			var blocks []*block
			if t.Text != "" || len(t.Calls) == 0 {
				blocks = append(blocks, text(t.Text))
			}
			for _, c := range t.Calls {
				blocks = append(blocks, &block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: input(c.Input)})
			}
			add("assistant", blocks...)
		default:
			add("user", text(t.Text))
		}
	}
	return out
}

// toolResult is the result of a call, with its images.
func toolResult(t model.Message) *block {
	result := &block{Type: "tool_result", ToolUseID: t.CallID, IsError: &t.Failed, Content: []*block{text(t.Text)}}
	for _, x := range t.Images {
		result.Content = append(result.Content, &block{
			Type: "image", Source: &source{Type: "base64", MediaType: x.Type, Data: base64.StdEncoding.EncodeToString(x.Data)},
		})
	}
	return result
}

// filled stands in for a text without a word, which the API refuses.
func filled(s string) string {
	if len(bytes.TrimSpace([]byte(s))) == 0 {
		return "(nothing)"
	}
	return s
}

// input is a call's input as the API takes it back: an object. What a model got
// wrong is shown to it as it was.
func input(raw json.RawMessage) any {
	if object(raw) {
		return raw
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}")
	}
	return map[string]string{"malformed": string(raw)}
}

// object reports whether raw is one JSON object.
func object(raw json.RawMessage) bool {
	return json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}
