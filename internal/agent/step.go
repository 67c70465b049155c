package agent

import (
	"context"
	"fmt"

	"hortus.dev/api"
)

// Journal records the steps of a pipeline, so that another process can go through them again without executing
// them, and continue behind the last one.
type Journal interface {
	// Step executes do, which sets what result points to, and records both its result and its error. A recorded step is
	// not executed: result is set to what was recorded, and the recorded error is returned. A step whose execution was
	// cut is executed again. Names are unique in a pipeline; asked is what the step depends on, and a recorded step that
	// was asked something else is an error.
	Step(ctx context.Context, name string, asked, result any, do func(context.Context) error) error
}

// step executes a step of the pipeline, or recalls it. It reports whether it was executed.
func (p *Pipeline) step(ctx context.Context, name string, asked, result any, do func(context.Context) error) (executed bool, err error) {
	if p.cfg.Journal == nil {
		return true, do(ctx)
	}
	err = p.cfg.Journal.Step(ctx, name, asked, result, func(ctx context.Context) error {
		executed = true
		return do(ctx)
	})
	return executed, err
}

// recordedAnswer is what a role answered, as it is recorded.
type recordedAnswer[Out any] struct {
	Out   Out       `json:"out"`
	Usage api.Usage `json:"usage,omitzero"`
	// Model is the name of the one that answered: the role stays with it.
	Model string `json:"model"`
}

// recordedPass is what a journal has of an attempt beside its row.
type recordedPass struct {
	Value []byte `json:"value,omitempty"`
}

// recalled returns an attempt that ended before this process began.
func (p *Pipeline) recalled(n int, r recordedPass) (api.Attempt, error) {
	for _, a := range p.cfg.Before {
		if a.N == n && a.Result != nil {
			a.Result.Value = r.Value
			return a, nil
		}
	}
	return api.Attempt{}, api.Errorf(api.KindInternal, "attempt %d is recorded as ended, and its result is missing", n)
}

// attemptStep names the step of an attempt.
func attemptStep(n int) string { return fmt.Sprint("attempt ", n) }

// escalate moves a role to the larger model and says so. It is false where there
// is none, or the role is there already.
func (p *Pipeline) escalate(ctx context.Context, r *role, attempt int, why string) bool {
	if p.cfg.Large == nil || r.model.Name() == p.cfg.Large.Name() {
		return false
	}
	p.cfg.Emit.Emit(ctx, api.EventEscalation, api.EscalationEvent{
		Attempt: attempt, Of: p.cfg.Attempts, Role: r.name, From: r.model.Name(), To: p.cfg.Large.Name(), Why: why,
	})
	r.model = p.cfg.Large
	return true
}

// insist asks a role in a step of the pipeline, and again where its model declined or gave nothing
// usable and there is a larger one. What was used counts either way.
func insist[Out any](ctx context.Context, p *Pipeline, step string, r *role, attempt int, asked any, ask func(context.Context) (Out, api.Usage, error)) (Out, error) {
	var got recordedAnswer[Out]
	_, err := p.step(ctx, step, asked, &got, func(ctx context.Context) (err error) {
		got.Out, got.Usage, err = askUntil(ctx, p, r, attempt, ask)
		got.Model = r.model.Name()
		return err
	})
	p.rep.Usage = p.rep.Usage.Add(got.Usage)
	if p.cfg.Large != nil && got.Model != r.model.Name() && got.Model == p.cfg.Large.Name() {
		r.model = p.cfg.Large
	}
	return got.Out, err
}

// askUntil asks a role until there is an answer, or no larger model.
func askUntil[Out any](ctx context.Context, p *Pipeline, r *role, attempt int, ask func(context.Context) (Out, api.Usage, error)) (Out, api.Usage, error) {
	var all api.Usage
	for {
		out, used, err := ask(ctx)
		all = all.Add(used)
		why := ""
		switch api.KindOf(err) {
		case api.KindDeclined:
			why = "the model declined the request"
		case api.KindInvalid:
			why = "the model returned no valid " + r.output
		}
		if why == "" || ctx.Err() != nil || !p.escalate(ctx, r, attempt, why) {
			return out, all, err
		}
	}
}

// consider moves the Debugger to the larger model before it is asked about a
// failure that its own model has shown not to get further with: one that has
// no known class, or one that is there again after a correction.
func (p *Pipeline) consider(ctx context.Context, att *api.Attempt) {
	c := att.Result.Category
	if c == api.CategoryUnknown {
		p.escalate(ctx, &p.cfg.Debugger.role, att.N, "the failure has no known category")
		return
	}
	for _, before := range p.rep.Attempts[:att.N-1] {
		if before.Result != nil && before.Result.Category == c {
			p.escalate(ctx, &p.cfg.Debugger.role, att.N, fmt.Sprintf("the failure %s occurred again", c))
			return
		}
	}
}
