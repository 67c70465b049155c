package task

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
)

// RepoCommand is "hortus repo".
type RepoCommand struct {
	Prepare PrepareCommand `cmd:"" help:"Install what a repository needs, so that its tasks start with it."`
}

// PrepareCommand is "hortus repo prepare".
type PrepareCommand struct {
	Repo        string   `arg:"" complete:"dirs" placeholder:"PATH|URL[@REF]" help:"Repository: a directory or a URL, optionally with @BRANCH, @TAG or @COMMIT."`
	SetupEgress []string `name:"setup-egress" sep:"none" env:"HORTUS_SETUP_EGRESS" placeholder:"VALUE" help:"What the setup may connect to: the package registries of the lock files (default), none, or values of --egress. Repeatable; docs/egress.md."`
	fileFlags
	flags.Sandbox
}

// Run prepares a repository.
func (c *PrepareCommand) Run(ctx app.Context, a *app.App) error {
	// The author is of no commit.
	s := taskStartCmd{Request: "Prepare the repository", Repo: c.Repo, Author: "Hortus <hortus@hortus.dev>", fileFlags: c.fileFlags, Sandbox: c.Sandbox}
	s.SetupEgress = c.SetupEgress
	req, err := s.request(ctx, a)
	if err != nil {
		return err
	}
	req.Repo.PrepareOnly = true
	return prepare(ctx, a, req)
}

// prepare follows a task that prepares, and says what it came to.
func prepare(ctx context.Context, a *app.App, req api.CreateTask) error {
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	t, err := c.Tasks.Create(ctx, req)
	if err != nil {
		return err
	}
	p := view.NewProgress(a.Env, a.Flags.Quiet, t.ID)
	defer p.Close()
	if t, err = follow(ctx, a, c, t.ID, p, stop); err != nil {
		return err
	}
	p.Close()
	switch {
	case a.Flags.JSON:
		if err := a.JSON(t); err != nil {
			return err
		}
	case t.Outcome == api.OutcomeVerified && t.Repo != nil:
		if _, err := fmt.Fprintf(a.Env.Stdout, "prepared %s in %s\n", human.Sanitize(t.Repo.Commit), human.Duration(time.Since(began))); err != nil {
			return api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	default:
		p.RepoVerdict(t, time.Since(began))
	}
	return outcome(t)
}
