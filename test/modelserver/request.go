package modelserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// request has the fields of a request that a step needs.
type request struct {
	wire   string
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []struct {
		Name        string `json:"name"`
		InputSchema schema `json:"input_schema"`
		Parameters  schema `json:"parameters"`
		Function    struct {
			Name       string `json:"name"`
			Parameters schema `json:"parameters"`
		} `json:"function"`
		FunctionDeclarations []struct {
			Name       string `json:"name"`
			Parameters schema `json:"parameters"`
			JSONSchema schema `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ResponseFormat struct {
		JSONSchema struct {
			Name string `json:"name"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Text struct {
		Format struct {
			Name string `json:"name"`
		} `json:"format"`
	} `json:"text"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []json.RawMessage `json:"messages"`
	Input    json.RawMessage   `json:"input"`
	// Contents are the messages of Gemini.
	Contents []json.RawMessage `json:"contents"`
	// strings has all strings of the request, last those of its last message.
	strings, last string
}

func parseRequest(wire string, body []byte) (*request, error) {
	r := &request{wire: wire}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, fmt.Errorf("the request is not JSON as expected: %w", err)
	}
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	var b strings.Builder
	collect(&b, doc)
	r.strings = b.String()
	r.last = lastMessage(append(r.Messages, r.Contents...), r.Input)
	return r, nil
}

// lastMessage returns the strings of the last message and of the consecutive tool
// results before it.
func lastMessage(messages []json.RawMessage, input json.RawMessage) string {
	if len(messages) == 0 && json.Unmarshal(input, &messages) != nil {
		return string(input)
	}
	var b strings.Builder
	for i, raw := range slices.Backward(messages) {
		var head struct{ Role, Type string }
		var doc any
		if json.Unmarshal(raw, &head) != nil || json.Unmarshal(raw, &doc) != nil {
			break
		}
		result := head.Role == "tool" || head.Type == "function_call_output"
		if i < len(messages)-1 && !result {
			break
		}
		collect(&b, doc)
	}
	return b.String()
}

// collect writes all strings of a document, one per line.
func collect(b *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		b.WriteString(v)
		b.WriteByte('\n')
	case []any:
		for _, e := range v {
			collect(b, e)
		}
	case map[string]any:
		for _, e := range v {
			collect(b, e)
		}
	}
}

// offers reports whether a tool of that name is offered.
func (r *request) offers(tool string) bool {
	for _, o := range r.offered() {
		if o.name == tool {
			return true
		}
	}
	return false
}

// asks reports whether the request requires a structured answer of that name.
func (r *request) asks(output string) bool {
	return r.ResponseFormat.JSONSchema.Name == output || r.Text.Format.Name == output || r.offers(output)
}

// aside reports whether this is a side request; see "side: ignore".
func (r *request) aside() bool {
	return len(r.Tools) == 0 && r.ResponseFormat.JSONSchema.Name == "" && r.Text.Format.Name == ""
}

// mismatch returns the first expectation of a step that a request does not meet, or "".
func (s *Step) mismatch(r *request) string {
	if s.Wire != "" && s.Wire != r.wire {
		return fmt.Sprintf("came over %s, not %s", r.wire, s.Wire)
	}
	if s.Output != "" && !r.asks(s.Output) {
		return "does not ask for a " + s.Output
	}
	for _, text := range s.Expect {
		if !strings.Contains(r.strings, text) {
			return fmt.Sprintf("does not hold %q", text)
		}
	}
	for _, text := range s.Last {
		if !strings.Contains(r.last, text) {
			return fmt.Sprintf("does not hold %q in its last message", text)
		}
	}
	for _, text := range s.Lacks {
		if strings.Contains(r.strings, text) {
			return fmt.Sprintf("holds %q", text)
		}
	}
	if s.Act != "" && !r.acts() {
		return "offers no tool that runs commands"
	}
	return ""
}
