package repo

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
)

// place is where the tools of a sub-agent work. Its sandbox is opened at the first use, unless the copy was made by this process. It
// implements tool.Box.
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
	cfg := p.copies.cfg
	begin, err := cfg.begins(ctx)
	if err != nil {
		return err
	}
	box, err := cfg.sandboxes.Open(ctx, begin.Sandbox, p.id, begin.Access)
	if err != nil {
		return err
	}
	p.set(box)
	return Serve(ctx, box, begin.Services)
}

// Run implements tool.Box.
func (p *copySandbox) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	if err := p.open(ctx); err != nil {
		return api.Exec{}, err
	}
	return p.sandboxSlot.Run(ctx, req, output)
}

// Start implements tool.Box.
func (p *copySandbox) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.sandboxSlot.Start(ctx, req)
}

// ReadFile implements tool.Box.
func (p *copySandbox) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.sandboxSlot.ReadFile(ctx, path, max)
}

// WriteFile implements tool.Box.
func (p *copySandbox) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	return p.sandboxSlot.WriteFile(ctx, path, content, executable)
}
