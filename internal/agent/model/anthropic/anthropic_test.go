package anthropic

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

const hello = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":80,"cache_creation_input_tokens":5,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"hel"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

`

// The request is as the API wants it: tools and system in the cache, the output
// as a tool that is not forced, results in front of what the user says next.
func TestRequest(t *testing.T) {
	c := &canned{stream: []byte(hello)}
	m := New(Config{APIKey: "sk-1", Base: c})
	req := model.Request{
		System: "Be brief.",
		Tools:  []model.Tool{{Name: "read", Description: "reads", Input: json.RawMessage(`{"type":"object"}`)}},
		Output: &model.Output{Name: "Number", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "go"},
			{Role: model.RoleAssistant, Calls: []model.Call{
				{ID: "a", Name: "read", Input: json.RawMessage(`{"p":1}`)}, {ID: "b", Name: "read", Input: json.RawMessage(`{"p":`)}, {ID: "c", Name: "read"},
			}},
			{Role: model.RoleTool, CallID: "a", Text: "one"},
			{Role: model.RoleTool, CallID: "b", Text: "two", Failed: true},
			{Role: model.RoleTool, CallID: "c", Text: "three"},
			{Role: model.RoleUser, Text: "on"},
		},
	}
	resp, err := m.Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Message.Text != "hello" {
		t.Errorf("%+v", resp)
	}
	u := resp.Usage
	if u.InputTokens != 95 || u.CachedTokens != 80 || u.OutputTokens != 7 {
		t.Errorf("usage %+v", u)
	}
	// 10 fresh at $2, 80 cached at $0.10, 5 written at $2.50, 7 out at $10 a million.
	if want := (20 + 8 + 12.5 + 70) / 1e6; u.CostUSD < want-1e-12 || u.CostUSD > want+1e-12 {
		t.Errorf("cost %v, want %v", u.CostUSD, want)
	}
	if c.url != "https://api.anthropic.com/v1/messages" || c.header.Get("X-Api-Key") != "sk-1" || c.header.Get("Authorization") != "" {
		t.Errorf("%s %v", c.url, c.header)
	}
	var got, want any
	if err := json.Unmarshal(c.body, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{
		"model": "claude-sonnet-5-5", "max_tokens": 32000, "stream": true,
		"system": [{"type": "text", "text": "Be brief.\n\nAnswer with exactly one call of the tool Number. Write no other text.", "cache_control": {"type": "ephemeral"}}],
		"tools": [
			{"name": "read", "description": "reads", "input_schema": {"type": "object"}},
			{"name": "Number", "description": "Submit your answer, the Number.", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
		],
		"messages": [
			{"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]},
			{"role": "assistant", "content": [
				{"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
				{"type": "tool_use", "id": "b", "name": "read", "input": {"malformed": "{\"p\":"}},
				{"type": "tool_use", "id": "c", "name": "read", "input": {}}
			]},
			{"role": "user", "content": [
				{"type": "tool_result", "tool_use_id": "a", "is_error": false, "content": [{"type": "text", "text": "one"}]},
				{"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [{"type": "text", "text": "two"}]},
				{"type": "tool_result", "tool_use_id": "c", "is_error": false, "content": [{"type": "text", "text": "three"}]},
				{"type": "text", "text": "on", "cache_control": {"type": "ephemeral"}}
			]}
		]}`), &want); err != nil {
		t.Fatal(err)
	}
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("request\n%s\nwant\n%s", g, w)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The environment is for the caller to read: a key there is not taken.
func TestNoKey(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-env")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	_, err := New(Config{KeyHint: "Set it."}).Generate(t.Context(), model.Request{}, nil)
	if api.KindOf(err) != api.KindUnauthenticated || api.HintOf(err) != "Set it." || !strings.Contains(err.Error(), DefaultBaseURL) {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
	c := &canned{stream: []byte(hello)}
	if _, err := New(Config{BaseURL: "http://local:11434/", Base: c}).Generate(t.Context(), model.Request{Messages: []model.Message{{Role: model.RoleUser}}}, nil); err != nil {
		t.Error(err)
	}
	if c.url != "http://local:11434/v1/messages" || c.header.Get("X-Api-Key") != "" || c.header.Get("Authorization") != "" {
		t.Errorf("%s %v", c.url, c.header)
	}
}

func TestBadSchema(t *testing.T) {
	for _, schema := range []string{"", "[]", "{", `"x"`} {
		c := &canned{}
		_, err := New(Config{APIKey: "k", Base: c}).Generate(t.Context(), model.Request{Output: &model.Output{Name: "X", Schema: json.RawMessage(schema)}}, nil)
		if api.KindOf(err) != api.KindInvalid || c.body != nil {
			t.Errorf("%q: %v", schema, err)
		}
	}
}

// Whatever a server sends, a call ends with an answer or an error of the
// contract's kinds.
func FuzzStream(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(strings.ReplaceAll(hello, "text_delta", "input_json_delta")))
	f.Add([]byte("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":-1,\"content_block\":{\"type\":\"tool_use\",\"id\":null,\"name\":\"X\",\"input\":[]}}\n\n"))
	f.Add([]byte("event: error\ndata: {\"error\":{\"type\":\"overloaded_error\"}}\n\n"))
	f.Add([]byte("event: error\ndata: 7\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := New(Config{APIKey: "sk-secret", Base: &canned{stream: stream}, Limits: hosted.Limits{Bytes: 1 << 20, Event: 1 << 16}})
		resp, err := m.Generate(t.Context(), model.Request{Output: &model.Output{Name: "X", Schema: json.RawMessage("{}")}}, func(model.Delta) {})
		if err != nil && api.KindOf(err) == api.KindInternal {
			t.Errorf("%v", err)
		}
		if len(resp.Message.Text) > 3*len(stream) { // a byte that is no UTF-8 becomes three
			t.Errorf("%d bytes of text from %d", len(resp.Message.Text), len(stream))
		}
	})
}
