package meter

import (
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// exchange is a request to a model and its answer.
type exchange struct {
	vendor       secrets.Model
	path         string
	request      string
	status       int
	contentType  string
	answer       string
	method       string
	want         secrets.Usage
	endsAtMarker bool // what follows is not needed
}

const (
	eventStream = "text/event-stream; charset=utf-8"
	jsonType    = "application/json"
)

// anthropicStream is a stream as the Messages API sends it.
const anthropicStream = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":2000,"cache_read_input_tokens":30000,"cache_creation":{"ephemeral_5m_input_tokens":1500,"ephemeral_1h_input_tokens":500},"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"x","input":{"usage":{"output_tokens":999999}}}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\"usage\":{\"output_tokens\":999999}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":500}}

event: message_stop
data: {"type":"message_stop"}

`

const chatStream = `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5.4-2026-03-05","choices":[{"delta":{"content":"{\"usage\":{\"completion_tokens\":7}}"}}],"usage":null}

data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5.4-2026-03-05","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200,"prompt_tokens_details":{"cached_tokens":600}}}

data: [DONE]

`

const responsesStream = `event: response.created
data: {"type":"response.created","response":{"id":"r","model":"gpt-6-luna","usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"hello"}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","model":"gpt-6-luna","output":[{"usage":{"input_tokens":9}}],"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":400},"output_tokens":300,"output_tokens_details":{"reasoning_tokens":250},"total_tokens":1300}}}

`

const geminiStream = `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":100,"totalTokenCount":100},"modelVersion":"gemini-2.5-flash"}

data: {"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":30,"cachedContentTokenCount":40,"totalTokenCount":150},"modelVersion":"gemini-2.5-flash"}

