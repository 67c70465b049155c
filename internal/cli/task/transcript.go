package task

import (
	"context"
	"io"
	"slices"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/task/view"
)

// transcript prints what an agent and its model said to each other: for people, or
// with --json the lines as they are kept.
func transcript(ctx context.Context, a *app.App, cl *client.Client, t api.Task, candidate *int) error {
	if t.Create.Repo == nil {
		return api.Errorf(api.KindInvalid, "--transcript: task %s is not on a repository", t.ID)
	}
	n := 0
	if candidate != nil {
		n = *candidate
	}
	r, err := cl.Tasks.TranscriptOf(ctx, t.ID, n)
	if err != nil {
		return err
	}
	defer r.Close()
	if a.Flags.JSON {
		return copyOut(a.Env.Stdout, r, "the transcript")
	}
	return view.ShowTranscript(a.Env.Stdout, r)
}

// gate prints everything that a gate printed.
func (c *taskLogsCmd) gate(ctx context.Context, a *app.App, cl *client.Client, t api.Task) error {
	if c.Stderr {
		return api.Errorf(api.KindInvalid, "--stderr: the output and error output of a gate are stored together")
	}
	which, n := c.Gate, 0
	if which == "" {
		which = api.GateResult
	}
	switch {
	case (which == api.GateBefore || api.IsSetupOutput(which)) && c.Attempt != nil:
		return api.Errorf(api.KindInvalid, "-n: what runs before the work is not part of a round")
	case which == api.GateBefore, api.IsSetupOutput(which):
	case !slices.Contains([]string{api.GateResult, api.GateOriginal, api.GateWithout, api.GateMutant}, which):
		return api.Errorf(api.KindInvalid, "--gate: %.40q is none of before, gate, original, without, mutant and the steps of the setup, such as setup-01", which)
	case c.Attempt != nil:
		if n = *c.Attempt; n < 1 {
			return api.Errorf(api.KindInvalid, "-n: %d is not above 0", n)
		}
	case t.Repo == nil || len(t.Repo.Rounds) == 0:
		return api.Errorf(api.KindNotFound, "task %s has no finished round", t.ID)
	default:
		n = t.Repo.Rounds[len(t.Repo.Rounds)-1].N
	}
	r, err := cl.Tasks.GateOutput(ctx, t.ID, n, which)
	if err != nil {
		return err
	}
	defer r.Close()
	if !a.Flags.JSON {
		return copyOut(a.Env.Stdout, r, "the gate's output")
	}
	data, err := io.ReadAll(io.LimitReader(r, app.MaxCaptured))
	if err != nil {
		return api.Errorf(api.KindUnavailable, "the gate's output: %w", err)
	}
	return a.JSON(struct {
		Task  api.TaskID `json:"task"`
		Round int        `json:"round,omitempty"`
		Gate  string     `json:"gate"`
		Data  []byte     `json:"data"`
	}{t.ID, n, which, data})
}
