package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair"
	"hortus.dev/internal/agent/model/offline/repair/diagnosis"
)

// Name is what users choose the model by.
const Name = "offline"

// Model answers from a catalogue and from patterns.
type Model struct {
	catalogue *catalogue
	repair    *repair.Agent
}

var _ model.Model = (*Model)(nil)

// New reads the catalogue, which is part of the binary.
func New() (*Model, error) {
	c, err := newCatalogue()
	if err != nil {
		return nil, err
	}
	return &Model{catalogue: c, repair: repair.New()}, nil
}

// Name is "offline".
func (m *Model) Name() string { return Name }

// Generate answers requests for an ExecutionPlan, a CodeArtifact, a Diagnosis, a Division or an AmendAnswer,
// and works with tools where there are some and no output is wanted.
func (m *Model) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	if req.Output == nil && len(req.Tools) > 0 {
		return m.repair.Generate(ctx, req, deltas)
	}
	if req.Output == nil {
		return model.Response{}, declined("it answers requests for plans, programs and diagnoses only")
	}
	var asked []string
	for _, msg := range req.Messages {
		if msg.Role == model.RoleUser {
			asked = append(asked, msg.Text)
		}
	}
	switch {
	case len(asked) == 0:
		asked = append(asked, "")
	case len(asked) > 1:
		// The same question has the same answer.
		return model.Response{}, api.Errorf(api.KindInternal, "the offline model cannot answer a follow-up: %.200s", asked[len(asked)-1])
	}
	answer, err := m.answer(req.Output.Name, asked[0])
	if err != nil {
		return model.Response{}, err
	}
	b, err := encode(answer)
	if err != nil {
		return model.Response{}, err
	}
	if deltas != nil {
		deltas(model.Delta{Text: b})
	}
	return model.Response{
		Message: model.Message{Role: model.RoleAssistant, Text: b},
		Stop:    model.StopEnd,
		Usage:   api.Usage{Requests: 1},
	}, nil
}

func (m *Model) answer(name, text string) (any, error) {
	switch name {
	case "ExecutionPlan":
		var req api.PlanRequest
		if err := decode(text, &req); err != nil {
			return nil, err
		}
		return m.planWith(req)
	case "CodeArtifact":
		var plan api.ExecutionPlan
		if err := decode(text, &plan); err != nil {
			return nil, err
		}
		return m.code(plan)
	case "Division":
		var req plan.DivideRequest
		if err := decode(text, &req); err != nil {
			return nil, err
		}
		return divide(req), nil
	case "AmendAnswer":
		var req plan.AmendRequest
		if err := decode(text, &req); err != nil {
			return nil, err
		}
		return plan.AmendAnswer{Answer: plan.Grant, Reason: "nobody else may change them"}, nil
	case "Diagnosis":
		var req api.DebugRequest
		if err := decode(text, &req); err != nil {
			return nil, err
		}
		return m.diagnose(req), nil
	}
	return nil, declined("it cannot produce a " + quoted(name) + "; it answers with plans, programs and diagnoses")
}

func decode(text string, into any) error {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return api.Errorf(api.KindInvalid, "the offline model cannot parse its input: %w", err)
	}
	return nil
}

func encode(v any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", api.Errorf(api.KindInternal, "encode an answer: %w", err)
	}
	return buf.String(), nil
}

// diagnose answers a DebugRequest.
func (m *Model) diagnose(req api.DebugRequest) *api.Diagnosis {
	return diagnosis.Diagnose(req, m.leaner(req)...)
}

// leaner returns, for a program of the catalogue that ran out of memory, its version that
// keeps no list of values.
func (m *Model) leaner(req api.DebugRequest) []diagnosis.Correction {
	p := req.Plan
	if req.Result.Category != api.CategoryMemory || p.Parameters["storage"] == "" {
		return nil
	}
	p.Parameters = maps.Clone(p.Parameters)
	delete(p.Parameters, "storage")
	a, err := m.code(p)
	if err != nil {
		return nil
	}
	next := req.Artifact
	next.Files = a.Files
	return []diagnosis.Correction{{Cause: "the list of all values does not fit into memory; the sum needs one value at a time", Artifact: next}}
}