`

func exchanges() map[string]exchange {
	body := `{"model":"claude-opus-5-5","max_tokens":4000,"messages":[{"role":"user","content":"hi"}]}`
	return map[string]exchange{
		// 100 fresh at 4, 30000 cached at 0.2, 1500 written at 5, 500 at 8, 500 out at 20.
		"Messages, streamed": {vendor: secrets.Anthropic, path: "/v1/messages", request: body, contentType: eventStream, answer: anthropicStream, endsAtMarker: true,
			want: secrets.Usage{Model: "claude-opus-5-5", InputTokens: 32100, OutputTokens: 500, MicroUSD: 400 + 6000 + 7500 + 4000 + 10000}},
		"Messages": {vendor: secrets.Anthropic, path: "/v1/messages", request: body, contentType: jsonType,
			answer: `{"id":"m","type":"message","model":"claude-haiku-4-5-20251001","content":[{"type":"text","text":"x","usage":{"output_tokens":7}}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"cache_read_input_tokens":0,"output_tokens":10,"server_tool_use":null}}`,
			want:   secrets.Usage{Model: "claude-haiku-4-5-20251001", InputTokens: 1000, OutputTokens: 10, MicroUSD: 1050}},
		"Chat Completions, streamed": {vendor: secrets.OpenAI, path: "/v1/chat/completions", request: `{"model":"gpt-5.4","stream":true}`, contentType: eventStream, answer: chatStream, endsAtMarker: true,
			want: secrets.Usage{Model: "gpt-5.4-2026-03-05", InputTokens: 1000, OutputTokens: 200, MicroUSD: 1000 + 150 + 3000}},
		"Chat Completions": {vendor: secrets.OpenAI, path: "/v1/chat/completions", request: `{"model":"gpt-5.5"}`, contentType: jsonType,
			answer: "{\"model\":\"gpt-5.5\",\"choices\":[],\n\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2,\"total_tokens\":12}}\n",
			want:   secrets.Usage{Model: "gpt-5.5", InputTokens: 10, OutputTokens: 2, MicroUSD: 110}},
		"Responses, streamed": {vendor: secrets.OpenAI, path: "/v1/responses", request: `{"model":"gpt-6-luna","stream":true}`, contentType: eventStream, answer: responsesStream, endsAtMarker: true,
			want: secrets.Usage{Model: "gpt-6-luna", InputTokens: 1000, OutputTokens: 300, MicroUSD: 60 + 4 + 150}},
		"Responses": {vendor: secrets.OpenAI, path: "/v1/responses", request: `{}`, contentType: jsonType,
			answer: `{"object":"response","model":"gpt-6-luna","output":[],"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":400},"output_tokens":300,"total_tokens":1300}}`,
			want:   secrets.Usage{Model: "gpt-6-luna", InputTokens: 1000, OutputTokens: 300, MicroUSD: 60 + 4 + 150}},
		"Embeddings": {vendor: secrets.OpenAI, path: "/v1/embeddings", request: `{}`, contentType: jsonType,
			answer: `{"model":"gpt-6-luna","data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`,
			want:   secrets.Usage{Model: "gpt-6-luna", InputTokens: 8, MicroUSD: 1}},
		"Gemini, streamed": {vendor: secrets.Gemini, path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent", request: `{}`, contentType: eventStream, answer: geminiStream,
			want: secrets.Usage{Model: "gemini-2.5-flash", InputTokens: 100, OutputTokens: 50, MicroUSD: 18 + 2 + 125}},
		"Gemini, an array": {vendor: secrets.Gemini, path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent", request: `{}`, contentType: jsonType,
			answer: "[{\"usageMetadata\":{\"promptTokenCount\":100}}\n,\r\n{\"candidates\":[{\"usageMetadata\":{\"promptTokenCount\":9000}}],\"usageMetadata\":{\"promptTokenCount\":100,\"candidatesTokenCount\":50,\"totalTokenCount\":160,\"toolUsePromptTokenCount\":10}}]",
			want:   secrets.Usage{Model: "gemini-2.5-flash", InputTokens: 110, OutputTokens: 50, MicroUSD: 33 + 125}},
		"a model without a price": {vendor: secrets.OpenAI, path: "/v1/chat/completions", request: `{"model":"gpt-5.4-nano"}`, contentType: jsonType,
			answer: `{"model":"mystery","usage":{"prompt_tokens":100,"completion_tokens":10}}`,
			want:   secrets.Usage{Model: "mystery", InputTokens: 100, OutputTokens: 10, MicroUSD: 1500, PricedAs: "gpt-6-astra"}},
		"the model of the request": {vendor: secrets.OpenAI, path: "/v1/chat/completions", request: `{"messages":[{"model":"x"}],"model":"gpt-5.4-nano"}`, contentType: jsonType,
			answer: `{"usage":{"prompt_tokens":1000,"completion_tokens":1000}}`,
			want:   secrets.Usage{Model: "gpt-5.4-nano", InputTokens: 1000, OutputTokens: 1000, MicroUSD: 1450}},
		"two models in the request": {vendor: secrets.OpenAI, path: "/v1/chat/completions", request: `{"model":"gpt-5.4-nano","model":"gpt-6-astra"}`, contentType: jsonType,
			answer: `{"usage":{"prompt_tokens":1000,"completion_tokens":1000}}`,
			want:   secrets.Usage{InputTokens: 1000, OutputTokens: 1000, MicroUSD: 60000, PricedAs: "gpt-6-astra"}},
		"an error":   {vendor: secrets.Anthropic, path: "/v1/messages", request: body, status: 400, contentType: jsonType, answer: `{"type":"error"}`, want: secrets.Usage{Model: "claude-opus-5-5"}},
		"overloaded": {vendor: secrets.Anthropic, path: "/v1/messages", request: body, status: 529, contentType: jsonType, answer: `{"type":"error"}`, want: secrets.Usage{Model: "claude-opus-5-5"}},
		"a list":     {vendor: secrets.Anthropic, path: "/v1/models", method: "GET", contentType: jsonType, answer: `{"data":[]}`, want: secrets.Usage{}},
		"counting":   {vendor: secrets.Anthropic, path: "/v1/messages/count_tokens", request: body, contentType: jsonType, answer: `{"input_tokens":5}`, want: secrets.Usage{Model: "claude-opus-5-5"}},
	}
}

// run counts an exchange whose answer comes in parts that end at a position.
func (e exchange) run(at int, ended bool) secrets.Usage {
	if e.method == "" {
		e.method = "POST"
	}
	if e.status == 0 {
		e.status = 200
	}
	m := New(e.vendor, e.method, e.path)
	half := len(e.request) / 2
	m.Request([]byte(e.request[:half]))
	m.Request([]byte(e.request[half:]))
	m.Begin(e.status, e.contentType)
	m.Answer([]byte(e.answer[:at]))
	if ended {
		m.Answer([]byte(e.answer[at:]))
	}
	return m.Used(ended)
}

