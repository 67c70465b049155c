package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/turn"
	"hortus.dev/internal/platform/language"
)

// Planner reads the sentence and says what is to be made. It is the only role
// that sees the sentence.
type Planner struct{ role role }

// NewPlanner makes the role on a model.
func NewPlanner(m model.Model, emit Emitter) *Planner {
	return &Planner{role{name: "planner", output: "ExecutionPlan", schema: schemaOf(api.ExecutionPlan{}), model: m, emit: emit,
		system: plannerPrompt}}
}

// Plan makes the plan. A model that cannot do what was asked gives KindDeclined.
func (p *Planner) Plan(ctx context.Context, req api.PlanRequest) (api.ExecutionPlan, api.Usage, error) {
	return ask(ctx, p.role, req, func(plan *api.ExecutionPlan) error {
		plan.Schema = nil
		if len(req.Schema) > 0 {
			plan.Schema, plan.Output = req.Schema, api.OutputJSON
			plan.Task += " (prints exactly one JSON value, which is valid for the JSON Schema in the plan's field \"schema\")"
		}
		l, _ := language.Of(plan.Language)
		plan.Compile, plan.Run, plan.Inputs = l.Compile, l.Run, req.Files
		return artifact.ValidatePlan(*plan)
	})
}

// Coder writes the program from the plan.
type Coder struct {
	role         role
	install, run time.Duration
}

// NewCoder makes the role on a model; install and run are the longest timeouts
// that an artifact of it may ask for.
func NewCoder(m model.Model, emit Emitter, install, run time.Duration) *Coder {
	return &Coder{install: install, run: run, role: role{name: "coder", output: "CodeArtifact", schema: schemaOf(api.CodeArtifact{}), model: m, emit: emit,
		system: coderPrompt}}
}

// Code writes the first version.
func (c *Coder) Code(ctx context.Context, plan api.ExecutionPlan) (api.CodeArtifact, api.Usage, error) {
	a, used, err := ask(ctx, c.role, plan, func(a *api.CodeArtifact) error {
		complete(a, plan)
		return checkArtifact(*a, plan, c.install, c.run)
	})
	return a, used, err
}

// Debugger finds why a version failed and writes the next.
type Debugger struct {
	role         role
	install, run time.Duration
}

// NewDebugger makes the role on a model, with the same bounds as [NewCoder].
func NewDebugger(m model.Model, emit Emitter, install, run time.Duration) *Debugger {
	return &Debugger{install: install, run: run, role: role{name: "debugger", output: "Diagnosis", schema: schemaOf(api.Diagnosis{}), model: m, emit: emit,
		system: debuggerPrompt}}
}

// Diagnose explains a failure. The diagnosis holds an artifact that nobody tried
// yet, or a question for a person.
func (d *Debugger) Diagnose(ctx context.Context, req api.DebugRequest) (api.Diagnosis, api.Usage, error) {
	// Where and how fast it ran is different each time and explains nothing: two
	// runs that failed alike ask the same question.
	req.Result.Sandbox, req.Result.Isolation = "", ""
	req.Result.CreateMS, req.Result.InstallMS, req.Result.RunMS = 0, 0, 0
	diag, used, err := ask(ctx, d.role, req, func(diag *api.Diagnosis) error {
		if !slices.Contains(categories[:], diag.Category) {
			return api.Errorf(api.KindInvalid, "unknown category %q", api.Clip(string(diag.Category), 64))
		}
		if strings.TrimSpace(diag.Cause) == "" || len(diag.Cause) > artifact.MaxText || len(diag.Question) > artifact.MaxText {
			return api.Errorf(api.KindInvalid, "cause must be a sentence; cause and question: the maximum is %d bytes", artifact.MaxText)
		}
		if diag.Artifact == nil {
			if strings.TrimSpace(diag.Question) == "" {
				return api.Errorf(api.KindInvalid, "without an artifact, question must state what a person has to decide")
			}
			return nil
		}
		complete(diag.Artifact, req.Plan)
		return checkArtifact(*diag.Artifact, req.Plan, d.install, d.run)
	})
	if err != nil {
		return diag, used, err
	}
	if diag.Artifact != nil && tried(*diag.Artifact, append(req.Tried, req.Artifact)) {
		diag.Artifact = nil
		diag.Question = "The only correction found was already tried. What should the program do here?"
	}
	return diag, used, nil
}

func tried(a api.CodeArtifact, before []api.CodeArtifact) bool {
	key := artifact.Key(a)
	return slices.ContainsFunc(before, func(b api.CodeArtifact) bool { return artifact.Key(b) == key })
}

