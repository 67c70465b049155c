package task

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
)

// PlanFlags say what the tasks of a plan's items are made from.
type PlanFlags struct {
	Repo    []string `sep:"none" complete:"repositories" placeholder:"NAME|PATH|URL[@REF]" help:"Repository: the name of a connected one (hortus repo ls), a directory or a URL, optionally with @BRANCH, @TAG or @COMMIT (default: the checkout of the working directory)."`
	Verify  string   `placeholder:"CMD" help:"Shell command that verifies each result (default: the repository's own test command)."`
	Context []string `sep:"none" complete:"files" placeholder:"FILE" help:"File with context for the request (maximum 64 KiB). Repeatable up to 8 times."`
	Overlap string   `placeholder:"POLICY" help:"If other plans, tasks or sessions change the same files: wait (default) until they end, refuse, which fails, or allow, which works at the same time."`
	Author  string   `env:"HORTUS_AUTHOR" placeholder:"NAME <EMAIL>" help:"Author of the commits (default: git's user.name and user.email)."`
	// Tests is as in a reply to a task.
	Tests bool `name:"tests-may-change" help:"Accept changes to existing tests: the gate with the original tests no longer decides."`
	untilFlags
	DeliveryFlags
	BudgetFlags
	setupFlags
	agentFlag
	flags.Sandbox
}

// Request is the task of a plan with a request.
func (f *PlanFlags) Request(ctx context.Context, a *app.App, request string) (api.CreateTask, error) {
	if f.Model.all == "" && (f.Agent == "" || f.Agent == "hortus") {
		name, err := ModelAtHand(ctx, a)
		if err != nil {
			return api.CreateTask{}, err
		}
		f.Model.all = name
	}
	c := taskStartCmd{
		Request: request, Overlap: f.Overlap, untilFlags: f.untilFlags, Repo: f.Repo, Verify: f.Verify, Context: f.Context, Author: f.Author,
		DeliveryFlags: f.DeliveryFlags, BudgetFlags: f.BudgetFlags, setupFlags: f.setupFlags, agentFlag: f.agentFlag, Sandbox: f.Sandbox,
	}
	req, err := c.request(ctx, a)
	if err == nil {
		req.Repo.TestsMayChange = f.Tests
	}
	return req, err
}
