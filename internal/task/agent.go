package task

import (
	"hortus.dev/api"
	"hortus.dev/internal/agent/runtime"
)

// external returns the name of the program that works on a request in a sandbox; empty if Hortus's own agent does.
func external(req api.CreateTask) string {
	if req.Repo == nil || req.Repo.Agent == runtime.Own {
		return ""
	}
	return req.Repo.Agent
}

// checkAgent refuses what a program in a sandbox cannot do: nobody but the program asks its model.
func checkAgent(req api.CreateTask) error {
	name := external(req)
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
	case req.Repo.PrepareOnly:
		return api.Errorf(api.KindInvalid, "agent and prepareOnly exclude each other")
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
	agent, err := runtime.Find(external(req))
	if err != nil {
		return "", err
	}
	p, err := agent.Choose(req.Model)
	return agent.Name + "/" + p.Model, err
}
