package task

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
)

// RepoCommand is "hortus repo".
type RepoCommand struct {
	Add     repoAddCmd     `cmd:"" help:"Connect a repository under a name, and fetch it."`
	Ls      repoLsCmd      `cmd:"" help:"List connected repositories."`
	Show    repoShowCmd    `cmd:"" help:"Show a connected repository."`
	Set     repoSetCmd     `cmd:"" help:"Change a connected repository: its gate command, its token or GitHub App, how often it is prepared."`
	Check   repoCheckCmd   `cmd:"" help:"Test what may be done with a repository: read, push, open merge requests."`
	Detect  repoDetectCmd  `cmd:"" help:"Show what was found in a connected repository: gate commands, setup, branch policy."`
	Gate    repoGateCmd    `cmd:"" help:"Run the gate of a repository without an agent, and print its output."`
	Policy  repoPolicyCmd  `cmd:"" help:"Show or set the branch policy of a repository: prefix of branches, target, drafts, limits."`
	Hook    repoHookCmd    `cmd:"" help:"Show or set the webhook of a repository: an issue's label or a comment starts a task."`
	Sync    repoSyncCmd    `cmd:"" help:"Fetch what is new in connected repositories."`
	Rm      repoRmCmd      `cmd:"" help:"Disconnect repositories. Their cached copies stay until hortus gc removes them."`
	Prepare PrepareCommand `cmd:"" help:"Install what repositories need, so that their tasks start with it."`
}

// PrepareCommand is "hortus repo prepare".
type PrepareCommand struct {
	Repos       []string `arg:"" name:"repo" complete:"repositories" placeholder:"NAME|PATH|URL[@REF]" help:"Repositories, each the name of a connected one, a directory or a URL, optionally with @BRANCH, @TAG or @COMMIT. Several are prepared side by side."`
	SetupSecret []string `name:"setup-secret" sep:"none" complete:"secrets" placeholder:"[VAR=]NAME[@TIME]" help:"Secret that the setup may use. Repeatable; docs/secrets.md."`
	SetupEgress []string `name:"setup-egress" sep:"none" env:"HORTUS_SETUP_EGRESS" placeholder:"VALUE" help:"What the setup may connect to: the package registries of the lock files (default), none, or values of --egress. Repeatable; docs/egress.md."`
	Fresh       bool     `help:"Install again what was installed earlier. Later tasks use the new result."`
	fileFlags
	flags.Sandbox
}

// Run prepares repositories.
func (c *PrepareCommand) Run(ctx app.Context, a *app.App) error {
	if len(c.Repos) > maxRepos {
		return api.Errorf(api.KindInvalid, "%d repositories; the maximum is %d", len(c.Repos), maxRepos)
	}
	reqs := make([]api.CreateTask, len(c.Repos))
	var pull *api.PullImage // the same for all
	for i, repo := range c.Repos {
		var err error
		if reqs[i], err = c.request(ctx, a, repo); err != nil {
			return err
		}
		if pull, err = image.Wanted(a, &c.Sandbox, &reqs[i].Sandbox); err != nil {
			return err
		}
	}
	if len(reqs) > 1 {
		return prepareAll(ctx, a, names(c.Repos), reqs, pull)
	}
	return prepare(ctx, a, reqs[0], pull)
}

// request asks for the preparation of one repository.
func (c *PrepareCommand) request(ctx context.Context, a *app.App, repo string) (api.CreateTask, error) {
	// The author is of no commit.
	s := taskStartCmd{Request: "Prepare the repository", Repo: []string{repo}, Author: "Hortus <hortus@hortus.dev>", fileFlags: c.fileFlags, Sandbox: c.Sandbox}
	s.SetupEgress, s.SetupSecret = c.SetupEgress, c.SetupSecret
	req, err := s.request(ctx, a)
	if err == nil {
		req.Repo.PrepareOnly, req.Repo.Fresh = true, c.Fresh
		a.NeedForges = a.NeedForges || !filepath.IsAbs(req.Repo.URL)
	}
	return req, err
}

