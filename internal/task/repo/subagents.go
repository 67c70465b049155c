package repo

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/journal"
)

// sandboxCopies are the copies of one agent's sandbox, for its sub-agents. make and the Close of a copy may be called from several
// goroutines, and end when they have returned.
//
// A copy lives from make until its Close, at the latest until end. It has a workspace, which the row of the task names while it is there:
// the next daemon removes the workspaces of tasks that no row names. A sub-agent that continues after the end of its daemon gets another
// sandbox over the same workspace, when it uses it first.
type sandboxCopies struct {
	task api.TaskID
	// sandboxes makes copies if it is a [Copier].
	sandboxes Sandboxes
	// agent has the sandbox that is copied.
	agent *sandboxSlot
	// begins says what that sandbox was opened with.
	begins func(ctx context.Context) (Preparation, error)
	// name stores the copies that there are. Its calls come one after the other.
	name func(ctx context.Context, all api.CandidateCopies) error
	// closed learns how many processes may be left of a copy. It may be called from several goroutines.
	closed func(left int)
	logger *slog.Logger

	// turn is held while a copy is made or removed: copies of one sandbox are made one after the other.
	turn chan struct{}
	// named are those that are stored, at first by an earlier daemon. They belong to who has the turn.
	named api.CandidateCopies
}

// namedCopies copies the names of copies, which may be none.
func namedCopies(all api.CandidateCopies) api.CandidateCopies {
	named := api.CandidateCopies{}
	maps.Copy(named, all)
	return named
}

// can reports whether copies can be made here.
func (c *sandboxCopies) can() bool {
	_, ok := c.sandboxes.(Copier)
	return ok
}

// make makes the copy for a sub-agent, whose part of the journal records it. keep takes the outputs of its commands.
func (c *sandboxCopies) make(ctx context.Context, n int, j *journal.Run, keep tool.OutputStore) (loop.Copy, error) {
	name := fmt.Sprintf("%s %d", loop.ResearchTool, n)
	at := c.agent.another()
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
	sandbox := &copySandbox{sandboxSlot: at, copies: c, id: id, turn: make(chan struct{}, 1)}
	set := tool.New(tool.Config{Sandbox: sandbox, Keep: keep})
	return loop.Copy{Tools: tool.Working(set), Close: func(ctx context.Context) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		set.Close(late)
		if c.leave(late, at) && j.Damage() == nil {
			c.remove(late, name, id)
		}
	}}, nil
}

// makeNamed makes a copy and stores its name. The caller has the turn.
func (c *sandboxCopies) makeNamed(ctx context.Context, name string, at *sandboxSlot) (api.WorkspaceID, error) {
	copier, ok := c.sandboxes.(Copier)
	if !ok {
		return "", api.Errorf(api.KindUnsupported, "sandboxes of tasks cannot be copied here")
	}
	of, err := c.agent.sandbox()
	if err != nil {
		return "", err
	}
	p, err := c.begins(ctx)
	if err != nil {
		return "", err
	}
	made, err := copier.Copy(ctx, c.task, of, p)
	if err != nil {
		return "", err
	}
	id := made.Info().Workspace
	at.set(made)
	c.named[name] = string(id)
	if err := c.name(ctx, maps.Clone(c.named)); err != nil {
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
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	proof, err := at.end(late)
	if err != nil {
		proof.Left = max(1, proof.Left)
		c.logger.Error("the sandbox of a sub-agent was not killed", "task", c.task, "err", err)
	}
	c.closed(proof.Left)
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
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	err := c.sandboxes.Discard(late, id)
	if api.KindOf(err) == api.KindNotFound {
		err = nil
	}
	if err == nil && c.named[name] != "" {
		delete(c.named, name)
		err = c.name(late, maps.Clone(c.named))
	}
	if err != nil {
		c.logger.Error("a copy for a sub-agent was not removed", "task", c.task, "copy", name, "workspace", id, "err", err)
	}
}

// end removes what is left: copies that an earlier daemon made for questions that are not asked again.
func (c *sandboxCopies) end(ctx context.Context) {
	for name, id := range maps.Clone(c.named) {
		c.remove(ctx, name, api.WorkspaceID(id))
	}
}

// copySandbox is where the tools of a sub-agent work. Its sandbox is opened at the first use, unless the copy was made by this process. It
// implements tool.Sandbox.
type copySandbox struct {
	*sandboxSlot
	copies *sandboxCopies
	id     api.WorkspaceID
	// turn is held while the sandbox is opened. opened, which belongs to who has it, is true when that was tried.
	turn   chan struct{}
	opened bool
}

// open opens the sandbox of a copy that an earlier daemon made.
func (p *copySandbox) open(ctx context.Context) error {
	if _, err := p.sandbox(); err == nil {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := p.sandbox(); err == nil || p.opened {
		return err
	}
	p.opened = true
	begin, err := p.copies.begins(ctx)
	if err != nil {
		return err
	}
	sandbox, err := p.copies.sandboxes.Open(ctx, begin.Sandbox, p.id, begin.Access)
	if err != nil {
		return err
	}
	p.set(sandbox)
	return Serve(ctx, sandbox, begin.Services)
}

// Run implements tool.Sandbox.
func (p *copySandbox) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	if err := p.open(ctx); err != nil {
		return api.Exec{}, err
	}
	return p.sandboxSlot.Run(ctx, req, output)
}

// Start implements tool.Sandbox.
func (p *copySandbox) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.sandboxSlot.Start(ctx, req)
}

// ReadFile implements tool.Sandbox.
func (p *copySandbox) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.sandboxSlot.ReadFile(ctx, path, max)
}

// WriteFile implements tool.Sandbox.
func (p *copySandbox) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	return p.sandboxSlot.WriteFile(ctx, path, content, executable)
}

// newCopies begins without copies of its sandbox, but for those that the row of a task that continues names.
func (w *attempt) newCopies(named api.CandidateCopies) *sandboxCopies {
	return &sandboxCopies{
		turn: make(chan struct{}, 1), task: w.project.task.ID, sandboxes: w.project.cfg.Sandboxes, agent: w.slot, begins: w.preparation, named: namedCopies(named),
		name: func(ctx context.Context, all api.CandidateCopies) error {
			w.res.Copies = all // the agent waits for its sub-agents
			return w.save(ctx)
		},
		closed: w.steps.closed, logger: w.project.cfg.Logger,
	}
}

// preparation is what the agent's sandbox is opened with.
func (w *attempt) preparation(ctx context.Context) (Preparation, error) {
	access, err := w.spec.access(ctx, w.project)
	return Preparation{Sandbox: w.spec.sandboxRequest(w.project), Access: access, Services: w.project.prepared.Services}, err
}

// research is the agent's way to ask them.
func (w *attempt) research(keep tool.OutputStore) *loop.Research {
	return &loop.Research{
		Tools: tool.Reading(tool.Config{Sandbox: w.slot, Keep: keep}), Reads: tool.Reads(), Copies: w.copies.can(),
		Begin: func(n int) loop.Question {
			q := w.answers.Question(n)
			question := q.For(w.steps.emitter())
			question.Copy = func(ctx context.Context) (loop.Copy, error) { return w.copies.make(ctx, n, q.Run, keep) }
			return question
		},
	}
}

// copied are the copies that the row of a task that continues names for a candidate, or for the only agent (0).
func (p *project) copied(candidate int) api.CandidateCopies {
	switch row := p.task.Repo; {
	case row == nil:
	case candidate == 0:
		return row.Copies
	case candidate <= len(row.Candidates):
		return row.Candidates[candidate-1].Copies
	}
	return nil
}
