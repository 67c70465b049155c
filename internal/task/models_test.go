package task

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// named is a model that takes temperatures up to most, unless most is 0.
type named struct {
	name string
	most float64
}

func (n named) Name() string { return n.name }
func (named) Generate(context.Context, model.Request, func(model.Delta)) (model.Response, error) {
	return model.Response{}, nil
}
func (n named) MaxTemperature() (float64, bool) { return n.most, n.most > 0 }

// modelsByName has a model that takes temperatures, "warm", and one that does not, "cold".
func modelsByName(name string) (model.Model, error) {
	switch name {
	case "warm":
		return named{name, 1}, nil
	case "cold", DefaultModel:
		return named{name, 0}, nil
	}
	return nil, api.Errorf(api.KindNotFound, "unknown model %q", name)
}

func request(b *api.BestOf, change func(*api.CreateTask)) api.CreateTask {
	req := api.CreateTask{Request: "Fix it", Model: "warm", Repo: &api.RepoTask{
		Best: b, Budget: api.Budget{Steps: 100, Tokens: 100_000, OutputBytes: 1 << 20, WallMS: 1000},
	}}
	if change != nil {
		change(&req)
	}
	return req
}

// TestCheckBest: what candidates cannot do is refused, and only then.
func TestCheckBest(t *testing.T) {
	hot, cool := 1.5, 0.5
	of := func(n int, vary ...api.Variant) *api.BestOf { return &api.BestOf{Of: n, Vary: vary} }
	for _, c := range []struct {
		name   string
		b      *api.BestOf
		change func(*api.CreateTask)
		says   string // "" if it is accepted
	}{
		{"none", nil, nil, ""},
		{"two", of(2), nil, ""},
		{"sixteen", of(16), nil, ""},
		{"one", of(1), nil, "1 candidates"},
		{"seventeen", of(17), nil, "17 candidates"},
		{"more variants than candidates", of(2, api.Variant{}, api.Variant{}, api.Variant{}), nil, "3 candidates are described"},
		{"a temperature", of(2, api.Variant{Temperature: &cool}), nil, ""},
		{"a temperature that is too high", of(2, api.Variant{}, api.Variant{Temperature: &hot}), nil, "candidate 2: the temperature 1.5 is not between 0 and 1"},
		{"a temperature for a model without", of(2, api.Variant{Model: "cold", Temperature: &cool}), nil, "does not take a temperature"},
		{"a temperature for a program", of(2, api.Variant{Agent: "claude", Model: "anthropic", Temperature: &cool}), nil, "takes no temperature"},
		{"a program", of(2, api.Variant{Agent: "claude", Model: "anthropic"}), nil, ""},
		{"a program with the model of the request", of(2, api.Variant{Agent: "claude"}), nil, "cannot use the model"},
		{"the default model, twice", of(2, api.Variant{Model: DefaultModel}), func(r *api.CreateTask) { r.Model = DefaultModel }, "the same way each time"},
		{"the default model with a strategy", of(2, api.Variant{Model: DefaultModel, Strategy: "x"}), nil, "does not follow a strategy"},
		{"the default model, once", of(2, api.Variant{Model: DefaultModel}), nil, ""},
		{"a program and the default model", of(2, api.Variant{Agent: "claude"}, api.Variant{Agent: "codex"}), func(r *api.CreateTask) { r.Model = DefaultModel }, ""},
		{"a program and a cost", of(2, api.Variant{Agent: "claude", Model: "anthropic"}), func(r *api.CreateTask) { r.Repo.Budget.CostUSD = 1 }, "limit its cost"},
		{"a cost", of(2), func(r *api.CreateTask) { r.Repo.Budget.CostUSD = 1 }, ""},
		{"an unknown agent", of(2, api.Variant{Agent: "nobody"}), nil, "unknown agent"},
		{"an unknown model", of(2, api.Variant{Model: "nothing"}), nil, "unknown model"},
		{"a recording", of(2, api.Variant{Model: "replay:/f"}), nil, "recording as its model"},
		{"a recorded task", of(2), func(r *api.CreateTask) { r.Record = "/f" }, "recorded or replayed"},
		{"a replay", of(2), func(r *api.CreateTask) { r.Model = "replay:/f" }, "recorded or replayed"},
		{"a workspace", of(2), func(r *api.CreateTask) { r.Repo.Workspace = "w" }, "exclude each other"},
		{"preparing", of(2), func(r *api.CreateTask) { r.Repo.PrepareOnly = true }, "exclude each other"},
		{"too few steps", of(3), func(r *api.CreateTask) { r.Repo.Budget.Steps = 2 }, "2 steps is not enough"},
		{"enough steps", of(3), func(r *api.CreateTask) { r.Repo.Budget.Steps = 3 }, ""},
		{"too few tokens", of(3), func(r *api.CreateTask) { r.Repo.Budget.Tokens = 2999 }, "not enough for 3"},
		{"a search", &api.BestOf{Of: 3, Depth: 4}, nil, ""},
		{"a search with one on each level", &api.BestOf{Of: 1, Depth: 2}, nil, ""},
		{"a search of one level", &api.BestOf{Of: 2, Depth: 1}, nil, ""},
		{"one level of one", &api.BestOf{Of: 1, Depth: 1}, nil, "1 candidates; use 2 to 16"},
		{"the largest search", &api.BestOf{Of: 16, Depth: 2}, nil, ""},
		{"a search that is too large", &api.BestOf{Of: 11, Depth: 3}, nil, "3 levels of 11 candidates are 33; the maximum is 32"},
		{"a search that is too deep", &api.BestOf{Of: 1, Depth: 7}, nil, "7 levels; use 1 to 6"},
		{"fewer levels than none", &api.BestOf{Of: 2, Depth: -1}, nil, "-1 levels"},
		{"a search without a candidate", &api.BestOf{Depth: 2}, nil, "0 candidates; use 1 to 16"},
		{"huge numbers", &api.BestOf{Of: 1 << 62, Depth: 1 << 62}, nil, "levels; use 1 to 6"},
		{"too few steps for a search", &api.BestOf{Of: 3, Depth: 2}, func(r *api.CreateTask) { r.Repo.Budget.Steps = 5 }, "5 steps is not enough for 6"},
		{"enough steps for a search", &api.BestOf{Of: 3, Depth: 2}, func(r *api.CreateTask) { r.Repo.Budget.Steps = 6 }, ""},
		{"too few tokens for a search", &api.BestOf{Of: 3, Depth: 2}, func(r *api.CreateTask) { r.Repo.Budget.Tokens = 5999 }, "not enough for 6"},
		{"a search by other models", &api.BestOf{Of: 2, Depth: 2, Vary: []api.Variant{{Model: "cold"}}}, nil, ""},
		{"a search by several agents", &api.BestOf{Of: 2, Depth: 2, Vary: []api.Variant{{}, {Agent: "claude", Model: "anthropic"}}}, nil, "candidate 2 has another agent"},
		{"a search by one program", &api.BestOf{Of: 2, Depth: 2}, func(r *api.CreateTask) { r.Repo.Agent, r.Model = "claude", "anthropic" }, ""},
		{"a search by a program and Hortus", &api.BestOf{Of: 2, Depth: 2, Vary: []api.Variant{{Agent: "hortus", Model: "warm"}}}, func(r *api.CreateTask) { r.Repo.Agent, r.Model = "claude", "anthropic" }, "another agent"},
		{"several agents on one level", &api.BestOf{Of: 2, Depth: 1, Vary: []api.Variant{{}, {Agent: "claude", Model: "anthropic"}}}, nil, ""},
		{"a search of the default model", &api.BestOf{Of: 1, Depth: 2}, func(r *api.CreateTask) { r.Model = DefaultModel }, "the same way each time"},
		{"a search in a workspace", &api.BestOf{Of: 2, Depth: 2}, func(r *api.CreateTask) { r.Repo.Workspace = "w" }, "exclude each other"},
		{"a recorded search", &api.BestOf{Of: 2, Depth: 2}, func(r *api.CreateTask) { r.Record = "/f" }, "recorded or replayed"},
		{"a strategy of two lines", of(2, api.Variant{Strategy: "a\nb"}), nil, "not a line"},
		{"a long strategy", of(2, api.Variant{Strategy: strings.Repeat("x", api.MaxStrategy+1)}), nil, "not a line"},
		{"a strategy", of(2, api.Variant{Strategy: strings.Repeat("x", api.MaxStrategy)}), nil, ""},
	} {
		req := request(c.b, c.change)
		err := lineup{modelsByName}.check(req)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		if err != nil || c.b == nil {
			continue
		}
		all := req.Repo.Best.Vary
		if len(all) != c.b.Of {
			t.Errorf("%s: %d variants", c.name, len(all))
		}
		if _, err := (lineup{modelsByName}).candidates(req); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		seen := map[string]bool{}
		for _, v := range all[len(c.b.Vary):] {
			if seen[v.String()] {
				t.Errorf("%s: two candidates are %s", c.name, v)
			}
			seen[v.String()] = true
		}
	}
}

// TestReplyToChosen: a reply continues with one agent as the chosen candidate was, and with its part of the budget.
func TestReplyToChosen(t *testing.T) {
	req := request(&api.BestOf{Of: 4, Vary: []api.Variant{{}, {Model: "cold"}, {}, {}}}, nil)
	old := api.Task{Create: req, Repo: &api.RepoResult{Candidates: []api.Candidate{{N: 1}, {N: 2, Variant: api.Variant{Model: "cold"}, Chosen: true}}}}
	c := chosen(req, old)
	if c.Repo.Best != nil || c.Model != "cold" || c.Repo.Budget.Steps != 25 || c.Repo.Budget.Tokens != 25_000 {
		t.Errorf("%+v %+v", c, c.Repo)
	}
	if req.Repo.Best == nil || req.Repo.Budget.Steps != 100 {
		t.Error("the request of the first task was changed")
	}
	req.Repo.Best.Depth, req.Repo.Budget.CostUSD = 5, 4
	if c = chosen(req, old); c.Repo.Budget.Steps != 5 || c.Repo.Budget.Tokens != 5000 || c.Repo.Budget.CostUSD != 0.2 {
		t.Errorf("the part of a search: %+v", c.Repo.Budget)
	}
}
