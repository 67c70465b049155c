package turn

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// Bounds of one question to a model.
const (
	// Timeout bounds one call, with all tries of a model that tries again.
	Timeout = 15 * time.Minute
	// Most is how many answers that cannot be used are taken in a row: each but
	// the last is sent back with what is wrong.
	Most = 3
)

// Emitter takes the facts of a call as they happen, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}

// Asker asks a model on behalf of a role.
type Asker struct {
	// Role names who asks: "planner", "agent".
	Role  string
	Model model.Model
	Emit  Emitter
}

// Call asks once and tells it: api.EventModelRetry for each try that failed and is
// made again, and api.EventModel at the end. Deltas, when not nil, gets every
// piece of the answer as it comes. Beside an error the response tells what was
// used. KindTimeout after [Timeout].
func (a Asker) Call(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	start := time.Now()
	resp, err := a.Model.Generate(limited, req, func(d model.Delta) {
		if d.Retry != nil {
			a.Again(ctx, *d.Retry)
		}
		if deltas != nil {
			deltas(d)
		}
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = api.Errorf(api.KindTimeout, "model %s gave no complete answer within %s", a.Model.Name(), Timeout).
			WithHint("Retry later, or choose another model with --model.")
	}
	ev := api.ModelEvent{Role: a.Role, Model: a.Model.Name(), MS: time.Since(start).Milliseconds(), Usage: resp.Usage}
	if err != nil {
		ev.Error = err.Error()
	}
	a.Emit.Emit(ctx, api.EventModel, ev)
	return resp, err
}

// Again reports that the model is asked again.
func (a Asker) Again(ctx context.Context, why model.Retry) {
	a.Emit.Emit(ctx, api.EventModelRetry, api.ModelRetryEvent{
		Role: a.Role, Model: a.Model.Name(), Attempt: why.Attempt, Of: why.Of, WaitMS: why.Wait.Milliseconds(), Error: why.Err.Error(),
	})
}

// Useless counts the answers in a row that could not be used.
type Useless struct{ n int }

// Count adds an answer that could not be used for the reason of err. It is true
// where the model is to be asked again, which it tells, and false after [Most].
func (u *Useless) Count(ctx context.Context, a Asker, err error) bool {
	if u.n++; u.n >= Most {
		return false
	}
	a.Again(ctx, model.Retry{Attempt: u.n, Of: Most, Err: err})
	return true
}

// Reset begins anew, after an answer that could be used.
func (u *Useless) Reset() { u.n = 0 }
