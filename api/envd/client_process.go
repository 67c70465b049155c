package envd

import (
	"context"
	"strconv"
	"time"
)

// StartOptions is what a Start asks for beyond its request.
type StartOptions struct {
	User   string // empty: the default identity
	ExecID string // names the process for a later Connect
	// Timeout is the process's lifetime; it is killed when it has lived that
	// long. 0 means no bound.
	Timeout time.Duration
	// OutputLimit kills the process when it has written more, in bytes; 0
	// means no bound.
	OutputLimit int64
	// Keepalive requests an event in each such stretch of silence.
	Keepalive time.Duration
	// WarmUp starts a process in a guest that nobody has claimed.
	WarmUp bool
	// Keep marks the stream of the command's record. See HeaderKeep.
	Keep bool
}

// ConnectOptions says from where on a Connect wants output.
type ConnectOptions struct {
	User   string
	ExecID string // finds the process when the selector is empty
	// Offset replays the kept output from that byte on; -1 means live only.
	Offset    int64
	Keepalive time.Duration
	// Keep marks the stream of the command's record. See HeaderKeep.
	Keep bool
}

// ProcessStream gives the events of one process.
type ProcessStream struct {
	s    *stream
	resp ProcessResponse
	ev   ProcessEvent
	data DataEvent
}

// Start starts a process and gives its events. It is never sent twice. The
// process does not end with the stream.
func (c *Client) Start(ctx context.Context, req *StartRequest, opt StartOptions) (*ProcessStream, error) {
	extra := []header{connectHeader, versionHeader, userHeader(opt.User), timeoutHeader(opt.Timeout),
		keepaliveHeader(opt.Keepalive), {HeaderExecID, opt.ExecID}}
	if opt.OutputLimit > 0 {
		extra = append(extra, header{HeaderOutputLimit, strconv.FormatInt(opt.OutputLimit, 10)})
	}
	if opt.WarmUp {
		extra = append(extra, header{HeaderWarmUp, "1"})
	}
	if opt.Keep {
		extra = append(extra, header{HeaderKeep, "1"})
	}
	s, err := c.openStream(ctx, ProcStart, req, extra)
	if err != nil {
		return nil, err
	}
	return &ProcessStream{s: s}, nil
}

// Connect attaches to a process that runs, or that ended not long ago.
func (c *Client) Connect(ctx context.Context, sel Selector, opt ConnectOptions) (*ProcessStream, error) {
	extra := []header{connectHeader, versionHeader, userHeader(opt.User), keepaliveHeader(opt.Keepalive),
		{HeaderExecID, opt.ExecID}}
	if opt.Offset >= 0 {
		extra = append(extra, header{HeaderOffset, strconv.FormatInt(opt.Offset, 10)})
	}
	if opt.Keep {
		extra = append(extra, header{HeaderKeep, "1"})
	}
	s, err := c.openStream(ctx, ProcConnect, &ConnectRequest{Process: &sel}, extra)
	if err != nil {
		return nil, err
	}
	return &ProcessStream{s: s}, nil
}

// Next waits for the next event, which is valid until the next call. It gives
// io.EOF after the stream's clean end, an [*Error] when the guest ended it with
// one, the context's error, or one of api.KindUnavailable when the stream was
// cut.
func (p *ProcessStream) Next() (*ProcessEvent, error) {
	p.ev, p.data = ProcessEvent{}, DataEvent{}
	// The event is laid out beforehand so that output costs no allocation; a
	// decoded event names its part, and the others are nil again.
	p.resp.Event = &p.ev
	p.ev.Data = &p.data
	if err := p.s.next(&p.resp); err != nil {
		return nil, err
	}
	if p.ev.Data != nil && p.data.Stdout == nil && p.data.Stderr == nil && p.data.PTY == nil {
		p.ev.Data = nil
	}
	return &p.ev, nil
}

// Close leaves the stream; the process continues. It is idempotent.
func (p *ProcessStream) Close() error { return p.s.Close() }

// List returns the live processes that clients started.
func (c *Client) List(ctx context.Context) ([]*ProcessInfo, error) {
	var out ListResponse
	err := c.unary(ctx, ProcList, "", true, new(Empty), &out)
	return out.Processes, err
}

// SendInput writes to a process's input, or to its terminal. It waits while the
// process does not read.
func (c *Client) SendInput(ctx context.Context, sel Selector, in ProcessInput) error {
	return c.unary(ctx, ProcSendInput, "", false, &SendInputRequest{Process: &sel, Input: &in}, new(Empty))
}

// CloseStdin ends a process's input.
func (c *Client) CloseStdin(ctx context.Context, sel Selector) error {
	return c.unary(ctx, ProcCloseStdin, "", true, &CloseStdinRequest{Process: &sel}, new(Empty))
}

// SendSignal signals a process's group.
func (c *Client) SendSignal(ctx context.Context, sel Selector, sig Signal) error {
	return c.unary(ctx, ProcSendSignal, "", false, &SendSignalRequest{Process: &sel, Signal: sig}, new(Empty))
}

// Resize sets the size of a process's terminal.
func (c *Client) Resize(ctx context.Context, sel Selector, size Size) error {
	return c.unary(ctx, ProcUpdate, "", true, &UpdateRequest{Process: &sel, PTY: &PTY{Size: &size}}, new(Empty))
}
