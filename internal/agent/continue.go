package agent

import (
	"context"

	"hortus.dev/api"
)

// History is the work that a pipeline continues after a person replied.
type History struct {
	Plan api.ExecutionPlan
	// Last is the attempt that the last question was about.
	Last api.Attempt
	// Tried are the programs of all attempts, Last's included.
	Tried []api.CodeArtifact
	// Answers are the questions with their replies, the oldest first.
	Answers []api.Answer
}

// Continue is Run for a request whose plan and last attempt are known: the Debugger
// gets that attempt with the replies and writes the first program.
func (p *Pipeline) Continue(ctx context.Context, h History) Report {
	p.steps.todo("debug", "run")
	p.rep.Plan, p.answers = &h.Plan, h.Answers
	p.cfg.Emit.Emit(ctx, api.EventPlan, h.Plan)
	if err := p.cfg.Record.Plan(ctx, h.Plan); err != nil {
		return p.fail(ctx, err)
	}
	if p.cfg.Ready != nil {
		if err := p.cfg.Ready(ctx, h.Plan.Language); err != nil {
			return p.fail(ctx, err)
		}
	}
	if h.Last.Result == nil {
		return p.attempts(ctx, h.Plan, h.Last.Artifact, nil)
	}
	diag, err := insist(ctx, p, "diagnosis 0", &p.cfg.Debugger.role, 0, h.Last.Artifact, func(ctx context.Context) (api.Diagnosis, api.Usage, error) {
		known := p.known(ctx, h.Last)
		return p.cfg.Debugger.Diagnose(ctx, api.DebugRequest{
			Plan: h.Plan, Artifact: h.Last.Artifact, Result: *h.Last.Result, Tried: h.Tried, Answers: h.Answers, Known: known})
	})
	if err != nil {
		return p.fail(ctx, err)
	}
	p.steps.done("debug")
	p.cfg.Emit.Emit(ctx, api.EventDiagnosis, api.AttemptEvent{Of: p.cfg.Attempts, Diagnosis: &diag})
	if diag.Artifact == nil {
		return p.giveUp(diag, 0)
	}
	return p.attempts(ctx, h.Plan, *diag.Artifact, h.Tried)
}
