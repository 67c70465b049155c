package task

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/repo"
)

// minTokens is the smallest share of the tokens that a candidate can work with.
const minTokens = 1000

// replayed begins the name of a model that is a recording.
const replayed = "replay:"

// lineup finds the models of those who work on a repository: the only agent, or the candidates.
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
	case r.PrepareOnly:
		return invalid("best and prepareOnly exclude each other")
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
	if external(req) == "" {
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
	first := external(candidate(req, b.Vary[0]))
	for i, v := range b.Vary {
		if name := external(candidate(req, v)); name != first {
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
	if name := external(one); name != "" {
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
	case external(req) != "" && req.Model == DefaultModel:
		req.Model = "" // no program can use it: its own
	}
	if external(req) == "" {
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
		out = append(out, repo.Candidate{Variant: v, Agent: external(one), Model: ms.coder, Large: ms.large, Small: ms.small, ModelName: one.Model})
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
	if external(req) != "" {
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
	if p, ok := ms.coder.(played); ok && ms.small != nil && p.Models()[roleAgent] != nil {
		return models{}, api.Errorf(api.KindInvalid, "a small model is set, but the recording has the answers of all models").
			WithHint("set none for a replay: --small-model ''")
	}
	if p, ok := ms.coder.(played); ok && req.Models == (api.Models{}) {
		var by map[string]model.Model = p.Models()
		if by[roleAgent] != nil {
			ms.coder, ms.large, ms.small = by[roleAgent], by[roleLarge], by[roleSmall]
		}
	}
	return ms, nil
}
