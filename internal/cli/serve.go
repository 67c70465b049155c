package cli

import (
	"fmt"
	"path/filepath"

	"hortus.dev/api"
)

// ServeOptions are what `hortus serve` was told; what is empty was not.
type ServeOptions struct {
	DataDir, ConfigFile, LogLevel string
	// Listen is HOST:PORT. Insecure is "true" for one that others than this machine
	// may reach.
	Listen, Insecure string
	// Announce is told where the daemon is reached, and the first key where one was
	// made.
	Announce func(url string, first api.CreatedKey)
}

type serveCmd struct {
	Listen   string `env:"HORTUS_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on (default: 127.0.0.1:7070)."`
	Insecure bool   `name:"insecure-listen" env:"HORTUS_INSECURE_LISTEN" help:"Listen where other machines reach it, although nothing is encrypted: keys can be read on the way."`
}

func (*serveCmd) OnlyHere() string { return "hortus serve" }

// Run serves until it is told to end.
func (c *serveCmd) Run(ctx runContext, a *app) error {
	if a.env.Serve == nil {
		return api.Errorf(api.KindUnsupported, "sandboxes need Linux; this is a client").WithHint("run hortus serve on a Linux machine or in WSL2")
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	opt := ServeOptions{DataDir: dir, LogLevel: string(a.opt.LogLevel), Listen: c.Listen, Announce: a.announce}
	if a.opt.Config != "" {
		if opt.ConfigFile, err = filepath.Abs(a.opt.Config); err != nil {
			return api.Errorf(api.KindInvalid, "--config: %w", err)
		}
	}
	if c.Insecure {
		opt.Insecure = "true"
	}
	return a.env.Serve(ctx, opt)
}

// announce says where the daemon is reached, and how with the first key. The key is
// printed here and nowhere else, and never into a log.
func (a *app) announce(url string, first api.CreatedKey) {
	if a.opt.JSON {
		out := struct {
			URL string          `json:"url"`
			Key *api.CreatedKey `json:"key,omitempty"`
		}{URL: url}
		if first.Secret != "" {
			out.Key = &first
		}
		_ = a.json(out) // it serves whether or not somebody reads this
		return
	}
	a.note("serving at %s", url)
	if first.Secret == "" {
		return
	}
	a.note("the first API key, of account %s with the role %s; it is shown this once:", first.Account, first.Role)
	fmt.Fprintf(a.env.Stdout, "export E2B_API_KEY=%s\nexport E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", first.Secret, url, url)
}
