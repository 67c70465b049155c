package task

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/repository/git"
)

type repoCheckCmd struct {
	Repo   string `arg:"" complete:"connected" placeholder:"NAME|URL" help:"Repository: the name of a connected one, or a URL."`
	Secret string `name:"token-secret" complete:"secrets" placeholder:"NAME" help:"Secret with the token (default: that of the connected repository, or the credentials of the daemon)."`
	appFlags
}

// Run tests what may be done with a repository. It fails if a right is missing.
func (c *repoCheckCmd) Run(ctx app.Context, a *app.App) error {
	a.NeedForges = true
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	req := api.CheckRepository{URL: c.Repo}
	var undo func()
	if req.Secret, req.App, undo, err = c.credential(ctx, cl, c.Secret); err != nil {
		return err
	}
	defer undo()
	if api.ValidRepositoryName(c.Repo) || api.RepositoryID(c.Repo).Valid() {
		r, err := cl.Repositories.Get(ctx, c.Repo)
		if err != nil {
			return app.Missing(err, "hortus repo ls")
		}
		if req.URL = r.URL; req.Secret == "" {
			req.Secret, req.App = r.Secret, r.App
		}
	}
	can, err := cl.Repositories.Check(ctx, req)
	if err != nil {
		return err
	}
	missing := 0
	for _, r := range can.Rights {
		if !r.OK {
			missing++
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(can); err != nil {
			return err
		}
	} else {
		if can.Forge != "" {
			a.Note("forge: %s", can.Forge)
		}
		if len(can.Rights) == 0 {
			a.Note("%s is not tested before the fetch: only https addresses are", git.DisplayAddress(req.URL))
		}
		for _, r := range can.Rights {
			line := r.Right + ": yes"
			if !r.OK {
				line = r.Right + ": no: " + r.Reason
			}
			if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(line)); err != nil {
				return api.Errorf(api.KindInternal, "write the answer: %w", err)
			}
			if r.Fix != "" {
				a.Note("%s", r.Fix)
			}
		}
	}
	if missing > 0 {
		return app.ExitCode(1)
	}
	return nil
}

type repoDetectCmd struct {
	Name string `arg:"" complete:"connected" help:"Name of the repository, its ID, or a unique prefix of that."`
}

// Run shows what was found in a connected repository.
func (c *repoDetectCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	d, err := cl.Repositories.Detected(ctx, c.Name)
	if err != nil {
		return app.Missing(err, "hortus repo ls")
	}
	return app.ShowOne(a, d, func(row func(name, value string)) {
		row("commit", d.Commit)
		for _, g := range d.Gates {
			name := "other gate"
			if g.Chosen {
				name = "gate"
			}
			row(name, fmt.Sprintf("%s (%s; %s)", g.Command, g.From, g.Why))
		}
		row("no gate", d.NoGate)
		row("setup", strings.Join(d.Setup, "; "))
		row("found in", strings.Join(d.SetupFrom, ", "))
		row("pushed branches", d.Policy.Branch)
		row("protected branches", strings.Join(d.Policy.Protected, ", "))
		row("maximum change", fmt.Sprintf("%d files, %d lines", d.Policy.MaxFiles, d.Policy.MaxLines))
	})
}

type repoGateCmd struct {
	Repo   string `arg:"" complete:"repositories" placeholder:"NAME|PATH|URL[@REF]" help:"Repository: the name of a connected one, a directory or a URL, optionally with @BRANCH, @TAG or @COMMIT."`
	Verify string `placeholder:"CMD" help:"Gate command (default: that of the connected repository, or the detected one)."`
	Fresh  bool   `help:"Run it again if an earlier task has run it on this commit."`
	flags.Sandbox
}

// Run runs the gate of a repository. It fails if the gate does.
func (c *repoGateCmd) Run(ctx app.Context, a *app.App) error {
	s := taskStartCmd{Request: "Run the gate", Repo: []string{c.Repo}, Author: "Hortus <hortus@hortus.dev>", Sandbox: c.Sandbox} // the author is of no commit
	s.Verify = c.Verify
	req, err := s.request(ctx, a)
	if err != nil {
		return err
	}
	req.Repo.GateOnly, req.Repo.Fresh = true, c.Fresh
	pull, err := image.Wanted(a, &c.Sandbox, &req.Sandbox)
	if err != nil {
		return err
	}
	return attend(ctx, a, req, pull, func(cl *client.Client, t api.Task, _ time.Duration) (said bool, err error) {
		if t.Repo == nil || t.Repo.Before == nil {
			return false, nil
		}
		return true, gateOutput(ctx, a, cl, t)
	})
}

// gateOutput prints what the gate of a dry run printed, and how it ended.
func gateOutput(ctx context.Context, a *app.App, cl *client.Client, t api.Task) error {
	out, err := cl.Tasks.GateOutput(ctx, t.ID, 0, api.GateBefore)
	if err != nil {
		return err
	}
	defer out.Close()
	b, err := io.ReadAll(io.LimitReader(out, 1<<20))
	if err != nil {
		return api.Errorf(api.KindUnavailable, "read the output of the gate: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(strings.TrimRight(line, "\n"))); err != nil {
			return api.Errorf(api.KindInternal, "write the output of the gate: %w", err)
		}
	}
	g := t.Repo.Before
	word := "failed"
	if g.Passed {
		word = "passed"
	}
	a.Note("the gate %s: %s ended with %d in %s", word, human.Sanitize(g.Command), g.Exit.Code, human.Milliseconds(g.MS))
	return nil
}