// prepare follows a task that prepares, and says what it came to.
func prepare(ctx context.Context, a *app.App, req api.CreateTask, pull *api.PullImage) error {
	return attend(ctx, a, req, pull, func(_ *client.Client, t api.Task, took time.Duration) (said bool, err error) {
		if t.Outcome != api.OutcomeVerified || t.Repo == nil {
			return false, nil
		}
		if _, err := fmt.Fprintf(a.Env.Stdout, "prepared %s in %s\n", human.Sanitize(t.Repo.Commit), human.Duration(took)); err != nil {
			return true, api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
		return true, nil
	})
}

// attend creates a task, follows it to its end, and says what it came to: with say, unless that has nothing to say or JSON is wanted.
func attend(ctx context.Context, a *app.App, req api.CreateTask, pull *api.PullImage, say func(c *client.Client, t api.Task, took time.Duration) (said bool, err error)) error {
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if err := useImage(ctx, a, c, pull, &req.Sandbox, stop); err != nil {
		return err
	}
	began := time.Now()
	t, err := c.Tasks.Create(ctx, req)
	if err != nil {
		return err
	}
	p := view.NewProgress(a.Env, a.Flags.Quiet, t.ID)
	defer p.Close()
	if t, err = Follow(ctx, a, c, t.ID, p, stop); err != nil {
		return err
	}
	p.Close()
	took := time.Since(began)
	said := a.Flags.JSON
	if said {
		err = a.JSON(t)
	} else {
		said, err = say(c, t, took)
	}
	if err != nil {
		return err
	}
	if !said {
		p.RepoVerdict(t, took)
	}
	return ExitOf(t.Outcome, t.Error)
}

const (
	// maxRepos is the maximum number of repositories of one command.
	maxRepos = 32
	// sideBySide is how many of them are prepared at the same time.
	sideBySide = 8
)

// names are short names of repositories, each different.
func names(repos []string) []string {
	out, count := make([]string, len(repos)), map[string]int{}
	for i, r := range repos {
		out[i] = strings.TrimSuffix(path.Base(strings.TrimRight(r, "/")), ".git")
		count[out[i]]++
	}
	for i, r := range repos {
		if count[out[i]] > 1 || out[i] == "." || out[i] == ".." {
			out[i] = r
		}
	}
	return out
}

// lines writes whole lines of several displays. It is no terminal, so none of them has a status line.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// one is a repository that is prepared beside others.
type one struct {
	name string
	task api.Task
	took time.Duration
	err  error
}

// prepareAll prepares several repositories. One that fails does not stop the others.
func prepareAll(ctx context.Context, a *app.App, names []string, reqs []api.CreateTask, pull *api.PullImage) error {
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if err := useImage(ctx, a, c, pull, &reqs[0].Sandbox, stop); err != nil {
		return err
	}
	for i := range reqs {
		reqs[i].Sandbox.Template = reqs[0].Sandbox.Template
	}
	began := time.Now()
	env := a.Env
	env.Stderr = &lines{w: a.Env.Stderr}
	all, slots := make([]one, len(reqs)), make(chan struct{}, sideBySide)
	var wg sync.WaitGroup
	for i, req := range reqs {
		all[i].name = names[i]
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i].prepare(ctx, a, env, c, req, stop)
		})
	}
	wg.Wait()
	return report(a, all, time.Since(began))
}

// prepare runs one of them to its end, with its lines.
func (o *one) prepare(ctx context.Context, a *app.App, env app.Env, c *client.Client, req api.CreateTask, stop *terminal.Interrupts) {
	p := &view.Progress{Display: progress.New(env, a.Flags.Quiet, o.name)}
	defer p.Close()
	never := make(chan struct{})
	close(never)
	began := time.Now()
	if stop.First(never) {
		o.err = api.Errorf(api.KindCanceled, "canceled")
	} else if o.task, o.err = c.Tasks.Create(ctx, req); o.err == nil {
		o.task, o.err = Follow(ctx, a, c, o.task.ID, p, stop)
	}
	o.took = time.Since(began)
	switch {
	case o.err != nil:
		p.Line("", progress.Red, "failed: "+o.err.Error())
	case o.task.Outcome != api.OutcomeVerified || o.task.Repo == nil:
		p.RepoVerdict(o.task, o.took)
	}
}

// report says what was prepared, and returns the error of the first one that was not.
func report(a *app.App, all []one, took time.Duration) (first error) {
	done := 0
	tasks := []api.Task{}
	for _, o := range all {
		err := o.err
		if err == nil {
			tasks = append(tasks, o.task)
			err = ExitOf(o.task.Outcome, o.task.Error)
		}
		if err == nil {
			done++
		} else if first == nil {
			first = err
		}
		if err != nil || a.Flags.JSON {
			continue
		}
		if _, err := fmt.Fprintf(a.Env.Stdout, "prepared %s %.10s in %s\n", human.Sanitize(o.name), human.Sanitize(o.task.Repo.Commit), human.Duration(o.took)); err != nil {
			return api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(tasks); err != nil {
			return err
		}
	}
	if !a.Flags.Quiet {
		fmt.Fprintf(a.Env.Stderr, "hortus: %d of %d repositories prepared in %s\n", done, len(all), human.Duration(took))
	}
	return first
}
