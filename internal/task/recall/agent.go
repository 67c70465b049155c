package recall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/durable"
)

// cutCall is what the agent is told of a call that was cut. It is not made again: nobody knows how far it came.
const cutCall = "[interrupted by a restart of the platform: this call did not end, and its effects may be partial. " +
	"The files of /workspace are as they were; programs that ran in the background have ended. Look at the files before you continue.]"

// maxHeard bounds what is kept of an answer that failed, in bytes.
const maxHeard = 1 << 20

// Agent records what the models and the tools of an agent answer. Only calls of tools that read are made by several
// goroutines.
type Agent struct {
	j *Journal
	// life is the context of the task: a step that ended with it was cut. One whose own time was over, was not.
	life  context.Context
	again []string
	asked int
	// expired is true if a step after the newest question to a model, or that question, ended because its own time was over.
	expired atomic.Bool
}

// NewAgent makes the record of an agent. life is the context of its work, and again lists the tools whose calls are
// made again after a cut: they change nothing.
func NewAgent(j *Journal, life context.Context, again []string) *Agent {
	return &Agent{j: j, life: life, again: again}
}

// spoken is an answer of a model as it is recorded.
type spoken struct {
	Text  string           `json:"text,omitempty"`
	Calls []answerCall     `json:"calls,omitempty"`
	Stop  model.StopReason `json:"stop,omitempty"`
	Usage api.Usage        `json:"usage,omitzero"`
	// Said is what came of an answer that failed.
	Said    string        `json:"said,omitempty"`
	Retries []answerRetry `json:"retries,omitempty"`
	Expired bool          `json:"expired,omitempty"`
}

type answerCall struct{ ID, Name, Input string }

type answerRetry struct {
	Attempt, Of int
	WaitMS      int64
	Error       string
}

// recorded is a model whose answers are recorded.
type recorded struct {
	model.Model
	j *Agent
}

// Model returns a model that records its answers; nil for nil.
func (j *Agent) Model(m model.Model) model.Model {
	if m == nil || j.j.Rec == nil {
		return m
	}
	return recorded{m, j}
}

// Unwrap returns the model that answers.
func (m recorded) Unwrap() model.Model { return m.Model }

// Generate implements model.Model.
func (m recorded) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	j := m.j
	j.asked++
	executed := false
	a, err := Record(j.life, j.j, fmt.Sprint("model ", j.asked), digest(req), func(context.Context, durable.Try) (spoken, error) {
		executed = true
		return m.ask(ctx, req, deltas)
	})
	if j.expired.Store(a.Expired); !executed && deltas != nil {
		for _, r := range a.Retries {
			deltas(model.Delta{Retry: &model.Retry{Attempt: r.Attempt, Of: r.Of, Wait: time.Duration(r.WaitMS) * time.Millisecond, Err: api.Errorf(api.KindUnavailable, "%s", r.Error)}})
		}
		if a.Said != "" {
			deltas(model.Delta{Text: a.Said})
		}
	}
	resp := model.Response{Message: model.Message{Role: model.RoleAssistant, Text: a.Text}, Stop: a.Stop, Usage: a.Usage}
	for _, c := range a.Calls {
		resp.Message.Calls = append(resp.Message.Calls, model.Call{ID: c.ID, Name: c.Name, Input: json.RawMessage(c.Input)})
	}
	return resp, err
}

// ask asks the model.
func (m recorded) ask(ctx context.Context, req model.Request, deltas func(model.Delta)) (a spoken, err error) {
	var said strings.Builder
	resp, err := m.Model.Generate(ctx, req, func(d model.Delta) {
		if r := d.Retry; r != nil {
			said.Reset()
			a.Retries = append(a.Retries, answerRetry{r.Attempt, r.Of, r.Wait.Milliseconds(), r.Err.Error()})
		}
		if said.Len() < maxHeard {
			said.WriteString(d.Text)
		}
		if deltas != nil {
			deltas(d)
		}
	})
	a.Text, a.Stop, a.Usage = resp.Message.Text, resp.Stop, resp.Usage
	for _, c := range resp.Message.Calls {
		a.Calls = append(a.Calls, answerCall{c.ID, c.Name, string(c.Input)})
	}
	if err != nil {
		a.Said, a.Expired = said.String(), ctx.Err() != nil
	}
	return a, err
}

// digest is a digest of what a model is asked, without what is the same in all requests of a build.
func digest(req model.Request) []byte {
	type message struct {
		Role, Text, CallID string
		Failed             bool
		Calls              []answerCall
	}
	var all []message
	for _, m := range req.Messages {
		d := message{Role: string(m.Role), Text: m.Text, CallID: m.CallID, Failed: m.Failed}
		for _, c := range m.Calls {
			d.Calls = append(d.Calls, answerCall{c.ID, c.Name, string(c.Input)})
		}
		all = append(all, d)
	}
	return durable.Digest(struct {
		All []message
		Max int
	}{all, req.MaxTokens})
}

// result is a result of a tool as it is recorded.
type result struct {
	loop.Result
	Expired bool
}

// Do returns what makes the calls of a loop and records their results; nil if nothing is recorded.
func (j *Agent) Do() func(ctx context.Context, n int, t loop.Tool, input json.RawMessage) (loop.Result, error) {
	if j.j.Rec == nil {
		return nil
	}
	return func(ctx context.Context, n int, t loop.Tool, input json.RawMessage) (loop.Result, error) {
		name := t.Spec().Name
		if name == loop.ResearchTool {
			// What its models and tools answer is recorded, see [Agent.Question], so it is done again in full, and its
			// transcript is whole.
			return t.Call(ctx, input)
		}
		res, err := Record(j.life, j.j, fmt.Sprint("tool ", n), durable.Digest([]string{name, string(input)}), func(_ context.Context, try durable.Try) (result, error) {
			if try.Cut && !slices.Contains(j.again, name) {
				return result{Result: loop.Result{Text: cutCall, Failed: true, Short: "interrupted by a restart"}}, nil
			}
			res, err := t.Call(ctx, input)
			return result{res, err != nil && ctx.Err() != nil}, err
		})
		if res.Expired {
			j.expired.Store(true)
		}
		return res.Result, err
	}
}

// Ended corrects the report of a loop whose last step, remembered, ended because its own time was over.
func (j *Agent) Ended(rep loop.Report) loop.Report {
	if j.expired.Load() && (rep.Stop == api.StopModel || rep.Stop == api.StopSandbox) {
		rep.Stop, rep.Why, rep.Err = api.StopWall, "time budget exhausted", nil
	}
	return rep
}

// remembering takes the facts of a loop that goes through what is recorded: those that were told before are not told
// again. It is for one goroutine.
type remembering struct {
	loop.Emitter
	told map[api.EventType]int
	run  *durable.Run
}

// Emit implements loop.Emitter.
func (m remembering) Emit(ctx context.Context, t api.EventType, data any) {
	if m.run.Remembers() && m.told[t] > 0 {
		m.told[t]--
		return
	}
	m.Emitter.Emit(ctx, t, data)
}
