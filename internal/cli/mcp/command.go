package mcp

import (
	"context"
	"sync"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/task"
	"hortus.dev/internal/server/mcp"
)

// Command is "hortus mcp".
type Command struct {
	Serve   serveCmd   `cmd:"" default:"withargs" help:"Serve a coding agent on standard input and output. The word serve is optional."`
	Install installCmd `cmd:"" help:"Print the configuration of a coding agent that uses this server, or write it."`
}

type serveCmd struct {
	Model string `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model of tasks and runs that name none (default: as for hortus run)."`
}

// Help returns what the first line of help does not.
func (serveCmd) Help() string {
	return `A coding agent starts this command; see hortus mcp install. The tools use this machine's daemon, which is started if necessary,
or the one of --host or the current context. docs/mcp.md.`
}

// Run serves until the client ends its input.
func (c *serveCmd) Run(ctx app.Context, a *app.App) error {
	s := mcp.New(mcp.Config{Version: a.Env.Version().Version, Model: c.model(ctx, a)})
	var mu sync.Mutex
	return s.ServeStdio(ctx, func(ctx context.Context) (*client.Client, error) {
		mu.Lock()
		defer mu.Unlock()
		cl, err := a.Client(ctx)
		if err == nil {
			if _, err = cl.Info(ctx); api.KindOf(err) != api.KindUnavailable || ctx.Err() != nil {
				return cl, err
			}
			// The daemon that the client knew has ended.
			a.Disconnect()
			cl, err = a.Client(ctx)
		}
		return cl, err
	}, a.Env.Stdin, a.Env.Stdout)
}

// model is the model of tasks that name none. Standard input belongs to the protocol: nobody is asked.
func (c *serveCmd) model(ctx context.Context, a *app.App) string {
	if c.Model != "" {
		return c.Model
	}
	name, err := task.ModelAtHand(ctx, a)
	if err != nil {
		return "" // of the daemon
	}
	return name
}
