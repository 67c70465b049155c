package durable

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/workspace"
)

var _ sandbox.WorkspaceForks = (*Service)(nil)

// ForkStopping implements sandbox.WorkspaceForks.
func (s *Service) ForkStopping(ctx context.Context, id api.WorkspaceID, task api.TaskID) (sandbox.WorkspaceCopy, error) {
	n, err := s.forkOf(id, task)
	if err != nil {
		return nil, err
	}
	return workspaceCopy{s.cfg.Store.BeginFork(ctx, id, n, workspace.Forkable()), id, task}, nil
}

// workspaceCopy is a fork of a workspace whose sandbox is paused for the copy.
type workspaceCopy struct {
	fork *workspace.StoppedFork
	of   api.WorkspaceID
	task api.TaskID
}

// Copy implements sandbox.WorkspaceCopy.
func (c workspaceCopy) Copy() error {
	err := c.fork.Copy()
	if api.KindOf(err) == api.KindExhausted && api.HintOf(err) == "" {
		long := api.Errorf(api.KindExhausted, "%w", err)
		if c.task != "" { // who works in a task can remove files alone
			return long.WithHint("remove what is not needed from the workspace, such as results of a build")
		}
		return long.WithHint("end the sandbox and fork its workspace: hortus workspace fork %s", c.of)
	}
	return err
}

// Finish implements sandbox.WorkspaceCopy.
func (c workspaceCopy) Finish() (api.WorkspaceID, error) {
	w, err := c.fork.Finish()
	return w.ID, err
}

// ForkAgain implements sandbox.WorkspaceForks.
func (s *Service) ForkAgain(ctx context.Context, id api.WorkspaceID, task api.TaskID) (api.WorkspaceID, error) {
	n, err := s.forkOf(id, task)
	if err != nil {
		return "", err
	}
	first, err := s.cfg.Store.Get(id)
	if err != nil {
		return "", err
	}
	n.Parent = first.Parent
	w, err := s.cfg.Store.Fork(ctx, id, n)
	return w.ID, err
}

// forkOf describes a fork that belongs to the account of the workspace, and to a task or to nobody yet.
func (s *Service) forkOf(id api.WorkspaceID, task api.TaskID) (workspace.New, error) {
	w, err := s.cfg.Store.Get(id)
	return workspace.New{Account: w.Account, Task: task, Pending: task == ""}, err
}

// Keep implements sandbox.WorkspaceForks.
func (s *Service) Keep(ctx context.Context, id api.WorkspaceID) error {
	return s.cfg.Store.KeepFork(ctx, id)
}

// Discard implements sandbox.WorkspaceForks.
func (s *Service) Discard(id api.WorkspaceID) error {
	return s.cfg.Store.RemoveLater(id, "the child of a fork that it was made for did not start")
}
