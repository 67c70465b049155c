package cli

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/client"
)

// last names the newest task, or the newest sandbox that lives.
const last = "last"

// taskOf finds the task of an argument.
func taskOf(ctx context.Context, cl *client.Client, id string) (api.Task, error) {
	if id != last {
		return cl.Task(ctx, id)
	}
	list, err := cl.Tasks(ctx, 1)
	if err != nil {
		return api.Task{}, err
	}
	if len(list) == 0 {
		return api.Task{}, api.Errorf(api.KindNotFound, "there is no task yet").WithHint(`hortus run "print the first 20 prime numbers" makes one`)
	}
	return cl.Task(ctx, string(list[0].ID))
}

// sandboxOf finds the sandbox of an argument.
func sandboxOf(ctx context.Context, cl *client.Client, id string) (*client.Sandbox, error) {
	if id != last {
		return cl.Sandbox(ctx, id)
	}
	list, err := cl.Sandboxes(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, api.Errorf(api.KindNotFound, "no sandbox lives").WithHint("hortus sandbox create makes one; hortus sandbox ls --all lists those that ended")
	}
	return cl.Sandbox(ctx, string(list[0].ID))
}
