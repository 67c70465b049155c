package http

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/execserver"
	"hortus.dev/internal/server/guestproxy"
)

const (
	// maxCodex bounds the sessions of Codex, and maxCodexAccount those of one account: each
	// may hold some MiB of what it is being sent.
	maxCodex        = 64
	maxCodexAccount = 8
	// maxCodexFile bounds a file in one of their messages, in bytes.
	maxCodexFile = 4 << 20
)

// codexSessions counts sessions.
type codexSessions struct {
	mu  sync.Mutex
	all int
	by  map[string]int
}

// enter counts a session in. leave must be called after it.
func (c *codexSessions) enter(account string) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.by[account] >= maxCodexAccount:
		return nil, api.Errorf(api.KindExhausted, "%d sessions of Codex are open, which is the maximum of an account", maxCodexAccount)
	case c.all >= maxCodex:
		return nil, api.Errorf(api.KindExhausted, "%d sessions of Codex are open, which is the maximum", maxCodex)
	}
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.all++
	c.by[account]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.by[account]--; c.by[account] == 0 {
			delete(c.by, account)
		}
	}, nil
}

// codex serves a sandbox to Codex, over WebSocket. The session ends with the connection, and
// when the sandbox is not served here any more.
func (d execs) codex(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxID(d.Sandboxes)(r)
	if err != nil {
		return err
	}
	leave, err := d.sessions.enter(api.PrincipalOf(r.Context()).Account)
	if err != nil {
		return err
	}
	defer leave()
	// A stream that carries nothing: its end is that of the sandbox.
	life, err := d.Sandboxes.Guest(r.Context(), id)
	if err != nil {
		return err
	}
	defer life.Close()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if e, ok := life.(guestproxy.Ender); ok {
		work.Go(func() {
			select {
			case <-e.Ended():
				cancel()
			case <-ctx.Done():
			}
		})
	}
	guest := envd.NewClient(envd.ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) { return d.Sandboxes.Guest(ctx, id) }})
	defer guest.Close()
	cfg := execserver.Config{Sandbox: outside{d, id, guest}, MaxFile: maxCodexFile, Log: d.Logger.With("sandbox", id)}
	if err := execserver.Upgrade(ctx, cfg, w, r); err != nil && ctx.Err() == nil {
		d.Logger.Debug("a session of Codex ended", "sandbox", id, "error", err)
	}
	return nil
}

// outside is a sandbox for an agent that runs outside of it. Its commands are recorded.
type outside struct {
	execs
	id    api.SandboxID
	guest *envd.Client
}

// outsideTerminal is the size of terminals, which an agent does not change.
var outsideTerminal = api.PTYSize{Cols: 80, Rows: 24}

func (o outside) Start(ctx context.Context, c execserver.Command) (execserver.Process, error) {
	req := api.ExecRequest{Args: c.Args, Dir: c.Dir, Env: c.Env, Stdin: c.Input}
	if c.Terminal {
		size := outsideTerminal
		req.PTY = &size
	}
	s, err := o.Sandboxes.StartExec(ctx, o.id, req)
	if err != nil {
		return nil, err
	}
	guest, err := o.Sandboxes.ExecClient(ctx, o.id, s.Exec().ID)
	if err != nil && api.KindOf(err) != api.KindConflict { // that is one that has ended, and takes neither input nor signals
		return nil, errors.Join(err, s.Close())
	}
	return &outsideProcess{ctx: ctx, stream: s, command: c, guest: guest}, nil
}

func (o outside) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	r, _, err := o.guest.ReadFile(ctx, "", path)
	return r, envd.APIError(err)
}

func (o outside) WriteFile(ctx context.Context, path string, r io.Reader) error {
	if err := o.Sandboxes.Upload(ctx, o.id, 0); err != nil {
		return err
	}
	return envd.APIError(o.guest.WriteFile(ctx, "", path, r))
}

func (o outside) Stat(ctx context.Context, path string) (*envd.EntryInfo, error) {
	e, err := o.guest.Stat(ctx, "", path)
	return e, envd.APIError(err)
}

func (o outside) List(ctx context.Context, path string) ([]*envd.EntryInfo, error) {
	e, err := o.guest.ListDir(ctx, "", path, 1)
	return e, envd.APIError(err)
}

func (o outside) MakeDir(ctx context.Context, path string) error {
	_, err := o.guest.MakeDir(ctx, "", path)
	if err = envd.APIError(err); api.KindOf(err) == api.KindExists {
		return nil
	}
	return err
}

func (o outside) Remove(ctx context.Context, path string) error {
	return envd.APIError(o.guest.Remove(ctx, "", path))
}

// outsideProcess is a command that such an agent has started.
type outsideProcess struct {
	ctx     context.Context
	stream  ExecStream
	command execserver.Command
	guest   *envd.Client // nil if the command had ended at once
}

// hadEnded is the error for input and signals of a command that had ended at once.
func (p *outsideProcess) hadEnded() error {
	return api.Errorf(api.KindConflict, "command %s has ended", p.stream.Exec().ID)
}

// Write gives it input.
func (p *outsideProcess) Write(b []byte) (int, error) {
	if p.guest == nil {
		return 0, p.hadEnded()
	}
	in := envd.ProcessInput{Stdin: b}
	if p.command.Terminal {
		in = envd.ProcessInput{PTY: b}
	}
	if err := p.guest.SendInput(p.ctx, envd.Selector{}, in); err != nil {
		return 0, envd.APIError(err)
	}
	return len(b), nil
}

func (p *outsideProcess) Signal(ctx context.Context, signal int) error {
	if p.guest == nil {
		return p.hadEnded()
	}
	return envd.APIError(p.guest.SendSignal(ctx, envd.Selector{}, envd.Signal(signal)))
}

// Wait carries the output until the end, and closes what the process has open. It returns at
// the end of the sandbox at the latest.
func (p *outsideProcess) Wait() (int, error) {
	if p.guest != nil {
		defer p.guest.Close()
	}
	defer p.stream.Close()
	stop := context.AfterFunc(p.ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), killTimeout)
		defer cancel()
		_ = p.Signal(ctx, 9)
	})
	defer stop()
	for {
		ev, err := p.stream.Next()
		switch {
		case err != nil:
			return 0, err
		case ev.End != nil:
			return int(ev.End.ExitCode), nil
		case ev.Data == nil:
			continue
		}
		for _, o := range []struct {
			w io.Writer
			p []byte
		}{{p.command.Stdout, ev.Data.Stdout}, {p.command.Stderr, ev.Data.Stderr}, {p.command.Stdout, ev.Data.PTY}} {
			if len(o.p) > 0 {
				_, _ = o.w.Write(o.p) // it takes everything
			}
		}
	}
}
