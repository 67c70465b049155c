package loop

import (
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
)

const (
	// lastSteps is when the end of the steps is announced.
	lastSteps = 3
	// nearly is the part of any other budget after which its end is.
	nearly = 0.9
)

// tokens are what is counted against the budget.
func (l *Loop) tokens() int64 { return l.used.InputTokens + l.used.OutputTokens }

// wallLeft is what is left of the wall clock, at least 1 ns.
func (l *Loop) wallLeft() time.Duration {
	return max(1, time.Duration(l.cfg.Budget.WallMS)*time.Millisecond-l.cfg.Now().Sub(l.start))
}

// Left is what is left of the budgets. A field without a bound is 0, and one that
// is used up is below 0.
func (l *Loop) Left() api.Budget {
	b := l.cfg.Budget
	out := api.Budget{}
	if b.Steps > 0 {
		out.Steps = left(b.Steps, l.steps)
	}
	if b.Tokens > 0 {
		out.Tokens = left(b.Tokens, l.tokens())
	}
	if b.CostUSD > 0 {
		if out.CostUSD = b.CostUSD - l.used.CostUSD; out.CostUSD <= 0 {
			out.CostUSD = -1
		}
	}
	if b.WallMS > 0 {
		out.WallMS = left(b.WallMS, l.cfg.Now().Sub(l.start).Milliseconds())
	}
	if b.OutputBytes > 0 {
		out.OutputBytes = left(b.OutputBytes, l.output)
	}
	return out
}

func left[N int | int64](budget, used N) N {
	if used >= budget {
		return -1
	}
	return budget - used
}

// spent stops where a budget is used up, or a context ended. Steps are answers:
// the calls of the last one still run.
func (r *run) spent(asking bool) bool {
	if r.gone() {
		return true
	}
	b, left := r.cfg.Budget, r.Left()
	switch {
	case r.unpriced():
	case asking && left.Steps < 0:
		r.stop(api.StopSteps, nil, "step budget exhausted: %d steps", b.Steps)
	case left.Tokens < 0:
		r.stop(api.StopTokens, nil, "token budget exhausted: %d of %d tokens used", r.tokens(), b.Tokens)
	case left.CostUSD < 0:
		r.stop(api.StopCost, nil, "cost budget exhausted: $%.4f of $%.4f used", r.used.CostUSD, b.CostUSD)
	case left.WallMS < 0:
		r.stop(api.StopWall, nil, "time budget exhausted: %s", time.Duration(b.WallMS)*time.Millisecond)
	case left.OutputBytes < 0:
		r.stop(api.StopOutput, nil, "command output budget exhausted: %d bytes printed, the budget is %d", r.output, b.OutputBytes)
	}
	return r.ended()
}

// unpriced stops where there is a bound on cost and a call whose cost nobody knows.
func (r *run) unpriced() bool {
	if r.cfg.Budget.CostUSD <= 0 || r.used.Unpriced == 0 {
		return false
	}
	name := r.model.Name()
	if r.cfg.Small != nil {
		name += " or " + r.cfg.Small.Name()
	}
	r.stop(api.StopCost, nil, "the price of model %s is unknown, so a cost limit of $%.2f cannot be enforced", name, r.cfg.Budget.CostUSD)
	return true
}

// announce informs the model once about each budget that is near its end.
func (r *run) announce() {
	b := r.cfg.Budget
	var near []string
	say := func(name string, is bool, format string, args ...any) {
		if is && !r.told[name] {
			r.told[name] = true
			near = append(near, fmt.Sprintf(format, args...))
		}
	}
	most := func(used, of float64) bool { return of > 0 && used >= nearly*of }
	stepsLeft := b.Steps - r.steps
	say("steps", b.Steps > lastSteps && stepsLeft <= lastSteps, "%d answers remain", stepsLeft)
	say("tokens", most(float64(r.tokens()), float64(b.Tokens)), "90 %% of the tokens are used")
	say("cost", most(r.used.CostUSD, b.CostUSD), "90 %% of the cost limit is used")
	say("wall", most(float64(r.cfg.Now().Sub(r.start).Milliseconds()), float64(b.WallMS)), "90 %% of the time is used")
	say("output", most(float64(r.output), float64(b.OutputBytes)), "90 %% of the command output limit is used")
	if len(near) > 0 {
		r.notice("The budget is nearly exhausted: " + strings.Join(near, "; ") +
			". Leave the files in a working state now. Then call finish. Say in the summary what is done and what is not.")
	}
}
