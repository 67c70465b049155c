package task

import (
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
)

// RunCommand is "hortus run".
type RunCommand struct {
	Sentence string   `arg:"" help:"Request in plain language; - reads stdin."`
	Attempts *int     `env:"HORTUS_ATTEMPTS" placeholder:"N" help:"Maximum number of attempts (1 to 10, default 3)."`
	File     []string `name:"file" complete:"files" sep:"none" placeholder:"[NAME=]FILE" help:"Input file for the program's directory, optionally with another name. Repeatable (maximum 2 MiB in total)."`
	Record   string   `complete:"files" placeholder:"FILE" help:"File to record every model call in, without secrets, for --model replay:FILE."`
	schemaFlag
	modelFlag
	taskFlags
	flags.Sandbox
}

// Run requests a verified program.
func (c *RunCommand) Run(ctx app.Context, a *app.App) error {
	sentence, err := a.ReadArgument(c.Sentence)
	if err != nil {
		return err
	}
	if sentence == "" {
		return api.Errorf(api.KindInvalid, "the request is empty").WithHint(`hortus run "print the first 20 prime numbers"`)
	}
	req := api.CreateTask{Request: sentence, Model: c.Model.all, Models: c.Model.by}
	if req.Files, err = readInputs(c.File); err != nil {
		return err
	}
	if req.Schema, err = c.schemaFlag.read(); err != nil {
		return err
	}
	if c.Record != "" {
		abs, err := filepath.Abs(c.Record)
		if err != nil {
			return api.Errorf(api.KindInvalid, "--record: %w", err)
		}
		req.Record = abs
	}
	if c.Attempts != nil {
		if req.Attempts = *c.Attempts; req.Attempts < 1 || req.Attempts > api.MaxAttempts {
			return api.Errorf(api.KindInvalid, "--attempts: %d is not between 1 and %d", req.Attempts, api.MaxAttempts)
		}
	}
	return perform(ctx, a, req, c.taskFlags, &c.Sandbox)
}

// ExecuteCommand is "hortus execute".
type ExecuteCommand struct {
	Artifact string `arg:"" complete:"files" placeholder:"FILE" help:"Program as JSON (api.CodeArtifact); - reads stdin."`
	schemaFlag
	taskFlags
	flags.Sandbox
}

// Run runs a program once.
func (c *ExecuteCommand) Run(ctx app.Context, a *app.App) error {
	var artifact api.CodeArtifact
	if err := a.ReadJSON(c.Artifact, &artifact); err != nil {
		return err
	}
	schema, err := c.schemaFlag.read()
	if err != nil {
		return err
	}
	return perform(ctx, a, api.CreateTask{Artifact: &artifact, Schema: schema}, c.taskFlags, &c.Sandbox)
}
