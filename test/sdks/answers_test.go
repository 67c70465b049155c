package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	claude "github.com/anthropics/anthropic-sdk-go"
	claudeoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	gpt "github.com/openai/openai-go/v3"
	gptoption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/test/modelserver"
)

// answer is what a client has read of a stream.
type answer struct {
	Text, Call, Input     string
	In, Cached, Out       int64
	Length, Refused, Fail bool
}

// peer is a client of one wire: ours, or that of an SDK.
type peer struct {
	name         string
	ours, theirs func(ctx context.Context, url string) answer
}

func ofOurs(m model.Model, ctx context.Context) answer {
	resp, err := m.Generate(ctx, model.Request{
		Messages: []model.Message{{Role: model.RoleUser, Text: "hello"}}, Tools: []model.Tool{{Name: "read", Input: json.RawMessage(`{"type":"object"}`)}},
	}, nil)
	a := answer{Text: resp.Message.Text, In: int64(resp.Usage.InputTokens), Cached: int64(resp.Usage.CachedTokens), Out: int64(resp.Usage.OutputTokens), Length: resp.Stop == model.StopLength}
	for _, c := range resp.Message.Calls {
		a.Call, a.Input = c.Name, string(c.Input)
	}
	if err != nil {
		a.Refused = strings.Contains(err.Error(), "refused to answer")
		a.Fail = !a.Refused
	}
	return a
}

func oursOpenAI(way openai.API) func(context.Context, string) answer {
	return func(ctx context.Context, url string) answer {
		m, err := openai.New(openai.Config{API: way, Model: "m", BaseURL: url + "/v1", APIKey: "key"})
		if err != nil {
			panic(err)
		}
		return ofOurs(m, ctx)
	}
}

func theirsOptions(url string) []gptoption.RequestOption {
	return []gptoption.RequestOption{gptoption.WithBaseURL(url + "/v1/"), gptoption.WithAPIKey("key"), gptoption.WithMaxRetries(0)}
}

var peers = []peer{
	{"messages", func(ctx context.Context, url string) answer {
		return ofOurs(anthropic.New(anthropic.Config{Model: "m", BaseURL: url, APIKey: "key"}), ctx)
	}, func(ctx context.Context, url string) answer {
		service := claude.NewMessageService(claudeoption.WithBaseURL(url+"/"), claudeoption.WithAPIKey("key"), claudeoption.WithMaxRetries(0))
		stream := service.NewStreaming(ctx, claude.MessageNewParams{Model: "m", MaxTokens: 100,
			Messages: []claude.MessageParam{claude.NewUserMessage(claude.NewTextBlock("hello"))},
			Tools:    []claude.ToolUnionParam{{OfTool: &claude.ToolParam{Name: "read"}}}})
		var whole claude.Message
		for stream.Next() {
			if err := whole.Accumulate(stream.Current()); err != nil {
				return answer{Fail: true}
			}
		}
		u := whole.Usage
		a := answer{In: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, Cached: u.CacheReadInputTokens, Out: u.OutputTokens, Fail: stream.Err() != nil}
		for _, b := range whole.Content {
			switch b.Type {
			case "text":
				a.Text += b.Text
			case "tool_use":
				a.Call, a.Input = b.Name, string(b.Input)
			}
		}
		a.Length = whole.StopReason == claude.StopReasonMaxTokens
		a.Refused = whole.StopReason == claude.StopReasonRefusal
		return a
	}},
	{"chat", oursOpenAI(openai.Chat), func(ctx context.Context, url string) answer {
		service := gpt.NewChatCompletionService(theirsOptions(url)...)
		stream := service.NewStreaming(ctx, gpt.ChatCompletionNewParams{Model: "m", Messages: []gpt.ChatCompletionMessageParamUnion{gpt.UserMessage("hello")},
			StreamOptions: gpt.ChatCompletionStreamOptionsParam{IncludeUsage: gpt.Bool(true)}})
		var all gpt.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		a := answer{In: all.Usage.PromptTokens, Cached: all.Usage.PromptTokensDetails.CachedTokens, Out: all.Usage.CompletionTokens, Fail: stream.Err() != nil}
		for _, c := range all.Choices {
			a.Text = c.Message.Content
			for _, call := range c.Message.ToolCalls {
				a.Call, a.Input = call.Function.Name, call.Function.Arguments
			}
			a.Length, a.Refused = c.FinishReason == "length", c.FinishReason == "content_filter" || c.Message.Refusal != ""
		}
		return a
	}},
	{"responses", oursOpenAI(openai.Responses), func(ctx context.Context, url string) answer {
		service := responses.NewResponseService(theirsOptions(url)...)
		stream := service.NewStreaming(ctx, responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: gpt.String("hello")}})
		var a answer
		for stream.Next() {
			switch ev := stream.Current(); ev.Type {
			case "response.output_text.delta":
				a.Text += ev.Delta
			case "response.refusal.delta":
				a.Refused = true
			case "response.output_item.done":
				if ev.Item.Type == "function_call" {
					a.Call, a.Input = ev.Item.Name, ev.Item.Arguments.OfString
				}
			case "response.completed", "response.incomplete":
				u := ev.Response.Usage
				a.In, a.Cached, a.Out = u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens
				a.Length = ev.Response.IncompleteDetails.Reason == "max_output_tokens"
			}
		}
		a.Fail = stream.Err() != nil
		return a
	}},
}

