package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/agent/model"
)

// Config is what a pipeline is made of. Planner and Coder may be nil where only
// [Pipeline.RunArtifact] is used; Debugger may be nil too, then the first
// failure is the last.
type Config struct {
	Planner  *Planner
	Coder    *Coder
	Executor *Executor
	Debugger *Debugger
	// Ready says, once the plan is known and before anything is written, what
	// keeps programs of its language from running here. It may be nil.
	Ready func(ctx context.Context, l api.Language) error
	// Known finds what fixed the failure of an attempt in earlier tasks, for the Debugger. It may be nil.
	Known func(ctx context.Context, attempt int, l api.Language, res api.ExecutionResult) []api.KnownFix
	// Large is the model that a role moves to when its own gets no further; nil
	// for none.
	Large model.Model
	// Attempts bounds the passes; zero means api.DefaultAttempts.
	Attempts int
	Emit     Emitter
	Record   Recorder
	// Journal lets the pipeline continue in another process; nil for none. Before are the attempts that ended in
	// earlier processes.
	Journal Journal
	Before  []api.Attempt
	Now     func() time.Time
}

// Recorder keeps what a pipeline did.
type Recorder interface {
	// Plan keeps the plan.
	Plan(ctx context.Context, plan api.ExecutionPlan) error
	// Attempt keeps an attempt: when it begins, and again with each part that
	// becomes known. It is called with the whole attempt each time.
	Attempt(ctx context.Context, a api.Attempt) error
	// Output opens the places for the whole output of an attempt. The pipeline
	// closes them.
	Output(attempt int) (stdout, stderr Whole, err error)
}

// Whole takes one stream of an attempt, all of it.
type Whole interface {
	io.WriteCloser
	// Path is where it can be read.
	Path() string
}

// Report is how a pipeline ended.
type Report struct {
	Outcome   api.Outcome
	Plan      *api.ExecutionPlan
	Attempts  []api.Attempt
	Diagnosis string
	Question  string
	Error     *api.Error
	Usage     api.Usage
	Receipt   *api.Receipt
	// Value is what the verified program of a request with a schema printed.
	Value json.RawMessage
}

// Pipeline turns a sentence into a verified program. It is used once.
type Pipeline struct {
	cfg   Config
	rep   Report
	steps steps
	// answers are what a person replied to earlier questions.
	answers []api.Answer
}

