package sandbox

import (
	"context"
	"errors"
	"io"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	"hortus.dev/internal/server/execserver"
)

// outside is a sandbox for an agent that runs outside of it.
type outside struct {
	box  *client.Sandbox
	user string
}

// outsideTerminal is the size of terminals, which an agent does not change.
var outsideTerminal = api.PTYSize{Cols: 80, Rows: 24}

func (o outside) Start(ctx context.Context, c execserver.Command) (execserver.Process, error) {
	cmd := o.box.Command(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.User, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, o.user, c.Stdout, c.Stderr
	if c.Terminal {
		size := outsideTerminal
		cmd.PTY = &size
	}
	p := outsideProcess{cmd: cmd}
	if c.Input {
		var err error
		if p.input, err = cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

func (o outside) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	r, _, err := o.box.ReadFile(ctx, o.user, path)
	return r, err
}

func (o outside) WriteFile(ctx context.Context, path string, r io.Reader) error {
	return o.box.WriteFile(ctx, o.user, path, r)
}

func (o outside) Stat(ctx context.Context, path string) (*envd.EntryInfo, error) {
	return o.box.Stat(ctx, o.user, path)
}

func (o outside) List(ctx context.Context, path string) ([]*envd.EntryInfo, error) {
	return o.box.ListDir(ctx, o.user, path, 1)
}

func (o outside) MakeDir(ctx context.Context, path string) error {
	return o.box.MakeDir(ctx, o.user, path)
}

func (o outside) Remove(ctx context.Context, path string) error {
	return o.box.Remove(ctx, o.user, path)
}

// outsideProcess is a command that such an agent has started.
type outsideProcess struct {
	cmd   *client.Cmd
	input io.WriteCloser
}

func (p outsideProcess) Write(b []byte) (int, error) { return p.input.Write(b) }

func (p outsideProcess) Signal(ctx context.Context, signal int) error {
	return p.cmd.Signal(ctx, signal)
}

func (p outsideProcess) Wait() (int, error) {
	err := p.cmd.Wait()
	var exit *client.ExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}