// TestUsed reads each answer divided at each byte, and ended at each byte.
func TestUsed(t *testing.T) {
	for name, e := range exchanges() {
		for at := range len(e.answer) + 1 {
			if got := e.run(at, true); got != e.want {
				t.Fatalf("%s, divided at %d: %+v, want %+v", name, at, got, e.want)
			}
		}
		if e.status != 0 || e.method != "" || e.want.InputTokens == 0 {
			continue
		}
		for at := range len(e.answer) + 1 {
			got := e.run(at, false)
			if e.endsAtMarker && got == e.want && at > len(e.answer)*3/4 {
				continue
			}
			if !got.Estimated || got.InputTokens == 0 || got.MicroUSD < e.want.MicroUSD && e.want.PricedAs == "" && at == 0 || got.OutputTokens < e.want.OutputTokens {
				t.Fatalf("%s, ended after %d of %d: %+v, less than %+v", name, at, len(e.answer), got, e.want)
			}
		}
	}
}

// TestEstimate has what requests are estimated at, and answers that state nothing.
func TestEstimate(t *testing.T) {
	for name, c := range map[string]struct {
		vendor        secrets.Model
		path, request string
		input, output int64
	}{
		"stated":                    {secrets.Anthropic, "/v1/messages", `{"max_tokens":100}`, 18, 100},
		"stated twice":              {secrets.Anthropic, "/v1/messages", `{"max_tokens":1000,"max_tokens":10}`, 35, 1000},
		"not stated":                {secrets.Anthropic, "/v1/messages", `{"n":{"max_tokens":5}}`, 22, usualOutput},
		"a name with escapes":       {secrets.Anthropic, "/v1/messages", `{"max_\u0074okens":100}`, 23, 100},
		"in another case":           {secrets.Anthropic, "/v1/messages", `{"MAX_TOKENS":5}`, 16, usualOutput},
		"a name with a dot":         {secrets.Gemini, "/v1/models/x:generateContent", `{"generationConfig.maxOutputTokens":5}`, 38, usualOutput},
		"a text":                    {secrets.Anthropic, "/v1/messages", `{"max_tokens":"5"}`, 18, usualOutput},
		"negative":                  {secrets.Anthropic, "/v1/messages", `{"max_tokens":-5}`, 17, usualOutput},
		"a fraction":                {secrets.Anthropic, "/v1/messages", `{"max_tokens":1e2}`, 18, 100},
		"very large":                {secrets.Anthropic, "/v1/messages", `{"max_tokens":1e300}`, 20, maxInput},
		"malformed":                 {secrets.Anthropic, "/v1/messages", `{"max_tokens":5,}`, 17, usualOutput},
		"of chat":                   {secrets.OpenAI, "/v1/chat/completions", `{"max_completion_tokens":7}`, 27, 7},
		"of chat, old":              {secrets.OpenAI, "/v1/chat/completions", `{"max_tokens":7}`, 16, 7},
		"of responses":              {secrets.OpenAI, "/v1/responses", `{"max_output_tokens":7}`, 23, 7},
		"of responses, of another":  {secrets.OpenAI, "/v1/responses", `{"max_tokens":7}`, 16, usualOutput},
		"several answers":           {secrets.OpenAI, "/v1/chat/completions", `{"max_tokens":7,"n":3}`, 22, 21},
		"very many answers":         {secrets.OpenAI, "/v1/chat/completions", `{"max_tokens":7,"n":1e9}`, 24, 7 * 128},
		"of Gemini":                 {secrets.Gemini, "/v1beta/models/x:generateContent", `{"generationConfig":{"maxOutputTokens":7,"candidateCount":2}}`, 61, 14},
		"of Gemini, snake case":     {secrets.Gemini, "/v1beta/models/x:generateContent", `{"generation_config":{"max_output_tokens":7}}`, 45, 7},
		"in the background":         {secrets.OpenAI, "/v1/responses", `{"background":true}`, 19, maxOutput},
		"not in the background":     {secrets.OpenAI, "/v1/responses", `{"background":false}`, 20, usualOutput},
		"with an earlier answer":    {secrets.OpenAI, "/v1/responses", `{"previous_response_id":"r"}`, keptInput, usualOutput},
		"without an earlier answer": {secrets.OpenAI, "/v1/responses", `{"previous_response_id":null}`, 29, usualOutput},
		"with a conversation":       {secrets.OpenAI, "/v1/responses", `{"conversation":{"id":"c"}}`, keptInput, usualOutput},
		"embeddings":                {secrets.OpenAI, "/v1/embeddings", `{"input":"x"}`, 13, 0},
		"another path":              {secrets.OpenAI, "/v1/embeddings/..;/chat", `{}`, 2, usualOutput},
	} {
		m := New(c.vendor, "POST", c.path)
		m.Request([]byte(c.request))
		want := secrets.Usage{InputTokens: c.input, OutputTokens: c.output, Estimated: true}
		same := func(what string, got secrets.Usage) {
			t.Helper()
			if got.MicroUSD <= 0 || got.PricedAs == "" {
				t.Errorf("%s, %s: %+v has no price", name, what, got)
			}
			if got.MicroUSD, got.PricedAs, got.Model = 0, "", ""; got != want {
				t.Errorf("%s, %s: %+v, want %+v", name, what, got, want)
			}
		}
		same("before", m.Estimate())
		same("without an answer", m.Used(false))
		m.Begin(200, jsonType)
		m.Answer([]byte(`{"choices":[]}`))
		same("without usage", m.Used(true))
	}
}

