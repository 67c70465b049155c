package contest

import (
	"context"
	"errors"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/task/choice"
)

// scored says what a candidate came to that has ended.
func scored(r *api.Candidate, s Standing, how Entry, cause error) {
	r.State, r.Outcome, r.Passed, r.MS = api.CandidateEnded, string(s.Outcome), s.Outcome == api.OutcomeVerified, s.MS
	r.Files, r.Rounds, r.Workspace = len(s.Result.Files), len(s.Result.Rounds), string(s.Result.Workspace)
	r.Lines, r.Steps = 0, 0
	for _, f := range s.Result.Files {
		r.Lines += f.Added + f.Deleted
	}
	for _, x := range s.Result.Rounds {
		r.Steps += x.Steps
	}
	r.Tokens, r.CostUSD, r.Unpriced = s.Usage.InputTokens+s.Usage.OutputTokens, s.Usage.CostUSD, s.Usage.Unpriced
	r.Regressions, r.Failing, r.Judged = 0, 0, false
	if n := len(s.Result.Rounds); n > 0 {
		r.Judged = s.Result.Rounds[n-1].Gate != nil
		for _, g := range []*api.Gate{s.Result.Rounds[n-1].Gate, s.Result.Rounds[n-1].Original} {
			if g != nil && g.Tests != nil {
				r.Regressions, r.Failing = max(r.Regressions, g.Tests.Regressions), max(r.Failing, g.Tests.Failed)
			}
		}
	}
	if r.Why = s.Why; !r.Passed && errors.Is(cause, errPassed) {
		r.Why = "ended because another candidate passed"
	}
	if how != Worked && len(s.Result.Rounds) == 0 && r.Why == "" {
		r.Why = "it did not begin"
	}
}

// Score is what decides about a candidate.
func Score(r api.Candidate) choice.Score {
	s := choice.Score{
		N: r.N, Changed: r.Files > 0, Passed: r.Passed, Judged: r.Judged, Regressions: r.Regressions, Failing: r.Failing,
		Lines: r.Lines, CostUSD: r.CostUSD, Tokens: r.Tokens,
	}
	switch r.Lint {
	case "passed":
		s.Lint = choice.LintPassed
	case "failed":
		s.Lint = choice.LintFailed
	}
	return s
}

// rank returns the candidates, the best first.
func rank(rows []api.Candidate) []choice.Ranked {
	scores := make([]choice.Score, len(rows))
	for i, r := range rows {
		scores[i] = Score(r)
	}
	return choice.Rank(scores)
}

// Choose says of each candidate whether it is the best one, and why. It returns the number of that one.
func (c *Contest) Choose() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	order := rank(c.rows)
	for i, o := range order {
		r := &c.rows[o.N-1]
		r.Chosen = i == 0
		switch {
		case r.Why == "" || r.Chosen || r.Passed:
			r.Why = o.Why
		case !order[0].Passed: // it did not lose by its gate
			r.Why = o.Why + ". " + r.Why
		}
	}
	return order[0].N
}

// Settle stores what is known of the candidates after the choice.
func (c *Contest) Settle(ctx context.Context, rows []api.Candidate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = slices.Clone(rows)
	return c.store(ctx)
}
