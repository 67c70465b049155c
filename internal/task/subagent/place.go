package subagent

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/contract"
	"hortus.dev/internal/task/seat"
)

// place is where the tools of a sub-agent work. Its sandbox is opened at the first use, unless the copy was made by this process. It
// implements tool.Box.
type place struct {
	*seat.Seat
	copies *Copies
	id     api.WorkspaceID
	// turn is held while the sandbox is opened. opened, which belongs to who has it, is true when that was tried.
	turn   chan struct{}
	opened bool
}

// open opens the sandbox of a copy that an earlier daemon made.
func (p *place) open(ctx context.Context) error {
	if _, err := p.At(); err == nil {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := p.At(); err == nil || p.opened {
		return err
	}
	p.opened = true
	cfg := p.copies.cfg
	begin, err := cfg.Begins(ctx)
	if err != nil {
		return err
	}
	box, err := cfg.Computers.Open(ctx, begin.Box, p.id, begin.Access)
	if err != nil {
		return err
	}
	p.Sit(box)
	return contract.Serve(ctx, box, begin.Services)
}

// Run implements tool.Box.
func (p *place) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	if err := p.open(ctx); err != nil {
		return api.Exec{}, err
	}
	return p.Seat.Run(ctx, req, output)
}

// Start implements tool.Box.
func (p *place) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.Seat.Start(ctx, req)
}

// ReadFile implements tool.Box.
func (p *place) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.Seat.ReadFile(ctx, path, max)
}

// WriteFile implements tool.Box.
func (p *place) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	return p.Seat.WriteFile(ctx, path, content, executable)
}
