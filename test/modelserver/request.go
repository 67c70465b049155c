package modelserver

import (
	"encoding/json"
	"fmt"
	"strings"
)

// request is what a step needs to know of a request.
type request struct {
	wire   string
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
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
	// strings are all strings of the request.
	strings string
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
	return r, nil
}

// collect writes all strings of a document, a line each.
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

// offers says whether a tool of that name is offered.
func (r *request) offers(tool string) bool {
	for _, t := range r.Tools {
		if t.Name == tool || t.Function.Name == tool {
			return true
		}
	}
	return false
}

// asks says whether a structured answer of that name is wanted.
func (r *request) asks(output string) bool {
	return r.ResponseFormat.JSONSchema.Name == output || r.Text.Format.Name == output || r.offers(output)
}

// aside says whether this is a request beside the work.
func (r *request) aside() bool {
	return len(r.Tools) == 0 && r.ResponseFormat.JSONSchema.Name == "" && r.Text.Format.Name == ""
}

// mismatch says what of a step's expectations a request does not meet, or "".
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
	for _, text := range s.Lacks {
		if strings.Contains(r.strings, text) {
			return fmt.Sprintf("holds %q", text)
		}
	}
	return ""
}
