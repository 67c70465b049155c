package view

import (
	"testing"

	"hortus.dev/api"
)

func TestRetryLine(t *testing.T) {
	for _, tt := range []struct {
		ev   api.ModelRetryEvent
		want string
	}{
		{api.ModelRetryEvent{Model: "anthropic:claude-x", Attempt: 1, Of: 5, WaitMS: 2100, Error: "anthropic: 529 overloaded_error: Overloaded"},
			"anthropic: 529 overloaded_error: Overloaded (try 1 of 5), next in 2.1s"},
		{api.ModelRetryEvent{Model: "openai:gpt-x", Attempt: 1, Of: 3, Error: "the answer is not the JSON that was asked for"},
			"openai: the answer is not the JSON that was asked for (try 1 of 3), asking again"},
		{api.ModelRetryEvent{Model: "replay:openai:gpt-x", Attempt: 2, Of: 5, WaitMS: 50, Error: "openai: 429 slow"},
			"openai: 429 slow (try 2 of 5), next in 50ms"},
	} {
		if got := retryLine(tt.ev); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestUsageLine(t *testing.T) {
	for _, tt := range []struct {
		u    api.Usage
		want string
	}{
		{api.Usage{Requests: 3, InputTokens: 1200, CachedTokens: 800, OutputTokens: 400, CostUSD: 0.01234},
			"m: 3 calls, 1200 tokens in (800 cached), 400 out, $0.0123"},
		{api.Usage{Requests: 1, InputTokens: 5, OutputTokens: 2, Unpriced: 1},
			"m: 1 call, 5 tokens in (0 cached), 2 out, cost unknown (no price is known for this model)"},
		{api.Usage{Requests: 3, InputTokens: 5, OutputTokens: 2, Unpriced: 2, CostUSD: 1},
			"m: 3 calls, 5 tokens in (0 cached), 2 out, $1.0000 and the unknown cost of 2 calls"},
	} {
		if got := usageLine("m", tt.u); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}
