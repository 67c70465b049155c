package journal

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
)

// cutCall is what the agent is shown of a call that was cut. It is not made again: nobody knows how far it came.
const cutCall = "[interrupted by a restart of the platform: this call did not end, and its effects may be partial. " +
	"The files of /workspace are as they were; programs that ran in the background have ended. Calls of the same answer after it were not made. Look at the files before you continue.]"

// maxHeard bounds what is kept of an answer that failed, in bytes.
const maxHeard = 1 << 20

// Agent records what the models and the tools of an agent answer. Only calls of tools that read are made by several
// goroutines.
type Agent struct {
	run *Run
	// life is the context of the task: a step that ended with it was cut. One whose own time was over, was not.
	life  context.Context
	again []string
	asked int
	// expired is true if a step after the newest question to a model, or that question, ended because its own time was over.
	expired atomic.Bool
}

// NewAgent makes the record of an agent. life is the context of its work, and again lists the tools whose calls are
// made again after a cut: they change nothing.
func NewAgent(run *Run, life context.Context, again []string) *Agent {
	return &Agent{run: run, life: life, again: again}
}

// answer is an answer of a model as it is recorded.
type answer struct {
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

// recordingModel is a model whose answers are recorded.
type recordingModel struct {
	model.Model
	agent *Agent
}

// Model returns a model that records its answers; nil for nil.
func (a *Agent) Model(m model.Model) model.Model {
	if m == nil || !a.run.Records() {
		return m
	}
	return recordingModel{m, a}
}

// Unwrap returns the model that answers.
func (m recordingModel) Unwrap() model.Model { return m.Model }

// Generate implements model.Model.
func (m recordingModel) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	a := m.agent
	a.asked++
	executed := false
	got, err := Do(a.life, a.run, fmt.Sprint("model ", a.asked), requestDigest(req), func(context.Context, Try) (answer, error) {
		executed = true
		return m.ask(ctx, req, deltas)
	})
	if a.expired.Store(got.Expired); !executed && deltas != nil {
		for _, r := range got.Retries {
			deltas(model.Delta{Retry: &model.Retry{Attempt: r.Attempt, Of: r.Of, Wait: time.Duration(r.WaitMS) * time.Millisecond, Err: api.Errorf(api.KindUnavailable, "%s", r.Error)}})
		}
		if got.Said != "" {
			deltas(model.Delta{Text: got.Said})
		}
	}
	resp := model.Response{Message: model.Message{Role: model.RoleAssistant, Text: got.Text}, Stop: got.Stop, Usage: got.Usage}
	for _, c := range got.Calls {
		resp.Message.Calls = append(resp.Message.Calls, model.Call{ID: c.ID, Name: c.Name, Input: json.RawMessage(c.Input)})
	}
	return resp, err
}

