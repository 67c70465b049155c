package price

import (
	"strings"

	"hortus.dev/api"
)

// Price is what a million tokens cost, in US dollars.
type Price struct {
	// Input is for tokens that were read for the first time, Cached for those
	// that came from a cache, Written for those that a cache keeps from now on
	// (0 means as Input), Output for what was answered.
	Input, Cached, Written, Output float64
	// Above a prompt of Over tokens (0: never), input costs OverInput times as
	// much and output OverOutput times.
	Over                  int64
	OverInput, OverOutput float64
}

// Tokens are what one call used. Input is all of the prompt; Cached and Written
// are parts of it, and Kept is the part of Written that a cache keeps for an hour,
// which costs twice as much as Input.
type Tokens struct {
	Input, Cached, Written, Kept, Output int64
}

// Usage counts the call, and its cost if there is a price.
func (t Tokens) Usage(p *Price) api.Usage {
	u := api.Usage{Requests: 1, InputTokens: t.Input, CachedTokens: t.Cached, OutputTokens: t.Output}
	if p == nil {
		if t != (Tokens{}) {
			u.Unpriced = 1
		}
		return u
	}
	u.CostUSD = t.Cost(*p)
	return u
}

// Cost is what the call cost, in US dollars.
func (t Tokens) Cost(p Price) float64 {
	in, out := 1.0, 1.0
	if p.Over > 0 && t.Input > p.Over {
		in, out = p.OverInput, p.OverOutput
	}
	written := p.Written
	if written == 0 {
		written = p.Input
	}
	fresh, kept := max(t.Input-t.Cached-t.Written, 0), min(t.Kept, t.Written)
	return (in*(float64(fresh)*p.Input+float64(t.Cached)*p.Cached+float64(t.Written-kept)*written+float64(kept)*2*p.Input) +
		out*float64(t.Output)*p.Output) / 1e6
}

// Prices are the prices of a vendor's models by their names.
type Prices map[string]Price

// Find returns the price of a model. A name with a date behind it
// ("-20251001", "-2026-04-23") is the model without.
func (p Prices) Find(model string) *Price {
	if price, ok := p[model]; ok {
		return &price
	}
	for name, price := range p {
		if tail, ok := strings.CutPrefix(model, name+"-"); ok && date(tail) {
			return &price
		}
	}
	return nil
}

func date(s string) bool {
	digits := strings.ReplaceAll(s, "-", "")
	return len(digits) == 8 && strings.Trim(digits, "0123456789") == ""
}

// Most returns the model that tokens cost the most of, and the cost in US dollars.
func (p Prices) Most(t Tokens) (model string, cost float64) {
	for name, price := range p {
		if c := t.Cost(price); c > cost || c == cost && (model == "" || name < model) {
			model, cost = name, c
		}
	}
	return model, cost
}

// anthropic are Anthropic's list prices, in US dollars for a million tokens, as of
// 2026-11-21. Written is the price of a cache that holds for five minutes, the
// kind that the agent asks for.
var anthropic = Prices{
	"claude-haiku-5-5":  {Input: 0.10, Cached: 0.01, Written: 0.125, Output: 0.50, Over: 100_000, OverInput: 5, OverOutput: 5},
	"claude-sonnet-5-5": {Input: 2, Cached: 0.10, Written: 2.50, Output: 10},
	"claude-opus-5-5":   {Input: 4, Cached: 0.20, Written: 5, Output: 20},
	"claude-fable-5-1":  {Input: 10, Cached: 0.25, Written: 12.50, Output: 50},
	"claude-sonnet-5":   {Input: 2, Cached: 0.20, Written: 2.50, Output: 10},
	"claude-opus-5":     {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-fable-5":    {Input: 10, Cached: 1, Written: 12.50, Output: 50},
	"claude-opus-4-8":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-opus-4-7":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-opus-4-6":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-opus-4-5":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-sonnet-4-6": {Input: 3, Cached: 0.30, Written: 3.75, Output: 15},
	"claude-sonnet-4-5": {Input: 3, Cached: 0.30, Written: 3.75, Output: 15},
	"claude-haiku-4-5":  {Input: 1, Cached: 0.10, Written: 1.25, Output: 5},
}

// Anthropic returns the prices of Anthropic's models.
func Anthropic() Prices { return anthropic }

// gemini are the list prices of Google's Gemini API, in US dollars for a million tokens of text,
// as of 2026-06. A prompt of a Pro model above 200,000 tokens costs twice as much, and its answer
// half as much again.
var gemini = Prices{
	"gemini-3.5-flash":              {Input: 1.50, Cached: 0.15, Output: 9},
	"gemini-3.1-pro-preview":        {Input: 2, Cached: 0.20, Output: 12, Over: 200_000, OverInput: 2, OverOutput: 1.5},
	"gemini-3.1-flash-lite-preview": {Input: 0.25, Cached: 0.025, Output: 1.50},
	"gemini-3-pro-preview":          {Input: 2, Cached: 0.20, Output: 12, Over: 200_000, OverInput: 2, OverOutput: 1.5},
	"gemini-3-flash-preview":        {Input: 0.50, Cached: 0.05, Output: 3},
	"gemini-2.5-pro":                {Input: 1.25, Cached: 0.125, Output: 10, Over: 200_000, OverInput: 2, OverOutput: 1.5},
	"gemini-2.5-flash":              {Input: 0.30, Cached: 0.03, Output: 2.50},
	"gemini-2.5-flash-lite":         {Input: 0.10, Cached: 0.01, Output: 0.40},
}

// Gemini returns the prices of Google's Gemini API.
func Gemini() Prices { return gemini }

// openai are OpenAI's list prices, in US dollars for a million tokens, as of
// 2026-11-21. A prompt above 272,000 tokens costs twice as much, and its answer
// half as much again.
var openai = Prices{
	"gpt-6.1-sol":   {Input: 2, Cached: 0.10, Written: 2.50, Output: 10, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6.1-terra": {Input: 1, Cached: 0.05, Written: 1.25, Output: 5, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6-astra":   {Input: 10, Cached: 1, Output: 50, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6-sol":     {Input: 2, Cached: 0.20, Written: 2.50, Output: 10, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6-luna":    {Input: 0.10, Cached: 0.01, Written: 0.125, Output: 0.50, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.6-terra": {Input: 2, Cached: 0.20, Output: 12, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.6-luna":  {Input: 0.20, Cached: 0.02, Output: 1.20, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.5":       {Input: 5, Cached: 0.50, Output: 30, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.4":       {Input: 2.50, Cached: 0.25, Output: 15, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.4-mini":  {Input: 0.75, Cached: 0.075, Output: 4.50},
	"gpt-5.4-nano":  {Input: 0.20, Cached: 0.02, Output: 1.25},
}

// OpenAI returns the prices of OpenAI's models.
func OpenAI() Prices { return openai }
