package repo

import (
	"context"
	"fmt"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// chooser has terms, and nothing else of a Deliverer.
type chooser struct {
	Deliverer
	chosen Terms
}

func (c chooser) Terms(context.Context, Proposal) (Terms, error) { return c.chosen, nil }

// TestChoose: tasks, sessions, plans and the items of a stack have the branch, the target and the draft that the policies choose. What a request
// names comes first, and what was delivered there keeps its name and its target.
func TestChoose(t *testing.T) {
	const remote = "/srv/r.git"
	task, plan, talk := api.NewTaskID(), api.NewPlanID(), api.NewSessionID()
	was := func(branch, item string, number int) *api.Delivery {
		return &api.Delivery{Pushed: remote, Branch: branch, Target: "old", Number: number, Item: item, Policy: []api.PolicyField{{Name: api.PolicyPrefix, Value: "p/", From: api.FromRepository}}}
	}
	next := Terms{Prefix: "bots/", Target: "next", Draft: true, From: map[string]string{api.PolicyPrefix: api.FromOperator, api.PolicyTarget: api.FromRepository, api.PolicyDraft: api.FromRepository}}
	for name, c := range map[string]struct {
		terms  Terms
		branch string // in the cache
		req    api.RepoTask
		turn   *Turn
		was    *api.Delivery
		part   string
		want   string // branch, target, draft, and the origin of the prefix
	}{
		"a task":                   {Terms{Prefix: "hortus/"}, Branch(task), api.RepoTask{}, nil, nil, "", "hortus/" + string(task) + " main false built-in"},
		"a task with a policy":     {next, Branch(task), api.RepoTask{}, nil, nil, "", "bots/" + string(task) + " next true operator"},
		"a task with a target":     {next, Branch(task), api.RepoTask{Target: "mine"}, nil, nil, "", "bots/" + string(task) + " mine true operator"},
		"a task with a draft":      {Terms{Prefix: "hortus/"}, Branch(task), api.RepoTask{Draft: true}, nil, nil, "", "hortus/" + string(task) + " main true built-in"},
		"a task, again":            {next, Branch(task), api.RepoTask{}, nil, was("p/x", "", 1), "", "p/x old true repository"},
		"a task, elsewhere before": {next, Branch(task), api.RepoTask{}, nil, &api.Delivery{Pushed: "/srv/other.git", Branch: "p/x", Target: "old", Number: 1}, "", "bots/" + string(task) + " next true operator"},
		"a session":                {next, Branch(task), api.RepoTask{}, &Turn{Session: talk}, nil, "", "bots/" + string(talk) + " next true operator"},
		"a session, again":         {next, Branch(task), api.RepoTask{Target: "mine"}, &Turn{Session: talk, Delivered: was("p/c", "", 3)}, nil, "", "p/c old true repository"},
		"a plan":                   {next, PlanBranch(plan), api.RepoTask{Item: &api.ItemTask{Plan: plan}}, nil, nil, "", "bots/" + string(plan) + " next true operator"},
		"a plan, again":            {next, PlanBranch(plan), api.RepoTask{Item: &api.ItemTask{Plan: plan, Delivered: was("p/p", "", 2)}}, nil, nil, "", "p/p old true repository"},
		"a plan, a stack before":   {next, PlanBranch(plan), api.RepoTask{Item: &api.ItemTask{Plan: plan, Delivered: was("p/p-one", "one", 2)}}, nil, nil, "", "bots/" + string(plan) + " next true operator"},
		"an item of a stack":       {next, PlanBranch(plan), api.RepoTask{Item: &api.ItemTask{Plan: plan}}, nil, &api.Delivery{}, "one", "bots/" + string(plan) + "-one next true operator"},
		"an item of a stack again": {next, PlanBranch(plan), api.RepoTask{Item: &api.ItemTask{Plan: plan}}, nil, was("p/p-one", "one", 2), "one", "p/p-one old true repository"},
		"the task of an item":      {next, Branch(task), api.RepoTask{Item: &api.ItemTask{Plan: plan}}, nil, nil, "", "bots/" + string(task) + " next true operator"},
	} {
		c.req.MergeRequest = true
		p := &project{cfg: Config{Deliverer: chooser{chosen: c.terms}}, task: api.Task{ID: task}, req: c.req}
		if c.turn != nil {
			p.conversation = &conversation{turn: c.turn}
		}
		m := &repository{project: p, TaskRepository: api.TaskRepository{URL: remote}, base: cache.Commit{Branch: "main"}}
		d := m.delivery(api.RepoResult{Branch: c.branch}, api.Usage{}, c.was, c.part)
		if err := d.choose(t.Context()); err != nil {
			t.Fatal(err)
		}
		from := ""
		for _, f := range d.out.Policy {
			if f.Name == api.PolicyPrefix {
				from = f.From
			}
		}
		if got := fmt.Sprint(d.p.Branch, " ", d.p.Target, " ", d.p.Draft, " ", from); got != c.want || d.out.Branch != d.p.Branch {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
