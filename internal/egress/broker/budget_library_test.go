package broker

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openai "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"hortus.dev/api/secrets"
)

// counted counts requests of a client.
type counted struct {
	http.RoundTripper
	n atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// TestBudgetIsNotRetried has the vendors' libraries meet a budget that is used up: they send the
// request once, and their error has the message. The control is an answer of a server with the same
// status, which they retry.
func TestBudgetIsNotRetried(t *testing.T) {
	for name, c := range map[string]struct {
		model secrets.Model
		ask   func(p *purse, c *http.Client) error
	}{
		"Anthropic": {secrets.Anthropic, func(p *purse, c *http.Client) error {
			client := anthropic.NewMessageService(anthropicoption.WithBaseURL("https://api.example.org/"), anthropicoption.WithHTTPClient(c),
				anthropicoption.WithAuthToken(p.holder))
			_, err := client.New(t.Context(), anthropic.MessageNewParams{Model: "claude-opus-5-5", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}})
			return err
		}},
		"OpenAI": {secrets.OpenAI, func(p *purse, c *http.Client) error {
			client := openai.NewChatCompletionService(openaioption.WithBaseURL("https://api.example.org/v1/"), openaioption.WithHTTPClient(c), openaioption.WithAPIKey(p.holder))
			_, err := client.New(t.Context(), openai.ChatCompletionNewParams{Model: "gpt-5.5", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}})
			var e *openai.Error
			if errors.As(err, &e) {
				return errors.New(e.Message)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPurse(t, c.model, "3requests")
			p.https(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Retry-After-Ms", "1")
				http.Error(w, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, http.StatusTooManyRequests)
			}), "api.example.org:443")
			transport := &counted{RoundTripper: p.client(true).Transport}
			client := &http.Client{Transport: transport}
			if err := c.ask(p, client); err == nil || !strings.Contains(err.Error(), "slow down") || transport.n.Load() != 3 {
				t.Errorf("the control: %v after %d requests", err, transport.n.Load())
			}
			transport.n.Store(0)
			if err := c.ask(p, client); err == nil || !strings.Contains(err.Error(), "the budget 3requests/task is used up") || transport.n.Load() != 1 {
				t.Errorf("%v after %d requests", err, transport.n.Load())
			}
		})
	}
}