// New makes a pipeline.
func New(cfg Config) *Pipeline {
	if cfg.Attempts <= 0 {
		cfg.Attempts = api.DefaultAttempts
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Pipeline{cfg: cfg}
}

// Run goes from the sentence to a verdict. It always returns a report with an
// outcome: verified, needs_human, declined, canceled or failed.
func (p *Pipeline) Run(ctx context.Context, req api.PlanRequest) Report {
	p.steps.todo("plan", "code", "run")
	plan, err := insist(ctx, p, "plan", &p.cfg.Planner.role, 0, req, func(ctx context.Context) (api.ExecutionPlan, api.Usage, error) {
		return p.cfg.Planner.Plan(ctx, req)
	})
	if err != nil {
		return p.fail(ctx, err)
	}
	p.rep.Plan = &plan
	p.cfg.Emit.Emit(ctx, api.EventPlan, plan)
	if err := p.cfg.Record.Plan(ctx, plan); err != nil {
		return p.fail(ctx, err)
	}
	p.steps.done("plan")
	if p.cfg.Ready != nil {
		if err := p.cfg.Ready(ctx, plan.Language); err != nil {
			return p.fail(ctx, err)
		}
	}
	first, err := insist(ctx, p, "code", &p.cfg.Coder.role, 0, plan, func(ctx context.Context) (api.CodeArtifact, api.Usage, error) {
		return p.cfg.Coder.Code(ctx, plan)
	})
	if err != nil {
		return p.fail(ctx, err)
	}
	p.steps.done("code")
	return p.attempts(ctx, plan, first, nil)
}

// RunArtifact runs a hand-made or recorded program once, without a model.
func (p *Pipeline) RunArtifact(ctx context.Context, a api.CodeArtifact) Report {
	p.cfg.Attempts, p.cfg.Debugger = 1, nil
	p.steps.todo("run")
	return p.attempts(ctx, api.ExecutionPlan{}, a, nil)
}

func (p *Pipeline) attempts(ctx context.Context, plan api.ExecutionPlan, next api.CodeArtifact, before []api.CodeArtifact) Report {
	for n := 1; ; n++ {
		p.cfg.Emit.Emit(ctx, api.EventCode, api.AttemptEvent{Attempt: n, Of: p.cfg.Attempts, Artifact: &next})
		att := api.Attempt{N: n, Artifact: next, StartedAt: p.cfg.Now().UTC()}
		p.rep.Attempts = append(p.rep.Attempts, att)
		res, err := p.journalPass(ctx, plan, &att)
		if err != nil {
			return p.fail(ctx, err)
		}
		if res.OK {
			p.steps.done("run")
			p.rep.Outcome, p.rep.Value = api.OutcomeVerified, res.Value
			return p.rep
		}
		p.steps.done(fmt.Sprintf("attempt %d", n))
		diag, err := p.diagnose(ctx, plan, &att, before)
		if err != nil {
			return p.fail(ctx, err)
		}
		if diag.Artifact == nil || n == p.cfg.Attempts {
			return p.giveUp(diag, n)
		}
		before = append(before, next)
		next = *diag.Artifact
	}
}

// journalPass is pass as a step of the pipeline.
func (p *Pipeline) journalPass(ctx context.Context, plan api.ExecutionPlan, att *api.Attempt) (res api.ExecutionResult, err error) {
	var r recordedPass
	executed, err := p.step(ctx, attemptStep(att.N), att.Artifact, &r, func(ctx context.Context) error {
		res, err = p.pass(ctx, plan, att)
		r.Value = res.Value
		return err
	})
	if executed || err != nil {
		return res, err
	}
	if *att, err = p.recalled(att.N, r); err != nil {
		return res, err
	}
	p.rep.Attempts[len(p.rep.Attempts)-1] = *att
	return *att.Result, nil
}

// pass runs one attempt and keeps what it observed.
func (p *Pipeline) pass(ctx context.Context, plan api.ExecutionPlan, att *api.Attempt) (api.ExecutionResult, error) {
	stdout, stderr, err := p.cfg.Record.Output(att.N)
	if err != nil {
		return api.ExecutionResult{}, err
	}
	att.StdoutPath, att.StderrPath = stdout.Path(), stderr.Path()
	if err := p.keep(ctx, att); err != nil {
		stdout.Close()
		stderr.Close()
		return api.ExecutionResult{}, err
	}
	res, err := p.cfg.Executor.Execute(ctx, Pass{N: att.N, Of: p.cfg.Attempts, Artifact: att.Artifact, Checks: plan.Checks, Stdout: stdout, Stderr: stderr})
	for _, w := range []Whole{stdout, stderr} {
		if cerr := w.Close(); cerr != nil && err == nil {
			err = api.Errorf(api.KindInternal, "save the output of attempt %d: %w", att.N, cerr)
		}
	}
	att.EndedAt, att.Sandbox = p.cfg.Now().UTC(), res.Sandbox
	if err != nil {
		// What was seen before the end is kept; it is no result.
		p.keep(context.WithoutCancel(ctx), att)
		return res, err
	}
	if res.OK {
		res.Cautions = artifact.Cautions(plan, att.Artifact)
	}
	att.Result = &res
	p.cfg.Emit.Emit(ctx, api.EventResult, api.AttemptEvent{
		Attempt: att.N, Of: p.cfg.Attempts, Result: &res, Sandbox: res.Sandbox, Isolation: res.Isolation})
	return res, p.keep(ctx, att)
}

func (p *Pipeline) keep(ctx context.Context, att *api.Attempt) error {
	p.rep.Attempts[len(p.rep.Attempts)-1] = *att
	return p.cfg.Record.Attempt(ctx, *att)
}

// diagnose asks the Debugger; without one the observation is used as it is.
func (p *Pipeline) diagnose(ctx context.Context, plan api.ExecutionPlan, att *api.Attempt, before []api.CodeArtifact) (api.Diagnosis, error) {
	if p.cfg.Debugger == nil {
		return observed(*att.Result), nil
	}
	p.consider(ctx, att)
	diag, err := insist(ctx, p, fmt.Sprint("diagnosis ", att.N), &p.cfg.Debugger.role, att.N, att.Artifact, func(ctx context.Context) (api.Diagnosis, api.Usage, error) {
		known := p.known(ctx, *att)
		return p.cfg.Debugger.Diagnose(ctx, api.DebugRequest{Plan: plan, Artifact: att.Artifact, Result: *att.Result, Tried: before, Answers: p.answers, Known: known})
	})
	if kind := api.KindOf(err); kind == api.KindDeclined || kind == api.KindInvalid {
		// A Debugger without an answer leaves the failure to a person.
		why := err.Error()
		diag, err = observed(*att.Result), nil
		diag.Cause += " (debugger: " + why + ")"
	}
	if err != nil {
		return diag, err
	}
	att.Diagnosis = &diag
	p.cfg.Emit.Emit(ctx, api.EventDiagnosis, api.AttemptEvent{Attempt: att.N, Of: p.cfg.Attempts, Diagnosis: &diag})
	return diag, p.keep(ctx, att)
}

// known finds what fixed the failure of an attempt in earlier tasks.
func (p *Pipeline) known(ctx context.Context, att api.Attempt) []api.KnownFix {
	if p.cfg.Known == nil || att.Result == nil {
		return nil
	}
	return p.cfg.Known(ctx, att.N, att.Artifact.Language, *att.Result)
}

// giveUp ends with what a person needs to continue.
func (p *Pipeline) giveUp(diag api.Diagnosis, n int) Report {
	p.rep.Outcome = api.OutcomeNeedsHuman
	p.rep.Diagnosis, p.rep.Question = diag.Cause, diag.Question
	if diag.Artifact != nil {
		p.rep.Question = fmt.Sprintf("All %d attempts are used, and another correction is available", n)
		if diag.Artifact.Note != "" {
			p.rep.Question += " (" + diag.Artifact.Note + ")"
		}
		p.rep.Question += ". Should it be tried? If so, allow more attempts (--attempts)."
	}
	return p.rep
}

// fail ends on an error: of the host, of the model, or of the context.
func (p *Pipeline) fail(ctx context.Context, err error) Report {
	switch {
	case ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded:
		p.rep.Outcome = api.OutcomeCanceled
		rerr := p.cfg.Executor.Release(ctx)
		r := p.steps.receipt()
		r.ProcessesLeft = p.cfg.Executor.Left()
		p.rep.Receipt = &r
		if rerr != nil {
			p.rep.Error = api.AsError(rerr)
		}
		return p.rep
	case api.KindOf(err) == api.KindDeclined:
		p.rep.Outcome = api.OutcomeDeclined
	default:
		p.rep.Outcome = api.OutcomeFailed
	}
	p.rep.Error = api.AsError(err)
	return p.rep
}

// observed returns what happened in the words of the observation.
func observed(res api.ExecutionResult) api.Diagnosis {
	d := api.Diagnosis{Category: res.Category, Question: "What should be changed in the program?"}
	switch {
	case res.Detail != "":
		d.Cause = res.Detail
	case res.Exit.Cause != "":
		d.Cause = fmt.Sprintf("the %s phase was stopped by its %s", res.Phase, res.Exit.Cause)
	default:
		d.Cause = fmt.Sprintf("the %s phase ended with exit code %d", res.Phase, res.Exit.Code)
	}
	return d
}

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

// steps keeps what a pipeline meant to do and what it finished, for the receipt
// of a canceled task.
type steps struct {
	planned   []string
	completed []string
}

func (s *steps) todo(names ...string) { s.planned = append(s.planned, names...) }

func (s *steps) done(name string) { s.completed = append(s.completed, name) }

func (s *steps) receipt() api.Receipt {
	r := api.Receipt{Completed: append([]string{}, s.completed...), Skipped: []string{}}
	for _, name := range s.planned {
		if !slices.Contains(s.completed, name) {
			r.Skipped = append(r.Skipped, name)
		}
	}
	return r
}
