package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
)

// canned answers every call with the same stream, and keeps the last request.
type canned struct {
	stream []byte
	header http.Header
	body   []byte
	url    string
}

func (c *canned) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	c.body, c.header, c.url = b, req.Header, req.URL.String()
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(bytes.NewReader(c.stream)), Request: req,
	}, nil
}

const (
	chatHello = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"hel"}}]}

data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":800,"cache_write_tokens":100}}}

data: [DONE]

`
	responsesHello = `data: {"type":"response.output_text.delta","delta":"hel","output_index":0}

data: {"type":"response.output_text.delta","delta":"lo","output_index":0}

data: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":1000,"output_tokens":7,"input_tokens_details":{"cached_tokens":800,"cache_write_tokens":100}}}}

`
)

// conversation uses all that a request can hold.
var conversation = model.Request{
	System:    "Be brief.",
	MaxTokens: 500,
	Tools:     []model.Tool{{Name: "read", Description: "reads", Input: json.RawMessage(`{"type":"object"}`)}},
	Output: &model.Output{Name: "Number", Schema: json.RawMessage(
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)},
	Messages: []model.Message{
		{Role: model.RoleUser, Text: "go"},
		{Role: model.RoleAssistant, Text: "I read", Calls: []model.Call{{ID: "a", Name: "read", Input: json.RawMessage(`{"p":`)}}},
		{Role: model.RoleTool, CallID: "a", Text: "one", Failed: true},
		{Role: model.RoleUser, Text: "on"},
	},
}

const chatRequest = `{
	"model": "gpt-6.1-sol", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 500,
	"messages": [
		{"role": "system", "content": "Be brief."},
		{"role": "user", "content": "go"},
		{"role": "assistant", "content": "I read", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"p\":"}}]},
		{"role": "tool", "tool_call_id": "a", "content": "The call failed.\none"},
		{"role": "user", "content": "on"}
	],
	"tools": [{"type": "function", "function": {"name": "read", "description": "reads", "parameters": {"type": "object"}}}],
	"response_format": {"type": "json_schema", "json_schema": {"name": "Number", "strict": true,
		"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}}}}`

const responsesRequest = `{
	"model": "gpt-6.1-sol", "stream": true, "store": false, "max_output_tokens": 500, "instructions": "Be brief.",
	"input": [
		{"role": "user", "content": "go"},
		{"role": "assistant", "content": "I read"},
		{"type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"p\":"},
		{"type": "function_call_output", "call_id": "a", "output": "The call failed.\none"},
		{"role": "user", "content": "on"}
	],
	"tools": [{"type": "function", "name": "read", "description": "reads", "strict": false, "parameters": {"type": "object"}}],
	"text": {"format": {"type": "json_schema", "name": "Number", "strict": true,
		"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}}}}`

func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		name, base, stream, url, want string
		api                           API
	}{
		{"chat", "http://local:8000/v1/", chatHello, "http://local:8000/v1/chat/completions", chatRequest, Auto},
		{"chat at OpenAI", "", chatHello, "https://api.openai.com/v1/chat/completions",
			strings.Replace(chatRequest, `"max_tokens"`, `"max_completion_tokens"`, 1), Chat},
		{"responses at OpenAI", "", responsesHello, "https://api.openai.com/v1/responses", responsesRequest, Auto},
		{"responses", "http://local/v1", responsesHello, "http://local/v1/responses", responsesRequest, Responses},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &canned{stream: []byte(tt.stream)}
			m, err := New(Config{BaseURL: tt.base, API: tt.api, APIKey: "sk-1", Base: c})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := m.Generate(t.Context(), conversation, nil)
			if err != nil || resp.Message.Text != "hello" || resp.Stop != model.StopEnd {
				t.Fatalf("%+v %v", resp, err)
			}
			u := resp.Usage
			if u.InputTokens != 1000 || u.CachedTokens != 800 || u.OutputTokens != 7 {
				t.Errorf("usage %+v", u)
			}
			// 100 fresh at $2, 800 cached at $0.10, 100 written at $2.50, 7 out at $10 a million.
			if want := (200 + 80 + 250 + 70) / 1e6; u.CostUSD < want-1e-12 || u.CostUSD > want+1e-12 {
				t.Errorf("cost %v, want %v", u.CostUSD, want)
			}
			if c.url != tt.url || c.header.Get("Authorization") != "Bearer sk-1" {
				t.Errorf("%s %v", c.url, c.header)
			}
			if got, want := pretty(t, c.body), pretty(t, []byte(tt.want)); got != want {
				t.Errorf("request\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func pretty(t *testing.T, doc []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The environment is for the caller to read: a key there is not taken.
func TestNoKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-env")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	m, err := New(Config{KeyHint: "Set it."})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), model.Request{}, nil)
	if api.KindOf(err) != api.KindUnauthenticated || api.HintOf(err) != "Set it." || !strings.Contains(err.Error(), DefaultBaseURL) {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
	c := &canned{stream: []byte(chatHello)}
	if m, err = New(Config{BaseURL: "http://local:11434/v1", Base: c}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), model.Request{}, nil); err != nil {
		t.Error(err)
	}
	if c.header.Get("Authorization") != "" {
		t.Errorf("%v", c.header)
	}
	if _, err := New(Config{API: "assistants"}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("%v", err)
	}
}

// Several calls in one answer are kept apart, also where a server gives all the
// same index.
func TestParallelCalls(t *testing.T) {
	for name, second := range map[string]string{"numbered": "1", "all alike": "0"} {
		c := &canned{stream: []byte(strings.ReplaceAll(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":@,"id":"b","function":{"name":"read","arguments":"{\"p\""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":@,"function":{"arguments":":2}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

`, "@", second))}
		m, err := New(Config{BaseURL: "http://local/v1", Base: c})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.Generate(t.Context(), model.Request{}, nil)
		if err != nil || resp.Stop != model.StopTools || len(resp.Message.Calls) != 2 {
			t.Fatalf("%s: %+v, %v", name, resp, err)
		}
		a, b := resp.Message.Calls[0], resp.Message.Calls[1]
		if a.ID != "a" || string(a.Input) != `{"p":1}` || b.ID != "b" || string(b.Input) != `{"p":2}` {
			t.Errorf("%s: %+v", name, resp.Message.Calls)
		}
	}
}

func TestStrict(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{},"required":[],"additionalProperties":false}`:                                                           true,
		`{"type":"object","properties":{"a":{"type":"string","enum":["x"]}},"required":["a"],"additionalProperties":false}`:                      true,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"],"additionalProperties":false}`:         true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`:                                      false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`:                                   false,
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{}}},"required":["a"],"additionalProperties":false}`:         false,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}},"required":["a"],"additionalProperties":false}`:                     false,
		`{"type":"array","items":{"type":"string"}}`:                                                                                             false,
		`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],"additionalProperties":false}`:                          false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"a":1}}}`: false,
	} {
		if _, got, err := readSchema("x", json.RawMessage(schema)); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", schema, got, err, want)
		}
	}
	for _, bad := range []string{"", "null", "[]", "{"} {
		if _, _, err := readSchema("x", json.RawMessage(bad)); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Whatever a server sends, a call ends with an answer or an error of the
// contract's kinds.
func FuzzStream(f *testing.F) {
	for _, way := range []bool{true, false} {
		f.Add([]byte(chatHello), way)
		f.Add([]byte(responsesHello), way)
		f.Add([]byte("data: {\"error\":{\"message\":\"x\",\"code\":7}}\n\n"), way)
		f.Add([]byte("data: {\"error\":null}\n\n"), way)
	}
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":9,\"function\":{\"arguments\":\"{\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n"), true)
	f.Add([]byte("data: {\"type\":\"response.output_item.done\",\"output_index\":-3,\"item\":{\"type\":\"function_call\",\"arguments\":[1]}}\n\n"), false)
	f.Add([]byte("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"m\"}}}\n\n"), false)
	f.Fuzz(func(t *testing.T, stream []byte, chat bool) {
		way := Responses
		if chat {
			way = Chat
		}
		m, err := New(Config{APIKey: "sk-secret", API: way, Base: &canned{stream: stream}, Limits: hosted.Limits{Bytes: 1 << 20, Event: 1 << 16}})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.Generate(t.Context(), model.Request{Output: &model.Output{Name: "X", Schema: json.RawMessage("{}")}}, func(model.Delta) {})
		if err != nil && api.KindOf(err) == api.KindInternal {
			t.Errorf("%v", err)
		}
		if len(resp.Message.Text) > 3*len(stream) { // a byte that is no UTF-8 becomes three
			t.Errorf("%d bytes of text from %d", len(resp.Message.Text), len(stream))
		}
	})
}
