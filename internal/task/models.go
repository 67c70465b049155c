package task

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/runtime"
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

// replayModel is a model that answers from the recording of a task, and gives the
// models of its roles by the roles' names.
type replayModel interface{ Models() map[string]model.Model }

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

// of finds the models of a request.
func (l lineup) of(req api.CreateTask) (models, error) {
	if req.Repo != nil {
		return l.agent(req)
	}
	return l.pipeline(req)
}

// pipeline finds the models of the roles that write a program.
func (l lineup) pipeline(req api.CreateTask) (models, error) {
	found := map[string]model.Model{}
	find := func(name string) (model.Model, error) {
		name = cmp.Or(name, req.Model)
		m, ok := found[name]
		if !ok {
			var err error
			if m, err = l.model(name); err != nil {
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
	if p, ok := ms.planner.(replayModel); ok && req.Models == (api.Models{}) {
		// The recorded task moved from model to model; its replay does too.
		if by := p.Models(); by[rolePlanner] != nil && by[roleCoder] != nil && by[roleDebugger] != nil {
			ms.planner, ms.coder, ms.debugger, ms.large = by[rolePlanner], by[roleCoder], by[roleDebugger], by[roleLarge]
		}
	}
	return ms, nil
}

// name is the model that does most of the work.
func (m models) name() string {
	if len(m.candidates) > 0 { // the name that all have, or none
		name := m.candidates[0].Name()
		if slices.ContainsFunc(m.candidates, func(c repo.Candidate) bool { return c.Name() != name }) {
			return ""
		}
		return name
	}
	if m.external != "" {
		return m.external
	}
	return m.coder.Name()
}

// names returns which model each role has; nothing where all have the same.
func (m models) names() api.Models {
	if m.external != "" || len(m.candidates) > 0 && m.name() == "" {
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

// minTokens is the smallest share of the tokens that a candidate can work with.
const minTokens = 1000

// replayed begins the name of a model that is a recording.
const replayed = "replay:"

// lineup finds the models of those who work on a request: the roles of a pipeline, the only agent of a repository, or the candidates.
type lineup struct {
	// model finds a model by its name.
	model func(name string) (model.Model, error)
}

// check refuses candidates that make no sense, and says how all of them differ. The budget of req is complete.
func (l lineup) check(req api.CreateTask) error {
	r := req.Repo
	if r.Best == nil {
		return nil
	}
	b := *r.Best
	r.Best = &b
	invalid := func(format string, args ...any) *api.Error { return api.Errorf(api.KindInvalid, format, args...) }
	all := b.All()
	switch {
	case b.Wrong() != "":
		return invalid("%s", b.Wrong())
	case len(b.Vary) > b.Of:
		return invalid("%d candidates are described, and there are %d", len(b.Vary), b.Of)
	case r.NoAgent():
		return invalid("best and tasks without an agent (prepareOnly, gateOnly) exclude each other")
	case r.Workspace != "":
		return invalid("best and workspace exclude each other: each candidate has files of its own")
	case req.Record != "" || strings.HasPrefix(req.Model, replayed):
		return invalid("several candidates cannot be recorded or replayed: a recording has one sequence of calls")
	case b.Share(int64(r.Budget.Steps)) < 1:
		return invalid("a budget of %d steps is not enough for %d candidates", r.Budget.Steps, all).WithHint("set at least --steps %d: each candidate has the same part", all)
	case b.Share(r.Budget.Tokens) < minTokens:
		return invalid("a budget of %d tokens is not enough for %d candidates", r.Budget.Tokens, all).WithHint("set at least --tokens %d: each candidate has the same part", all*minTokens)
	case b.Share(r.Budget.OutputBytes) < 1:
		return invalid("an output budget of %d bytes is not enough for %d candidates", r.Budget.OutputBytes, all)
	}
	for i, v := range b.Vary {
		if err := l.checkVariant(req, v); err != nil {
			return api.Errorf(api.KindOf(err), "candidate %d: %w", i+1, err).WithHint("%s", api.HintOf(err))
		}
	}
	tempered := false
	if External(req) == "" {
		if len(b.Vary) < b.Of && req.Model == DefaultModel {
			return invalid("the model %s works in the same way each time: further candidates with it would not differ", DefaultModel).
				WithHint("use another model (--model), or describe each of the %d candidates: --candidate model=NAME", b.Of)
		}
		m, err := l.model(cmp.Or(req.Models.Coder, req.Model))
		if err != nil {
			return err
		}
		_, tempered = model.MaxTemperature(m)
	}
	b.Vary = b.Fill(tempered)
	return sameAgents(req)
}

// sameAgents refuses a search by several agents: a candidate continues in the workspace of another one, which has the
// program of its agent below it.
func sameAgents(req api.CreateTask) error {
	b := req.Repo.Best
	if b.Levels() == 1 {
		return nil
	}
	first := External(candidate(req, b.Vary[0]))
	for i, v := range b.Vary {
		if name := External(candidate(req, v)); name != first {
			return api.Errorf(api.KindInvalid, "candidate %d has another agent than candidate 1, and the candidates of a search continue each other's work", i+1).
				WithHint("use one agent for all of them (--agent), or one level: --best-of %d", b.Of)
		}
	}
	return nil
}

// checkVariant refuses what a candidate cannot do.
func (l lineup) checkVariant(req api.CreateTask, v api.Variant) error {
	switch {
	case len(v.Strategy) > api.MaxStrategy || !utf8.ValidString(v.Strategy) || strings.ContainsAny(v.Strategy, "\x00\r\n"):
		return api.Errorf(api.KindInvalid, "the strategy is not a line of UTF-8 text with at most %d bytes", api.MaxStrategy)
	case strings.HasPrefix(v.Model, replayed):
		return api.Errorf(api.KindInvalid, "a candidate cannot have a recording as its model")
	}
	if err := api.CheckName("model", v.Model); err != nil {
		return err
	}
	one := candidate(req, v)
	if name := External(one); name != "" {
		if v.Temperature != nil {
			return api.Errorf(api.KindInvalid, "the agent %.40q asks its model itself, and takes no temperature", name)
		}
		return checkAgent(one)
	}
	if one.Model == DefaultModel && v.Strategy != "" {
		return api.Errorf(api.KindInvalid, "the model %s does not follow a strategy", DefaultModel).WithHint("leave the strategy out, or use another model")
	}
	_, err := l.modelsOf(one, v)
	return err
}

// candidate is the request as one candidate has it.
func candidate(req api.CreateTask, v api.Variant) api.CreateTask {
	r := *req.Repo
	r.Best, r.Agent = nil, cmp.Or(v.Agent, r.Agent)
	req.Repo = &r
	switch {
	case v.Model != "":
		req.Model, req.Models.Coder = v.Model, ""
	case External(req) != "" && req.Model == DefaultModel:
		req.Model = "" // no program can use it: its own
	}
	if External(req) == "" {
		req.Model = cmp.Or(req.Model, DefaultModel)
	}
	return req
}

// modelsOf finds the models of a candidate.
func (l lineup) modelsOf(one api.CreateTask, v api.Variant) (models, error) {
	ms, err := l.agent(one)
	if err == nil && v.Temperature != nil {
		ms.coder, err = model.WithTemperature(ms.coder, *v.Temperature)
	}
	return ms, err
}

// candidates are those of a task with several; nil for one agent.
func (l lineup) candidates(req api.CreateTask) (out []repo.Candidate, err error) {
	if req.Repo.Best == nil {
		return nil, nil
	}
	for _, v := range req.Repo.Best.Vary {
		one := candidate(req, v)
		ms, err := l.modelsOf(one, v)
		if err != nil {
			return nil, err
		}
		out = append(out, repo.Candidate{Variant: v, Agent: External(one), Model: ms.coder, Large: ms.large, Small: ms.small, ModelName: one.Model})
	}
	return out, nil
}

// chosen is the request of a task that had several candidates as the chosen one had it.
func chosen(c api.CreateTask, t api.Task) api.CreateTask {
	b := *c.Repo.Best
	v := api.Variant{}
	if t.Repo != nil {
		for _, one := range t.Repo.Candidates {
			if one.Chosen {
				v = one.Variant
			}
		}
	}
	c = candidate(c, v)
	s := &c.Repo.Budget
	s.Steps, s.CostUSD = int(b.Share(int64(s.Steps))), b.Part(s.CostUSD)
	s.Tokens, s.OutputBytes = b.Share(s.Tokens), b.Share(s.OutputBytes)
	return c
}

// agent finds the models of a task on a repository: the one that works is the
// Coder's.
func (l lineup) agent(req api.CreateTask) (models, error) {
	if req.Models.Planner != "" || req.Models.Debugger != "" {
		return models{}, api.Errorf(api.KindInvalid, "a task on a repository has one role besides the larger model: set it with --model")
	}
	var ms models
	var err error
	if ms.candidates, err = l.candidates(req); err != nil {
		return ms, err
	}
	if External(req) != "" {
		ms.external, err = externalModel(req)
		return ms, err
	}
	name := req.Models.Coder
	name = cmp.Or(name, req.Model)
	if ms.coder, err = l.model(name); err != nil {
		return ms, err
	}
	for _, x := range []struct {
		name string
		to   *model.Model
	}{{req.Models.Large, &ms.large}, {req.Models.Small, &ms.small}} {
		if x.name == "" {
			continue
		}
		if *x.to, err = l.model(x.name); err != nil {
			return ms, err
		}
	}
	if p, ok := ms.coder.(replayModel); ok && ms.small != nil && p.Models()[roleAgent] != nil {
		return models{}, api.Errorf(api.KindInvalid, "a small model is set, but the recording has the answers of all models").
			WithHint("set none for a replay: --small-model ''")
	}
	if p, ok := ms.coder.(replayModel); ok && req.Models == (api.Models{}) {
		var by map[string]model.Model = p.Models()
		if by[roleAgent] != nil {
			ms.coder, ms.large, ms.small = by[roleAgent], by[roleLarge], by[roleSmall]
		}
	}
	return ms, nil
}

// External returns the name of the program that works on a request in a sandbox; empty if Hortus's own agent does.
func External(req api.CreateTask) string {
	if req.Repo == nil || req.Repo.Agent == runtime.Own {
		return ""
	}
	return req.Repo.Agent
}

// checkAgent refuses what a program in a sandbox cannot do: nobody but the program asks its model.
func checkAgent(req api.CreateTask) error {
	name := External(req)
	if name == "" {
		return nil
	}
	agent, err := runtime.Find(name)
	if err != nil {
		return err
	}
	if _, err := agent.Choose(req.Model); err != nil {
		return err
	}
	switch {
	case req.Repo.NoAgent():
		return api.Errorf(api.KindInvalid, "agent and tasks without one (prepareOnly, gateOnly) exclude each other")
	case req.Models != (api.Models{}):
		return api.Errorf(api.KindInvalid, "the agent %s has one model; models for roles cannot be used with it", name)
	case req.Schema != nil:
		return api.Errorf(api.KindInvalid, "the agent %s has no tool that takes a value; a schema cannot be used with it", name).
			WithHint("use Hortus's own agent: --agent hortus")
	case req.Record != "":
		return api.Errorf(api.KindInvalid, "the agent %s asks its model itself; its calls cannot be recorded", name)
	case req.Repo.Budget.CostUSD > 0:
		return api.Errorf(api.KindInvalid, "the agent %s asks its model itself, so a task cannot limit its cost", name).
			WithHint("limit the cost of its key: hortus secret set NAME --preset NAME --budget 5usd")
	}
	return nil
}

// externalModel names the program and its model.
func externalModel(req api.CreateTask) (string, error) {
	agent, err := runtime.Find(External(req))
	if err != nil {
		return "", err
	}
	p, err := agent.Choose(req.Model)
	return agent.Name + "/" + p.Model, err
}
