package best

import (
	"context"
	"errors"
	"slices"

	"hortus.dev/api"
)

// scored says what a candidate came to that has ended.
func scored(r *api.Candidate, s Result, how Entry, cause error) {
	r.State, r.Outcome, r.Passed, r.MS = api.CandidateEnded, string(s.Outcome), s.Outcome == api.OutcomeVerified, s.MS
	r.Files, r.Rounds, r.Workspace = len(s.Repo.Files), len(s.Repo.Rounds), string(s.Repo.Workspace)
	r.Lines, r.Steps = 0, 0
	for _, f := range s.Repo.Files {
		r.Lines += f.Added + f.Deleted
	}
	for _, x := range s.Repo.Rounds {
		r.Steps += x.Steps
	}
	r.Tokens, r.CostUSD, r.Unpriced = s.Usage.InputTokens+s.Usage.OutputTokens, s.Usage.CostUSD, s.Usage.Unpriced
	r.Regressions, r.Failing, r.Judged = 0, 0, false
	if n := len(s.Repo.Rounds); n > 0 {
		r.Judged = s.Repo.Rounds[n-1].Gate != nil
		for _, g := range []*api.Gate{s.Repo.Rounds[n-1].Gate, s.Repo.Rounds[n-1].Original} {
			if g != nil && g.Tests != nil {
				r.Regressions, r.Failing = max(r.Regressions, g.Tests.Regressions), max(r.Failing, g.Tests.Failed)
			}
		}
	}
	if r.Why = s.Why; !r.Passed && errors.Is(cause, errPassed) {
		r.Why = "ended because another candidate passed"
	}
	if how != Worked && len(s.Repo.Rounds) == 0 && r.Why == "" {
		r.Why = "it did not begin"
	}
}

// Score is what decides about a candidate.
func ScoreOf(r api.Candidate) Score {
	s := Score{
		N: r.N, Changed: r.Files > 0, Passed: r.Passed, Judged: r.Judged, Regressions: r.Regressions, Failing: r.Failing,
		Lines: r.Lines, CostUSD: r.CostUSD, Tokens: r.Tokens,
	}
	switch r.Lint {
	case "passed":
		s.Lint = LintPassed
	case "failed":
		s.Lint = LintFailed
	}
	return s
}

// rank returns the candidates, the best first.
func rank(rows []api.Candidate) []Standing {
	scores := make([]Score, len(rows))
	for i, r := range rows {
		scores[i] = ScoreOf(r)
	}
	return Rank(scores)
}

// Choose says of each candidate whether it is the best one, and why. It returns the number of that one.
func (c *Candidates) Choose() int {
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
func (c *Candidates) Settle(ctx context.Context, rows []api.Candidate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = slices.Clone(rows)
	return c.store(ctx)
}
