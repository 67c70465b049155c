package repo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/journal"
)

// endTime bounds the end of a copy.
const copyEndTime = time.Minute

// Config is what copies are made of. All fields but Named and Logger are required.
type copiesConfig struct {
	task api.TaskID
	// Computers makes copies if it is a [contract.Copier].
	sandboxes Sandboxes
	// Agent has the computer that is copied.
	agent *sandboxSlot
	// Begins says what that computer was opened with.
	begins func(ctx context.Context) (Preparation, error)
	// Named are the copies that an earlier daemon stored, and Name stores those that there are. Its calls come one after the other.
	named api.CandidateCopies
	name  func(ctx context.Context, all api.CandidateCopies) error
	// Closed is told how many processes may be left of a copy. It may be called from several goroutines.
	closed func(left int)
	logger *slog.Logger
}

// Copies are the copies of one agent's sandbox. Make and Close may be called from several goroutines, and End when they have returned.
type sandboxCopies struct {
	cfg copiesConfig
	// turn is held while a copy is made or removed: copies of one sandbox are made one after the other. The next field belongs
	// to who has it.
	turn  chan struct{}
	named api.CandidateCopies
}

// New makes Copies without any.
func newSandboxCopies(cfg copiesConfig) *sandboxCopies {
	cfg.logger = cmp.Or(cfg.logger, slog.New(slog.DiscardHandler))
	c := &sandboxCopies{cfg: cfg, turn: make(chan struct{}, 1), named: maps.Clone(cfg.named)}
	if c.named == nil {
		c.named = api.CandidateCopies{}
	}
	return c
}

// Can reports whether copies can be made here.
func (c *sandboxCopies) can() bool {
	_, ok := c.cfg.sandboxes.(Copier)
	return ok
}

// Make makes the copy for a sub-agent, whose part of the journal records it. keep takes the outputs of its commands.
func (c *sandboxCopies) make(ctx context.Context, n int, j *journal.Run, keep tool.OutputStore) (loop.Copy, error) {
	name := fmt.Sprintf("%s %d", loop.ResearchTool, n)
	at := c.cfg.agent.another()
	id, err := journal.Do(ctx, j, "copy", nil, func(ctx context.Context, _ journal.Try) (api.WorkspaceID, error) {
		select {
		case c.turn <- struct{}{}:
			defer func() { <-c.turn }()
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if id := c.named[name]; id != "" {
			return api.WorkspaceID(id), nil // it was cut after it was stored
		}
		return c.makeNamed(ctx, name, at)
	})
	if err != nil {
		c.leave(ctx, at) // it was made and could not be recorded
		return loop.Copy{}, err
	}
	box := &copySandbox{sandboxSlot: at, copies: c, id: id, turn: make(chan struct{}, 1)}
	set := tool.New(tool.Config{Sandbox: box, Keep: keep})
	return loop.Copy{Tools: tool.Working(set), Close: func(ctx context.Context) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyEndTime)
		defer cancel()
		set.Close(late)
		if c.leave(late, at) && j.Damage() == nil {
			c.remove(late, name, id)
		}
	}}, nil
}

// make makes a copy and stores its name. The caller has the turn.
func (c *sandboxCopies) makeNamed(ctx context.Context, name string, at *sandboxSlot) (api.WorkspaceID, error) {
	copier, ok := c.cfg.sandboxes.(Copier)
	if !ok {
		return "", api.Errorf(api.KindUnsupported, "sandboxes of tasks cannot be copied here")
	}
	of, err := c.cfg.agent.sandbox()
	if err != nil {
		return "", err
	}
	p, err := c.cfg.begins(ctx)
	if err != nil {
		return "", err
	}
	made, err := copier.Copy(ctx, c.cfg.task, of, p)
	if err != nil {
		return "", err
	}
	id := made.Info().Workspace
	at.set(made)
	c.named[name] = string(id)
	if err := c.cfg.name(ctx, maps.Clone(c.named)); err != nil {
		if c.leave(ctx, at) {
			c.discard(ctx, name, id)
		}
		return "", err
	}
	return id, nil
}

// leave ends the sandbox of a copy, if there is one, and reports whether nothing of it is left.
func (c *sandboxCopies) leave(ctx context.Context, at *sandboxSlot) bool {
	if _, err := at.sandbox(); err != nil {
		return true
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyEndTime)
	defer cancel()
	proof, err := at.end(late)
	if err != nil {
		proof.Left = max(1, proof.Left)
		c.cfg.logger.Error("the sandbox of a sub-agent was not killed", "task", c.cfg.task, "err", err)
	}
	c.cfg.closed(proof.Left)
	return err == nil
}

// remove removes the files of a copy and its name.
func (c *sandboxCopies) remove(ctx context.Context, name string, id api.WorkspaceID) {
	c.turn <- struct{}{} // a copy is bounded
	defer func() { <-c.turn }()
	c.discard(ctx, name, id)
}

// discard is remove for a caller that has the turn. What cannot be removed keeps its name.
func (c *sandboxCopies) discard(ctx context.Context, name string, id api.WorkspaceID) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyEndTime)
	defer cancel()
	err := c.cfg.sandboxes.Discard(late, id)
	if api.KindOf(err) == api.KindNotFound {
		err = nil
	}
	if err == nil && c.named[name] != "" {
		delete(c.named, name)
		err = c.cfg.name(late, maps.Clone(c.named))
	}
	if err != nil {
		c.cfg.logger.Error("a copy for a sub-agent was not removed", "task", c.cfg.task, "copy", name, "workspace", id, "err", err)
	}
}

// End removes what is left: copies that an earlier daemon made for questions that are not asked again.
func (c *sandboxCopies) end(ctx context.Context) {
	for name, id := range maps.Clone(c.named) {
		c.remove(ctx, name, api.WorkspaceID(id))
	}
}
