package admin

import (
	"fmt"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// ServeCommand is "hortus serve".
type ServeCommand struct {
	Listen   string `env:"HORTUS_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on (default: 127.0.0.1:7070)."`
	Insecure bool   `name:"insecure-listen" env:"HORTUS_INSECURE_LISTEN" help:"Allow a listen address that other machines can reach. The connection is not encrypted: API keys can be read on the network."`
}

func (*ServeCommand) OnlyHere() string { return "hortus serve" }

// Run serves until it is stopped.
func (c *ServeCommand) Run(ctx app.Context, a *app.App) error {
	if a.Env.Serve == nil {
		return api.Errorf(api.KindUnsupported, "sandboxes need Linux; this machine can only be a client").WithHint("run hortus serve on a Linux machine or in WSL2")
	}
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	opt := app.ServeOptions{DataDir: dir, LogLevel: string(a.Flags.LogLevel), Listen: c.Listen, Announce: func(url string, first api.CreatedKey) { announce(a, url, first) }}
	if a.Flags.Config != "" {
		if opt.ConfigFile, err = filepath.Abs(a.Flags.Config); err != nil {
			return api.Errorf(api.KindInvalid, "--config: %w", err)
		}
	}
	if c.Insecure {
		opt.Insecure = "true"
	}
	return a.Env.Serve(ctx, opt)
}

// announce reports where the daemon is reached, and how with the first key. The key is
// printed here and nowhere else, and never into a log.
func announce(a *app.App, url string, first api.CreatedKey) {
	if a.Flags.JSON {
		out := struct {
			URL string          `json:"url"`
			Key *api.CreatedKey `json:"key,omitempty"`
		}{URL: url}
		if first.Secret != "" {
			out.Key = &first
		}
		_ = a.JSON(out) // it serves whether or not somebody reads this
		return
	}
	a.Note("serving at %s", url)
	if first.Secret == "" {
		return
	}
	a.Note("first API key, account %s, role %s; it is shown only once:", first.Account, first.Role)
	fmt.Fprintf(a.Env.Stdout, "export E2B_API_KEY=%s\nexport E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", first.Secret, url, url)
}
