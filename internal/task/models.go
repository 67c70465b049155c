package task

import (
	"cmp"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/repo"
)

// models are those that the roles of one task ask.
type models struct {
	planner, coder, debugger model.Model
	large, small             model.Model // nil for none
	// external is the name of a program with its model, which works instead; there are no models then.
	external string
	// candidates are those of a task on a repository with several.
	candidates []repo.Candidate
	// recording takes what they say; nil for none.
	recording Recording
}

// Recording writes down what the models of one task are asked and answer.
type Recording interface {
	// Wrap returns the model that is recorded.
	Wrap(m model.Model) model.Model
	// Close ends the recording.
	Close() error
	// Discard ends it and removes it: nothing of it happened.
	Discard() error
}

// played is a model that answers from the recording of a task, and gives the
// models of its roles by the roles' names.
type played interface{ Models() map[string]model.Model }

// Names of the roles that have models, as a recording knows them.
const (
	rolePlanner  = "planner"
	roleCoder    = "coder"
	roleDebugger = "debugger"
	roleLarge    = "large"
	roleSmall    = "small"
	// roleAgent is the one that works on repositories.
	roleAgent = "agent"
)

// models finds the models of a request.
func (e *Engine) models(req api.CreateTask) (models, error) {
	found := map[string]model.Model{}
	find := func(name string) (model.Model, error) {
		name = cmp.Or(name, req.Model)
		m, ok := found[name]
		if !ok {
			var err error
			if m, err = e.cfg.Model(name); err != nil {
				return nil, err
			}
			found[name] = m
		}
		return m, nil
	}
	debugger := req.Models.Debugger
	debugger = cmp.Or(debugger, req.Models.Coder)
	var ms models
	var err error
	for _, r := range []struct {
		name string
		to   *model.Model
	}{{req.Models.Planner, &ms.planner}, {req.Models.Coder, &ms.coder}, {debugger, &ms.debugger}} {
		if *r.to, err = find(r.name); err != nil {
			return ms, err
		}
	}
	if req.Models.Large != "" {
		if ms.large, err = find(req.Models.Large); err != nil {
			return ms, err
		}
	}
	if p, ok := ms.planner.(played); ok && req.Models == (api.Models{}) {
		// The recorded task moved from model to model; its replay does too.
		if by := p.Models(); by[rolePlanner] != nil && by[roleCoder] != nil && by[roleDebugger] != nil {
			ms.planner, ms.coder, ms.debugger, ms.large = by[rolePlanner], by[roleCoder], by[roleDebugger], by[roleLarge]
		}
	}
	return ms, nil
}

// name is the model that does most of the work.
func (m models) name() string {
	if m.external != "" {
		return m.external
	}
	return m.coder.Name()
}

// names returns which model each role has; nothing where all have the same.
func (m models) names() api.Models {
	if m.external != "" {
		return api.Models{} // a program asks its model itself
	}
	if m.planner == nil {
		n := api.Models{Coder: m.coder.Name()}
		if m.large != nil && m.large.Name() != n.Coder {
			n.Large = m.large.Name()
		}
		if m.small != nil && m.small.Name() != n.Coder {
			n.Small = m.small.Name()
		}
		if n.Large == "" && n.Small == "" {
			return api.Models{}
		}
		return n
	}
	n := api.Models{Planner: m.planner.Name(), Coder: m.coder.Name(), Debugger: m.debugger.Name()}
	if m.large != nil {
		n.Large = m.large.Name()
	}
	if n.Planner == n.Coder && n.Coder == n.Debugger && (n.Large == "" || n.Large == n.Coder) {
		return api.Models{}
	}
	return n
}

// record begins the recording that a request asks for.
func (e *Engine) record(req api.CreateTask, ms *models) error {
	if req.Record == "" {
		return nil
	}
	if e.cfg.Record == nil {
		return api.Errorf(api.KindUnsupported, "recording is not available")
	}
	by := map[string]string{roleAgent: ms.coder.Name()}
	if ms.planner != nil {
		by = map[string]string{rolePlanner: ms.planner.Name(), roleCoder: ms.coder.Name(), roleDebugger: ms.debugger.Name()}
	}
	for role, m := range map[string]model.Model{roleLarge: ms.large, roleSmall: ms.small} {
		if m != nil {
			by[role] = m.Name()
		}
	}
	rec, err := e.cfg.Record(req.Record, by)
	if err != nil {
		return err
	}
	ms.recording = rec
	ms.coder = rec.Wrap(ms.coder)
	if ms.planner != nil {
		ms.planner, ms.debugger = rec.Wrap(ms.planner), rec.Wrap(ms.debugger)
	}
	for _, m := range []*model.Model{&ms.large, &ms.small} {
		if *m != nil {
			*m = rec.Wrap(*m)
		}
	}
	return nil
}

// into sets the models of the roles of a pipeline.
func (m models) into(cfg *agent.Config, log agent.Emitter, b bounds) {
	cfg.Planner = agent.NewPlanner(m.planner, log)
	cfg.Coder = agent.NewCoder(m.coder, log, b.install, b.run)
	cfg.Debugger = agent.NewDebugger(m.debugger, log, b.install, b.run)
	cfg.Large = m.large
}

// checkModels refuses names and paths that cannot be right.
func checkModels(req api.CreateTask) error {
	if req.Request == "" {
		if req.Model != "" || req.Models != (api.Models{}) {
			return api.Errorf(api.KindInvalid, "a model is set, but a run of an existing program uses no model")
		}
		if req.Record != "" {
			return api.Errorf(api.KindInvalid, "a recording is requested, but a run of an existing program uses no model")
		}
	}
	if req.Repo == nil && req.Models.Small != "" {
		return api.Errorf(api.KindInvalid, "a small model is set, but only the agent of a repository uses one").
			WithHint("set models.planner for a cheaper plan")
	}
	switch {
	case req.Record == "":
	case strings.ContainsRune(req.Record, 0) || len(req.Record) > 4096:
		return api.Errorf(api.KindInvalid, "the recording's path %.64q is not a path", req.Record)
	case !filepath.IsAbs(req.Record):
		return api.Errorf(api.KindInvalid, "recording path %.64q is not absolute", req.Record).
			WithHint("The daemon writes it and has another working directory.")
	}
	return nil
}
