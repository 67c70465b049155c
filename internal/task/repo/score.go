package repo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/api/best"
	"hortus.dev/internal/task/choice"
)

// scored says what a candidate came to that has ended.
func (e *entrant) scored(r *best.Candidate, began bool, cause error) {
	r.State, r.Outcome, r.Passed, r.MS = best.Ended, string(e.end.Outcome), e.end.Outcome == api.OutcomeVerified, e.ms
	r.Files, r.Rounds, r.Workspace = len(e.res.Files), len(e.res.Rounds), string(e.res.Workspace)
	r.Lines, r.Steps = 0, 0
	for _, f := range e.res.Files {
		r.Lines += f.Added + f.Deleted
	}
	for _, x := range e.res.Rounds {
		r.Steps += x.Steps
	}
	r.Tokens, r.CostUSD, r.Unpriced = e.usage.InputTokens+e.usage.OutputTokens, e.usage.CostUSD, e.usage.Unpriced
	r.Regressions, r.Failing = 0, 0
	if n := len(e.res.Rounds); n > 0 {
		for _, g := range []*api.Gate{e.res.Rounds[n-1].Gate, e.res.Rounds[n-1].Original} {
			if g != nil && g.Tests != nil {
				r.Regressions, r.Failing = max(r.Regressions, g.Tests.Regressions), max(r.Failing, g.Tests.Failed)
			}
		}
	}
	switch {
	case !r.Passed && errors.Is(cause, errPassed):
		r.Why = "ended because another candidate passed"
	case e.end.Error != nil:
		r.Why = bounded(e.end.Error.Message, maxSummary)
	case !r.Passed:
		r.Why = bounded(e.end.Diagnosis, maxSummary)
	}
	if !began && len(e.res.Rounds) == 0 && r.Why == "" {
		r.Why = "it did not begin"
	}
}

// scoreOf is what decides about a candidate.
func scoreOf(r best.Candidate) choice.Score {
	s := choice.Score{
		N: r.N, Changed: r.Files > 0, Passed: r.Passed, Regressions: r.Regressions, Failing: r.Failing,
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

// ownDir makes the folder of a candidate.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return api.Errorf(api.KindInternal, "create the directory of a candidate: %w", err)
	}
	return nil
}

// publish makes the files of a chosen candidate those of its task: the outputs of its gates and its transcript, which
// stay its own too. It may be called again.
func publish(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Link(path, at)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindInternal, "keep the outputs of the chosen candidate: %w", err)
	}
	return nil
}