// TestSameAnswers has our clients and the SDKs read the same answers of the scripted server.
func TestSameAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		step string
		want answer
	}{
		"text":     {"usage: 1000 800 7\n\nHello, <world> & all: äöü 世界", answer{Text: "Hello, <world> & all: äöü 世界", In: 1000, Cached: 800, Out: 7}},
		"a call":   {"call: read\nsay: I look.\nusage: 10 0 3\n\n{\"path\": \"a\\u0000b\"}", answer{Text: "I look.", Call: "read", Input: "{\"path\": \"a\\u0000b\"}", In: 10, Out: 3}},
		"length":   {"stop: length\nusage: 10 0 3\n\ncut", answer{Text: "cut", In: 10, Out: 3, Length: true}},
		"refusal":  {"stop: refusal\nusage: 10 0 3\n\nno", answer{Refused: true}},
		"an error": {"status: 529\nclass: overloaded_error\n\nbusy", answer{Fail: true}},
		"cut":      {"cut: 8\nusage: 10 0 3\n\n0123456789abcdef0123456789", answer{Fail: true}},
	} {
		for _, p := range peers {
			t.Run(name+"/"+p.name, func(t *testing.T) {
				for who, client := range map[string]func(context.Context, string) answer{"ours": p.ours, "the SDK": p.theirs} {
					s, err := modelserver.New([]byte("-- 1 --\n" + c.step))
					if err != nil {
						t.Fatal(err)
					}
					srv := httptest.NewServer(s)
					got := client(t.Context(), srv.URL)
					srv.Close()
					if c.want.Fail || c.want.Refused { // what was read before does not count
						got = answer{Fail: got.Fail, Refused: got.Refused}
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("%s (- want, + got):\n%s", who, diff)
					}
				}
			})
		}
	}
}

// TestShouldRetry: the SDKs do not repeat a request whose answer has the header of the broker's
// answers for a budget that is used up, and tell its message. The control is the same answer
// without it.
func TestShouldRetry(t *testing.T) {
	for name, ask := range map[string]func(url string) error{
		"Anthropic": func(url string) error {
			service := claude.NewMessageService(claudeoption.WithBaseURL(url+"/"), claudeoption.WithAPIKey("key"))
			_, err := service.New(t.Context(), claude.MessageNewParams{Model: "m", MaxTokens: 10, Messages: []claude.MessageParam{claude.NewUserMessage(claude.NewTextBlock("hello"))}})
			return err
		},
		"OpenAI": func(url string) error {
			service := gpt.NewChatCompletionService(gptoption.WithBaseURL(url+"/v1/"), gptoption.WithAPIKey("key"))
			_, err := service.New(t.Context(), gpt.ChatCompletionNewParams{Model: "m", Messages: []gpt.ChatCompletionMessageParamUnion{gpt.UserMessage("hello")}})
			var e *gpt.Error
			if errors.As(err, &e) {
				return errors.New(e.Message)
			}
			return err
		},
	} {
		for header, want := range map[string]int64{"": 3, "false": 1} {
			var n atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After-Ms", "1")
				if header != "" {
					w.Header().Set("X-Should-Retry", header)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"the budget is used up"}}`)
			}))
			err := ask(srv.URL)
			srv.Close()
			if n.Load() != want || err == nil || !strings.Contains(err.Error(), "the budget is used up") {
				t.Errorf("%s, X-Should-Retry %q: %d requests, want %d; %v", name, header, n.Load(), want, err)
			}
		}
	}
}
