package price

import (
	"testing"

	"hortus.dev/api"
)

func TestCost(t *testing.T) {
	p := &Price{Input: 2, Cached: 0.5, Written: 3, Output: 10, Over: 1_000_000, OverInput: 2, OverOutput: 1.5}
	for _, tt := range []struct {
		name   string
		tokens Tokens
		price  *Price
		want   api.Usage
	}{
		{"plain", Tokens{Input: 500_000, Output: 100_000}, p, api.Usage{Requests: 1, InputTokens: 500_000, OutputTokens: 100_000, CostUSD: 2}},
		{"cached", Tokens{Input: 1_000_000, Cached: 600_000, Written: 200_000}, p,
			api.Usage{Requests: 1, InputTokens: 1_000_000, CachedTokens: 600_000, CostUSD: 0.4 + 0.3 + 0.6}},
		{"long", Tokens{Input: 2_000_000, Output: 1_000_000}, p, api.Usage{Requests: 1, InputTokens: 2_000_000, OutputTokens: 1_000_000, CostUSD: 8 + 15}},
		{"written costs as input", Tokens{Input: 1_000_000, Written: 1_000_000}, &Price{Input: 4}, api.Usage{Requests: 1, InputTokens: 1_000_000, CostUSD: 4}},
		{"kept for an hour", Tokens{Input: 1_000_000, Written: 600_000, Kept: 400_000}, p, api.Usage{Requests: 1, InputTokens: 1_000_000, CostUSD: 0.8 + 0.6 + 1.6}},
		{"more kept than written", Tokens{Input: 1_000_000, Written: 500_000, Kept: 900_000}, p, api.Usage{Requests: 1, InputTokens: 1_000_000, CostUSD: 1 + 2}},
		{"no price", Tokens{Input: 5}, nil, api.Usage{Requests: 1, InputTokens: 5, Unpriced: 1}},
		{"no price and no tokens", Tokens{}, nil, api.Usage{Requests: 1}},
		{"more cached than there is", Tokens{Input: 1, Cached: 1_000_000}, p, api.Usage{Requests: 1, InputTokens: 1, CachedTokens: 1_000_000, CostUSD: 0.5}},
	} {
		got := tt.tokens.Usage(tt.price)
		if diff := got.CostUSD - tt.want.CostUSD; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: costs %v, want %v", tt.name, got.CostUSD, tt.want.CostUSD)
		}
		got.CostUSD = tt.want.CostUSD
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestFindPrice(t *testing.T) {
	p := Prices{"big": {Input: 1}, "big-2": {Input: 2}}
	for name, want := range map[string]float64{
		"big": 1, "big-20261121": 1, "big-2026-11-21": 1, "big-2": 2, "big-2-20261121": 2,
		"big-3": 0, "big-latest": 0, "small": 0, "": 0, "big-": 0, "bigger": 0,
	} {
		got := 0.0
		if price := p.Find(name); price != nil {
			got = price.Input
		}
		if got != want {
			t.Errorf("%q costs %v, want %v", name, got, want)
		}
	}
}

// TestMost has a model that is the most expensive for prompts, and another one for answers.
func TestMost(t *testing.T) {
	p := Prices{"reads": {Input: 9, Output: 1}, "writes": {Input: 1, Output: 9}, "long": {Input: 2, Output: 2, Over: 10_000_000, OverInput: 10, OverOutput: 1}}
	for _, c := range []struct {
		tokens Tokens
		name   string
		cost   float64
	}{
		{Tokens{Input: 1_000_000}, "reads", 9},
		{Tokens{Output: 1_000_000}, "writes", 9},
		{Tokens{Input: 20_000_000}, "long", 400},
		{Tokens{}, "long", 0},
	} {
		if name, cost := p.Most(c.tokens); name != c.name || cost != c.cost {
			t.Errorf("%+v: %s, %v", c.tokens, name, cost)
		}
	}
	if name, cost := (Prices{}).Most(Tokens{Input: 1}); name != "" || cost != 0 {
		t.Error(name, cost)
	}
}

// TestTables: each price is complete, and an answer costs more than the same prompt.
func TestTables(t *testing.T) {
	for vendor, table := range map[string]Prices{"Anthropic": Anthropic(), "OpenAI": OpenAI(), "Gemini": Gemini()} {
		if len(table) < 5 {
			t.Errorf("%s has %d models", vendor, len(table))
		}
		for name, p := range table {
			if p.Input <= 0 || p.Cached <= 0 || p.Cached >= p.Input || p.Output <= p.Input || p.Over > 0 && (p.OverInput < 1 || p.OverOutput < 1) {
				t.Errorf("%s %s: %+v", vendor, name, p)
			}
		}
	}
}
