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