// ask asks the model.
func (m recordingModel) ask(ctx context.Context, req model.Request, deltas func(model.Delta)) (a answer, err error) {
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

// requestDigest is a digest of what a model is asked, without what is the same in all requests of a build.
func requestDigest(req model.Request) []byte {
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
	return Digest(struct {
		All []message
		Max int
	}{all, req.MaxTokens})
}

// toolResult is a result of a tool as it is recorded.
type toolResult struct {
	loop.Result
	Expired bool
}

// Do returns what makes the calls of a loop and records their results; nil if nothing is recorded.
func (a *Agent) Do() func(ctx context.Context, n int, t loop.Tool, input json.RawMessage) (loop.Result, error) {
	if !a.run.Records() {
		return nil
	}
	return func(ctx context.Context, n int, t loop.Tool, input json.RawMessage) (loop.Result, error) {
		name := t.Spec().Name
		if name == loop.ResearchTool {
			// What its models and tools answer is recorded, see [Agent.Question], so it is done again in full, and its
			// transcript is whole.
			return t.Call(ctx, input)
		}
		res, err := Do(a.life, a.run, fmt.Sprint("tool ", n), Digest([]string{name, string(input)}), func(_ context.Context, try Try) (toolResult, error) {
			if try.Cut && !slices.Contains(a.again, name) {
				return toolResult{Result: loop.Result{Text: cutCall, Failed: true, Cut: true, Short: "interrupted by a restart"}}, nil
			}
			res, err := t.Call(ctx, input)
			return toolResult{res, err != nil && ctx.Err() != nil}, err
		})
		if res.Expired {
			a.expired.Store(true)
		}
		return res.Result, err
	}
}

// Ended corrects the report of a loop whose last step, remembered, ended because its own time was over.
func (a *Agent) Ended(rep loop.Report) loop.Report {
	if a.expired.Load() && (rep.Stop == api.StopModel || rep.Stop == api.StopSandbox) {
		rep.Stop, rep.Why, rep.Err = api.StopWall, "time budget exhausted", nil
	}
	return rep
}

// onceEmitter emits the events of a loop that goes through what is recorded: those that were emitted before are left out. It is for one
// goroutine.
type onceEmitter struct {
	loop.Emitter
	earlier map[api.EventType]int
	run     *Run
}

// Emit implements loop.Emitter.
func (m onceEmitter) Emit(ctx context.Context, t api.EventType, data any) {
	if m.run.Remembers() && m.earlier[t] > 0 {
		m.earlier[t]--
		return
	}
	m.Emitter.Emit(ctx, t, data)
}

// Question is the record of a sub-agent: a part of that of its agent, with steps and a clock of its own, because several
// sub-agents work at the same time.
type Question struct {
	// Run is that part.
	Run   *Run
	agent *Agent // of the sub-agent
	of    *Agent
}

// Question begins the record of question n. It is called once for each, in the order of the calls. The End of what For returns ends it.
func (a *Agent) Question(n int) Question {
	name := fmt.Sprintf("%s %d", loop.ResearchTool, n)
	part := a.run.Part(name)
	return Question{part, NewAgent(part, a.life, a.again), a}
}

// For returns what the sub-agent works with: its answers are recorded, and its facts are reported to an emitter, once.
func (q Question) For(to loop.Emitter) loop.Question {
	return loop.Question{Model: q.model, Do: q.agent.Do(), Emit: q.Run.Once(to), Now: q.Run.Now, End: q.end}
}

// model records the answers of a model here and not in the record of the agent.
func (q Question) model(m model.Model) model.Model {
	if r, ok := m.(recordingModel); ok {
		m = r.Model
	}
	return q.agent.Model(m)
}

// end lets the agent continue at the time at which the question ended, with what it has to know of it.
func (q Question) end() {
	q.of.run.Join(q.Run)
	if q.agent.expired.Load() {
		q.of.expired.Store(true)
	}
	if err := q.Run.Damage(); err != nil {
		q.of.run.Spoil(err)
	}
}

// CutTurn is what an agent that is a program learns when its turn was cut: it begins again, in a new conversation over the
// same files.
const CutTurn = "An earlier attempt at this work was interrupted by a restart of the platform. Its effects may be partial. " +
	"The files of /workspace are as they were. Look at them before you continue.\n\n"

// Report is how the agent's part of a round ended: a loop.Report as plain data.
type Report struct {
	Stop      api.StopReason
	Why       string `json:",omitempty"`
	Steps     int
	Usage     api.Usage
	Model     string
	Text      string       `json:",omitempty"`
	Finish    *loop.Finish `json:",omitempty"`
	Err       *api.Error   `json:",omitempty"`
	Completed []string     `json:",omitempty"`
	Skipped   []string     `json:",omitempty"`
}

// ReportOf returns a report as plain data.
func ReportOf(r loop.Report) Report {
	return Report{r.Stop, r.Why, r.Steps, r.Usage, r.Model, r.Text, r.Finish, api.AsError(r.Err), r.Completed, r.Skipped}
}

// Loop returns the report of the loop.
func (r Report) Loop() loop.Report {
	rep := loop.Report{Stop: r.Stop, Why: r.Why, Steps: r.Steps, Usage: r.Usage, Model: r.Model, Text: r.Text, Finish: r.Finish, Completed: r.Completed, Skipped: r.Skipped}
	if r.Err != nil {
		rep.Err = r.Err
	}
	return rep
}
