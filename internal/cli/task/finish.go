package task

import (
	"context"
	"fmt"
	"io"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
)

// finish prints what a task came to.
func finish(ctx context.Context, a *app.App, c *client.Client, t api.Task, p *view.Progress, out *outDir, took time.Duration) error {
	if t.Create.Repo != nil {
		err := finishRepo(ctx, a, c, t, p, took)
		offerGVisor(a, t, p)
		offerInstall(a, p)
		return err
	}
	if t.Outcome == api.OutcomeVerified {
		if err := out.write(t); err != nil {
			return err
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(t); err != nil {
			return err
		}
	} else if t.Outcome == api.OutcomeVerified {
		if err := taskOutput(ctx, a, c, t.ID, len(t.Attempts), "stdout"); err != nil {
			return err
		}
	}
	p.Verdict(t, took)
	noteDenied(ctx, a, c, t)
	offerGVisor(a, t, p)
	offerInstall(a, p)
	return outcome(t)
}

// finishRepo prints what a task on a repository came to: on stdout the branch, the
// commit and, if there is one, the merge request's address; for each of several
// repositories a line that begins with its name.
func finishRepo(ctx context.Context, a *app.App, c *client.Client, t api.Task, p *view.Progress, took time.Duration) error {
	switch r := t.Repo; {
	case a.Flags.JSON:
		if err := a.JSON(t); err != nil {
			return err
		}
	case r != nil && r.Head != "":
		if err := showResult(a, *r); err != nil {
			return err
		}
	}
	if t.Repo != nil && t.Repo.Head != "" && !a.Flags.JSON && !a.Flags.Quiet {
		p.Patch(ctx, c, t)
	}
	p.RepoVerdict(t, took)
	if err := outcome(t); err != nil {
		return err
	}
	// Anyone who asked for a delivery has not got what was requested without one.
	if t.Create.Repo.Push && !view.Delivered(t, t.Create.Repo.MergeRequest) {
		return app.ExitCode(1)
	}
	return nil
}

// showResult prints the line that programs read.
func showResult(a *app.App, r api.RepoResult) error {
	all := []api.RepositoryResult{{Head: r.Head, Delivery: r.Delivery}}
	if len(r.Repositories) > 0 {
		all = r.Repositories
	}
	for _, m := range all {
		if m.Head == "" {
			continue
		}
		line := human.Sanitize(r.Branch) + " " + human.Sanitize(m.Head)
		if m.Delivery != nil && m.Delivery.URL != "" {
			line += " " + human.Sanitize(m.Delivery.URL)
		}
		if m.Name != "" {
			line = human.Sanitize(m.Name) + " " + line
		}
		if _, err := fmt.Fprintln(a.Env.Stdout, line); err != nil {
			return api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	}
	return nil
}

// outcome is the exit code of a task's end.
func outcome(t api.Task) error {
	switch t.Outcome {
	case api.OutcomeVerified, api.OutcomeAnswered:
		return nil
	case api.OutcomeDeclined:
		return app.ExitCode(api.KindDeclined.ExitCode())
	case api.OutcomeCanceled:
		return app.ExitCode(api.KindCanceled.ExitCode())
	case api.OutcomeFailed:
		if t.Error != nil && t.Error.Kind != api.KindInvalid {
			return app.ExitCode(t.Error.Kind.ExitCode())
		}
	}
	return app.ExitCode(1)
}

// taskOutput copies the whole output of an attempt to stdout, byte for byte.
func taskOutput(ctx context.Context, a *app.App, c *client.Client, id api.TaskID, attempt int, stream string) error {
	r, err := c.Tasks.Output(ctx, id, attempt, stream)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(a.Env.Stdout, r); err != nil {
		return api.Errorf(api.KindUnavailable, "the output of attempt %d: %w", attempt, err)
	}
	return nil
}
