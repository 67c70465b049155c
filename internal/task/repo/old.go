package repo

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// onlyOld reports whether nothing keeps a round from passing but tests that failed before the work too, as far as its gates have run.
// A seeded defect must be found by the exit code, so a task with one has no such round.
func (j *gates) onlyOld(r *api.Round) bool {
	req := j.attempt.project.req
	if req.Strict || req.Mutant != "" || r.Gate == nil {
		return false
	}
	old := func(g *api.Gate) bool { return g.Tests != nil && g.Tests.OldOnly }
	if r.Original == nil || r.Original.Passed || req.TestsMayChange {
		return !r.Gate.Passed && old(r.Gate)
	}
	return (r.Gate.Passed || old(r.Gate)) && old(r.Original)
}

// shown reports whether a test shows what the change of a round does: one that failed before passes now, or a new one fails without
// the change. Otherwise the old failures may be all that the task is about.
func (j *gates) shown(r *api.Round) bool {
	g := r.Gate
	if r.Original != nil && !j.attempt.project.req.TestsMayChange {
		g = r.Original
	}
	w := r.Without
	return g.Tests != nil && g.Tests.Fixed > 0 || w != nil && !w.Passed && w.Exit.Cause == "" && w.Tests != nil && w.Tests.New > 0
}

// refers is the gate that a message about a round is about; nil if it failed in another way.
func (j *gates) refers(r *api.Round) *api.Gate {
	switch {
	case r.Gate == nil || !r.Gate.Passed:
		return r.Gate
	case r.Original != nil && !r.Original.Passed && !j.attempt.project.req.TestsMayChange:
		return r.Original
	}
	return nil
}

// named is the part of a message that names the failures that were there before the work.
func (w *attempt) named(r *api.Round) string {
	if g := w.gates.refers(r); g != nil && g.Tests != nil && !w.project.req.Strict {
		return loop.FailedBefore(g.Tests.Old, g.Tests.OldCount)
	}
	return ""
}

// leaves reports whether the agent leaves the failures that were there before the work: nothing else failed, a test shows what the
// change does, and the agent received their names after the round before, and has changed nothing since.
func (w *attempt) leaves(ctx context.Context, r *api.Round, rep loop.Report) bool {
	if r.N < 2 || !goesOn(rep.Stop) || rep.Finish != nil && rep.Finish.Blocked != "" || w.valueMissing(rep) {
		return false
	}
	before := &w.res.Rounds[r.N-2]
	if r.Head == "" || before.Head == "" || !w.gates.onlyOld(r) || !w.gates.onlyOld(before) || !w.gates.shown(r) {
		return false
	}
	told, now := w.gates.refers(before).Tests, w.gates.refers(r).Tests
	if told.OldCount != now.OldCount || !slices.Equal(told.Old, now.Old) {
		return false
	}
	stats, err := w.project.repo.Stat(ctx, before.Head, r.Head)
	return err == nil && len(stats) == 0
}

// concede lets the gates of the last round pass that only old failures kept from it. What is recorded stays as it was.
func concede(rounds []api.Round) []api.Round {
	rounds = slices.Clone(rounds)
	r := &rounds[len(rounds)-1]
	for _, g := range []**api.Gate{&r.Gate, &r.Original} {
		if *g != nil && (*g).Tests != nil && (*g).Tests.OldOnly {
			passed := **g
			passed.Passed = true
			*g = &passed
		}
	}
	return rounds
}
