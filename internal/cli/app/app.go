package app

import (
	"context"
	"log/slog"

	"github.com/alecthomas/kong"

	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// Last names the newest task, or the newest sandbox that lives.
const Last = "last"

// App is one run of one command.
type App struct {
	Env     Env
	Flags   *Flags
	Connect Connect
	conn    *client.Client
	log     *slog.Logger

	Config    *config.Config
	ConfigErr error
	Parsed    *kong.Context
	// models says that the daemon must have the keys of models that are set here.
	NeedModels bool
	// forges says the same of the tokens of forges.
	NeedForges bool
}

// New makes the run of a command, before its flags are parsed.
func New(env Env, connect Connect) *App {
	return &App{Env: env, Flags: &Flags{}, Connect: connect, log: slog.New(slog.DiscardHandler)}
}

// Context carries the context through the parser, which binds by type.
type Context struct{ context.Context }