// TestEstimateOfStream: a stream that leaves usage out is counted by its bytes, up to a maximum, and
// never by less than a usual answer.
func TestEstimateOfStream(t *testing.T) {
	for _, size := range []int{0, 100, 2 * usualOutput, 2 * maxOutput} {
		m := New(secrets.OpenAI, "POST", "/v1/chat/completions")
		m.Request([]byte(`{"model":"gpt-5.4"}`))
		m.Begin(200, eventStream)
		m.Answer([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", size) + "\"}}]}\n\n"))
		m.Answer([]byte("data: [DONE]\n\n"))
		got := m.Used(true)
		if want := min(max(usualOutput, got.OutputTokens), maxOutput); !got.Estimated || got.OutputTokens != want || got.OutputTokens < int64(min(size, maxOutput)) || got.Model != "gpt-5.4" {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
}

// TestDeclared: a body that was not read is as long as it is said to be, and no longer than a
// model reads.
func TestDeclared(t *testing.T) {
	m := New(secrets.OpenAI, "POST", "/v1/responses")
	m.Request([]byte(`{"input":"`))
	m.Declared(5000)
	if got := m.Estimate(); got.InputTokens != 5000 || got.OutputTokens != usualOutput {
		t.Errorf("%+v", got)
	}
	m.Declared(1 << 50)
	if got := m.Estimate(); got.InputTokens != maxInput {
		t.Errorf("%+v", got)
	}
	m.Declared(-1)
	if got := m.Estimate(); got.InputTokens != 10 {
		t.Errorf("%+v", got)
	}
}

// FuzzUsed has hostile requests and answers: what is counted does not depend on how the bytes are
// divided, has bounds, and an answer that is not read to its end costs at least what it stated.
func FuzzUsed(f *testing.F) {
	for _, e := range exchanges() {
		f.Add(e.request, e.answer, e.contentType == eventStream, 10, uint8(len(e.vendor)))
	}
	f.Add(`{"model":1}`, `{"usage":{"input_tokens":1e999,"output_tokens":-1}}`, false, 3, uint8(0))
	f.Add(`{"model":"a`, "data: {\"usage\":{\"prompt_tokens\":99999999999999999999}}\n\n", true, 3, uint8(1))
	f.Fuzz(func(t *testing.T, request, answer string, stream bool, at int, which uint8) {
		vendor := []secrets.Model{secrets.Anthropic, secrets.OpenAI, secrets.Gemini}[which%3]
		e := exchange{vendor: vendor, path: "/v1/messages", request: request, contentType: jsonType, answer: answer}
		if stream {
			e.contentType = eventStream
		}
		whole := e.run(len(answer), true)
		if at = max(0, min(at, len(answer))); e.run(at, true) != whole {
			t.Errorf("divided at %d: %+v, whole: %+v", at, e.run(at, true), whole)
		}
		if u := whole; u.InputTokens < 0 || u.OutputTokens < 0 || u.MicroUSD < 0 || u.InputTokens > 4*maxNumber || u.OutputTokens > 4*maxNumber || u.MicroUSD > maxNumber || len(u.Model) > 3*maxModel {
			t.Errorf("%+v", u)
		}
		if cut := e.run(at, false); cut.Estimated && cut.OutputTokens < 1 || !cut.Estimated && !stream {
			t.Errorf("cut at %d: %+v", at, cut)
		}
	})
}

// BenchmarkAnswer reads a stream with short events.
func BenchmarkAnswer(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello, world\"}}\n\n")
	m := New(secrets.Anthropic, "POST", "/v1/messages")
	m.Begin(200, eventStream)
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		m.Answer(event)
	}
}