// complete takes from the plan what an artifact may leave to it.
func complete(a *api.CodeArtifact, plan api.ExecutionPlan) {
	if a.Language == "" {
		a.Language = plan.Language
	}
	if a.Shell == "" {
		a.Shell = plan.Shell
	}
	if strings.TrimSpace(a.Run) == "" && len(a.Files) == 1 {
		a.Compile, a.Run = plan.Compile, plan.Run
	}
	if a.Output == "" {
		a.Output = plan.Output
	}
	if len(a.Expect) == 0 {
		a.Expect = plan.Files
	}
}

// checkArtifact holds a model's artifact to its bounds and to the plan: a model
// must not make its own success easier than the plan's.
func checkArtifact(a api.CodeArtifact, plan api.ExecutionPlan, install, run time.Duration) error {
	if err := artifact.Validate(a); err != nil {
		return err
	}
	if err := artifact.Within(a, install, run); err != nil {
		return err
	}
	if plan.Output != "" && a.Output != plan.Output {
		return api.Errorf(api.KindInvalid, "output is %q; the plan requires %q", a.Output, plan.Output)
	}
	for _, f := range a.Files {
		if slices.ContainsFunc(plan.Inputs, func(in api.InputFile) bool { return path.Clean(in.Path) == path.Clean(f.Path) }) {
			return api.Errorf(api.KindInvalid, "file %q came with the request: the program reads it and must not write a file with that path", f.Path)
		}
	}
	for _, f := range plan.Files {
		if !slices.Contains(a.Expect, f) {
			return api.Errorf(api.KindInvalid, "expect lacks %q, which the plan requires", f)
		}
	}
	return nil
}

// maxAnswer is the longest answer that is parsed.
const maxAnswer = 4 << 20

// role is how a role asks its model.
type role struct {
	name   string // "planner"
	system string
	output string // "ExecutionPlan"
	schema json.RawMessage
	model  model.Model
	emit   Emitter
}

// ask sends the input as the one user message, and parses the answer into out.
// Check says what is wrong with an answer that parsed; what it says goes back to
// the model, which has [turn.Most] answers in all.
func ask[Out any](ctx context.Context, r role, input any, check func(*Out) error) (Out, api.Usage, error) {
	var zero Out
	var used api.Usage
	text, err := json.Marshal(input)
	if err != nil {
		return zero, used, api.Errorf(api.KindInternal, "encode the input of the %s: %w", r.name, err)
	}
	req := model.Request{
		System:   r.system,
		Messages: []model.Message{{Role: model.RoleUser, Text: string(text)}},
		Output:   &model.Output{Name: r.output, Schema: r.schema},
	}
	var useless turn.Useless
	for {
		resp, err := r.asker().Call(ctx, req, nil)
		used = used.Add(resp.Usage)
		if err != nil {
			return zero, used, err
		}
		out, err := parse(resp.Message.Text, check)
		if err == nil {
			return out, used, nil
		}
		if resp.Stop == model.StopLength {
			err = api.Errorf(api.KindInvalid, "the answer exceeds the maximum length and was truncated; write a much shorter one: %w", err)
		}
		if !useless.Count(ctx, r.asker(), err) {
			return zero, used, api.Errorf(api.KindInvalid, "model %s did not give the %s a usable %s: %w", r.model.Name(), r.name, r.output, err).
				WithHint("Retry, or choose another model with --model.")
		}
		req.Messages = append(req.Messages,
			model.Message{Role: model.RoleAssistant, Text: api.Clip(resp.Message.Text, 64<<10)},
			model.Message{Role: model.RoleUser, Text: fmt.Sprintf(
				"Your answer is invalid: %v. Answer again with one JSON value of the schema %s. Write nothing else.", err, r.output)})
	}
}

// asker is the role as one who asks.
func (r role) asker() turn.Asker { return turn.Asker{Role: r.name, Model: r.model, Emit: r.emit} }

// parse reads exactly one JSON value without unknown fields.
func parse[Out any](text string, check func(*Out) error) (Out, error) {
	var out Out
	if len(text) > maxAnswer {
		return out, api.Errorf(api.KindInvalid, "the answer has %d bytes; the maximum is %d", len(text), maxAnswer)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, api.Errorf(api.KindInvalid, "the answer is not JSON of the requested schema: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return out, api.Errorf(api.KindInvalid, "the answer has text after the JSON value")
	}
	return out, check(&out)
}
