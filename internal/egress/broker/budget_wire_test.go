package broker

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/price"
)

// wire is how a vendor answers.
type wire struct {
	model       secrets.Model
	path        string
	contentType string
	events      []string // or one document
	want        secrets.Usage
	refusal     func(t *testing.T, body []byte) (message string)
}

// jsonAt returns the text at a path of a document.
func jsonAt(t *testing.T, body []byte, path ...string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return fmt.Sprint(v)
}

func wires() map[string]wire {
	anthropic := func(t *testing.T, b []byte) string {
		if jsonAt(t, b, "type") != "error" || jsonAt(t, b, "error", "type") != "rate_limit_error" {
			t.Errorf("%s", b)
		}
		return jsonAt(t, b, "error", "message")
	}
	openai := func(t *testing.T, b []byte) string {
		if jsonAt(t, b, "error", "code") != "insufficient_quota" {
			t.Errorf("%s", b)
		}
		return jsonAt(t, b, "error", "message")
	}
	gemini := func(t *testing.T, b []byte) string {
		if jsonAt(t, b, "error", "code") != "429" || jsonAt(t, b, "error", "status") != "RESOURCE_EXHAUSTED" {
			t.Errorf("%s", b)
		}
		return jsonAt(t, b, "error", "message")
	}
	usage := func(model string, table price.Prices, written int64) secrets.Usage {
		t := price.Tokens{Input: 600, Written: written, Output: 400}
		return secrets.Usage{Model: model, InputTokens: 600, OutputTokens: 400, MicroUSD: int64(math.Round(t.Cost(*table.Find(model)) * 1e6))}
	}
	claude := usage("claude-opus-5-5", price.Anthropic(), 500)
	gpt := usage("gpt-5.5", price.OpenAI(), 0)
	flash := usage("gemini-2.5-flash", price.Gemini(), 0)
	return map[string]wire{
		"Messages, streamed": {secrets.Anthropic, "/v1/messages", "text/event-stream", []string{
			`{"type":"message_start","message":{"model":"claude-opus-5-5","usage":{"input_tokens":100,"cache_creation_input_tokens":500,"output_tokens":1}}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hello"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":400}}`, `{"type":"message_stop"}`}, claude, anthropic},
		"Messages": {secrets.Anthropic, "/v1/messages", "application/json", []string{
			`{"model":"claude-opus-5-5","content":[{"type":"text","text":"hello"}],"usage":{"input_tokens":100,"cache_creation_input_tokens":500,"output_tokens":400}}`}, claude, anthropic},
		"Chat Completions, streamed": {secrets.OpenAI, "/v1/chat/completions", "text/event-stream", []string{
			`{"model":"gpt-5.5","choices":[{"delta":{"content":"hello"}}],"usage":null}`,
			`{"model":"gpt-5.5","choices":[],"usage":{"prompt_tokens":600,"completion_tokens":400}}`, `[DONE]`}, gpt, openai},
		"Chat Completions": {secrets.OpenAI, "/v1/chat/completions", "application/json", []string{`{"model":"gpt-5.5","usage":{"prompt_tokens":600,"completion_tokens":400}}`}, gpt, openai},
		"Responses, streamed": {secrets.OpenAI, "/v1/responses", "text/event-stream", []string{
			`{"type":"response.created","response":{"model":"gpt-5.5","usage":null}}`,
			`{"type":"response.completed","response":{"model":"gpt-5.5","usage":{"input_tokens":600,"output_tokens":400}}}`}, gpt, openai},
		"Gemini, streamed": {secrets.Gemini, "/v1beta/models/gemini-2.5-flash:streamGenerateContent", "text/event-stream", []string{
			`{"usageMetadata":{"promptTokenCount":600}}`, `{"usageMetadata":{"promptTokenCount":600,"candidatesTokenCount":100,"thoughtsTokenCount":300}}`}, flash, gemini},
	}
}

// vendor answers as a wire says. It sends each event when the client has read the one before.
type vendor struct {
	wire
	zip   bool
	read  chan struct{}
	asked atomic.Int64
}

// ServeHTTP implements http.Handler.
func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n, err := io.Copy(io.Discard, r.Body); err != nil || n == 0 || r.Header.Get("Authorization") != "Bearer "+secretValue {
		http.Error(w, "not what was expected", http.StatusInternalServerError)
		return
	}
	v.asked.Add(1)
	w.Header().Set("Content-Type", v.contentType)
	var out interface {
		io.Writer
		Flush() error
	} = flusher{w, http.NewResponseController(w)}
	if v.zip {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		out = zipped{z, http.NewResponseController(w)}
	}
	for i, e := range v.events {
		if len(v.events) == 1 {
			io.WriteString(out, e)
			return
		}
		if i > 0 {
			select {
			case <-v.read:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprintf(out, "event: x\ndata: %s\n\n", e)
		out.Flush()
	}
}

type flusher struct {
	io.Writer
	c *http.ResponseController
}

func (f flusher) Flush() error { return f.c.Flush() }

type zipped struct {
	*gzip.Writer
	c *http.ResponseController
}

func (z zipped) Flush() error {
	if err := z.Writer.Flush(); err != nil {
		return err
	}
	return z.c.Flush()
}

// follow reads a stream, and tells the server of each event.
func (v *vendor) follow(t *testing.T, r io.Reader) {
	t.Helper()
	var got bytes.Buffer
	for i, e := range v.events {
		for !strings.Contains(got.String(), e) {
			b := make([]byte, 1<<10)
			n, err := r.Read(b)
			if got.Write(b[:n]); err != nil && !strings.Contains(got.String(), e) {
				t.Fatalf("after %q: %v", got.String(), err)
			}
		}
		if len(v.events) > 1 && i < len(v.events)-1 {
			v.read <- struct{}{}
		}
	}
}
