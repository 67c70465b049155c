package task

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// Turn requests a task that is a turn of a session.
type Turn struct {
	// ID is that of the task: who starts a turn knows it before the task is there.
	ID     api.TaskID
	Create api.CreateTask
	repo.Turn
}

// Turns is an engine as sessions use it.
type Turns struct{ *Engine }

// CheckTurn refuses what StartTurn would refuse, and returns the request with its defaults.
func (e Turns) CheckTurn(ctx context.Context, create api.CreateTask) (api.CreateTask, error) {
	account, key := create.Sandbox.Account, create.Sandbox.Key
	create, err := e.check(ctx, create)
	create.Sandbox.Account, create.Sandbox.Key = account, key
	switch {
	case err != nil:
		return create, err
	case create.Repo == nil || create.Repo.PrepareOnly || create.Record != "" || create.Repo.Workspace != "":
		return create, api.Errorf(api.KindInvalid, "a turn of a session is a task on a repository, without a recording and a workspace of its own")
	}
	if _, err := (lineup{e.cfg.Model}).agent(create); err != nil {
		return create, err
	}
	if e.cfg.Check != nil {
		err = checkSandbox(ctx, e.cfg.Check, create)
	}
	return create, err
}

// StartTurn starts the turn of a session. If its task is there already, that is returned.
func (e Turns) StartTurn(ctx context.Context, turn Turn) (api.Task, error) {
	if t, err := e.cfg.Store.Task(ctx, turn.ID); api.KindOf(err) != api.KindNotFound {
		return t, err
	}
	create, err := e.CheckTurn(ctx, turn.Create)
	if err != nil {
		return api.Task{}, err
	}
	ms, err := lineup{e.cfg.Model}.agent(create)
	if err != nil {
		return api.Task{}, err
	}
	t := api.Task{
		ID: turn.ID, State: api.TaskPending, Create: create, Session: turn.Session,
		Account: create.Sandbox.Account, Key: create.Sandbox.Key, Owner: e.cfg.Owner, CreatedAt: e.cfg.Now().UTC(),
		Model: ms.name(), Models: ms.names(),
	}
	return t, e.Engine.start(ctx, t, ms, source{turn: &turn.Turn})
}
