package view

import (
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// modelSaid is an error of a model with who it was. The vendor's own errors begin
// with the vendor, which is the first part of the model's name; a recording says
// what its model said.
func modelSaid(model, text string) string {
	model = strings.TrimPrefix(model, RecordingPrefix)
	vendor, _, _ := strings.Cut(model, ":")
	if strings.HasPrefix(text, vendor+":") || strings.HasPrefix(text, "model "+model) {
		return text
	}
	return vendor + ": " + text
}

// retryLine returns what failed, which try it was, and when the next is.
func retryLine(m api.ModelRetryEvent) string {
	next := "asking again"
	if m.WaitMS > 0 {
		next = "next in " + human.Duration(time.Duration(m.WaitMS)*time.Millisecond)
	}
	return fmt.Sprintf("%s (try %d of %d), %s", modelSaid(m.Model, m.Error), m.Attempt, m.Of, next)
}

// usage reports what a hosted model was asked and what that cost.
func (p *Progress) usage(t api.Task) {
	if t.Usage.InputTokens+t.Usage.OutputTokens == 0 {
		return
	}
	name := t.Model
	if t.Models != (api.Models{}) {
		name = ModelsOf(t.Models)
	}
	p.Line("", "", usageLine(name, t.Usage))
}

func usageLine(model string, u api.Usage) string {
	calls := fmt.Sprintf("%d calls", u.Requests)
	if u.Requests == 1 {
		calls = "1 call"
	}
	cost := fmt.Sprintf("$%.4f", u.CostUSD)
	switch {
	case u.Unpriced > 0 && u.CostUSD == 0:
		cost = "cost unknown (no price is known for this model)"
	case u.Unpriced > 0:
		cost += fmt.Sprintf(" and the unknown cost of %d calls", u.Unpriced)
	}
	return fmt.Sprintf("%s: %s, %d tokens in (%d cached), %d out, %s", model, calls, u.InputTokens, u.CachedTokens, u.OutputTokens, cost)
}
