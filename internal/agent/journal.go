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

// answered is what a role answered, as it is recorded.
type answered[Out any] struct {
	Out   Out       `json:"out"`
	Usage api.Usage `json:"usage,omitzero"`
	// Model is the name of the one that answered: the role stays with it.
	Model string `json:"model"`
}

// ran is what a journal has of an attempt beside its row.
type ran struct {
	Value []byte `json:"value,omitempty"`
}

// recalled returns an attempt that ended before this process began.
func (p *Pipeline) recalled(n int, r ran) (api.Attempt, error) {
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
