package task

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/repository/git"
)

// repoLineEvery is how often a long fetch prints a line where there is no status line.
const repoLineEvery = 5 * time.Second

// connected finds the connected repository that NAME or NAME@REF stands for. named is false
// for everything that is no such name; a directory of the name comes first.
func connected(ctx context.Context, a *app.App, text string) (address, ref string, named bool, err error) {
	name, ref, at := strings.Cut(text, "@")
	if !api.ValidRepositoryName(name) && !api.RepositoryID(name).Valid() || exists(name) || exists(text) {
		return "", "", false, nil
	}
	// In user@host:path it is an address.
	if ref != "" && git.CheckRevision(ref) != nil {
		return "", "", false, nil
	}
	if at && ref == "" {
		return "", "", false, api.Errorf(api.KindInvalid, "%q ends with @: the branch, tag or commit is missing", text)
	}
	a.NeedForges = true
	// What the task needs of the daemon is known later: it connects again.
	defer a.Disconnect()
	c, err := a.Client(ctx)
	if err != nil {
		return "", "", false, err
	}
	row, err := c.Repositories.Get(ctx, name)
	switch {
	case api.KindOf(err) == api.KindNotFound, err == nil && row.State.Final():
		return "", "", false, api.Errorf(api.KindInvalid, "--repo: %.80q is neither a directory nor a connected repository", name).
			WithHint("list them: hortus repo ls; connect one: hortus repo add PATH|URL")
	case err != nil:
		return "", "", false, err
	}
	return row.URL, cmp.Or(ref, row.Branch), true, nil
}

type repoAddCmd struct {
	Repo   string `arg:"" complete:"dirs" placeholder:"PATH|URL[@BRANCH]" help:"Repository: a directory or a URL, optionally with @BRANCH."`
	Name   string `placeholder:"NAME" help:"Name: lower-case letters, digits, \".\", \"_\" and \"-\" (default: the last part of the path or URL)."`
	Branch string `placeholder:"BRANCH" help:"Branch that tasks start from (default: the repository's own default branch)."`
	Secret string `name:"token-secret" complete:"secrets" placeholder:"NAME" help:"Secret with the token for the repository (default: the credentials of the daemon). It must be able to read the repository; hortus repo check tests it."`
	Every  *every `name:"prepare-every" placeholder:"6h" help:"Interval at which the daemon fetches the repository and prepares what is new (minimum 1m), or never (default)."`
	appFlags
}

// Run connects a repository and prints its name.
func (c *repoAddCmd) Run(ctx app.Context, a *app.App) error {
	address, branch, err := git.ParseSource(c.Repo)
	if err != nil {
		return err
	}
	if branch != "" && c.Branch != "" && branch != c.Branch {
		return api.Errorf(api.KindInvalid, "--branch: %.80q and @%.80s are two branches", c.Branch, branch).WithHint("give one of them")
	}
	req := api.AddRepository{URL: address, Branch: cmp.Or(branch, c.Branch), Name: c.Name, Secret: c.Secret, PrepareEveryMS: c.Every.milliseconds()}
	if filepath.IsAbs(address) {
		tree, err := person(a).Toplevel(ctx, address)
		switch {
		case err == nil && tree.Borrows != nil:
			return tree.Borrows
		case err == nil:
			req.URL = tree.Root
		case api.KindOf(err) != api.KindNotFound:
			return err
		case !exists(address):
			return api.Errorf(api.KindInvalid, "%.200q is neither a directory nor a URL", c.Repo).
				WithHint("give a directory, https://HOST/PATH, ssh://HOST/PATH or USER@HOST:PATH, optionally followed by @ and a branch")
		}
	} else {
		a.NeedForges = true
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	var undo func()
	if req.Secret, req.App, undo, err = c.credential(ctx, cl, req.Secret); err != nil {
		return err
	}
	row, err := fetched(ctx, a, git.DisplayAddress(cmp.Or(c.Name, req.URL)), func(ctx context.Context, cl *client.Client, line func(string)) (api.Repository, error) {
		return cl.Repositories.Add(ctx, req, line)
	})
	if err != nil {
		undo()
		return err
	}
	if a.Flags.JSON {
		return a.JSON(row)
	}
	a.Note("%s is connected: %s, %s in %s, %s", row.Name, tip(row), objects(row.Objects), human.Milliseconds(row.FetchMS), human.Size(row.Bytes))
	for _, line := range outside(row) {
		a.Note("%s", line)
	}
	a.Note(`use it: hortus task --repo %s "Fix the failing test"`, row.Name)
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(row.Name))
	return err
}

// fetched runs a fetch, whose progress is shown until it ended or an interrupt ended it.
func fetched(ctx context.Context, a *app.App, what string, do func(context.Context, *client.Client, func(string)) (api.Repository, error)) (api.Repository, error) {
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return api.Repository{}, err
	}
	p := progress.New(a.Env, a.Flags.Quiet, "repo "+what)
	defer p.Close()
	ctx, done := stop.Cancel(ctx, func() { p.Say("cancelling") })
	defer done()
	p.Doing("connecting")
	row, err := do(ctx, cl, func(line string) {
		line = human.Truncate(strings.TrimSpace(line), 100)
		if took, due := p.Refresh(line, repoLineEvery); due {
			p.Say(line + " (" + human.Duration(took.Truncate(time.Second)) + ")")
		}
	})
	if api.KindOf(err) == api.KindCanceled {
		err = api.Errorf(api.KindCanceled, "the fetch of %s was cancelled", what)
	}
	return row, err
}

// tip describes the commit that a repository was last found at.
func tip(r api.Repository) string {
	if r.Commit == "" {
		return "no commit"
	}
	return fmt.Sprintf("%s at %.12s", cmp.Or(r.Branch, "HEAD"), r.Commit) + human.Prefixed(", ", human.Truncate(r.Subject, 60))
}

// objects counts what a fetch received.
func objects(n int64) string { return cmp.Or(human.Count(int(n), "object"), "no new object") }

// outside says what a checkout of the repository does not have.
func outside(r api.Repository) (lines []string) {
	switch r.Submodules {
	case 0:
	case 1:
		lines = append(lines, "1 submodule is not fetched: its directory stays empty")
	default:
		lines = append(lines, fmt.Sprintf("%d submodules are not fetched: their directories stay empty", r.Submodules))
	}
	switch r.LFSFiles {
	case 0:
	case 1:
		lines = append(lines, "1 file is a Git LFS pointer: its content ("+human.Size(r.LFSBytes)+") is not fetched")
	default:
		lines = append(lines, fmt.Sprintf("%d files are Git LFS pointers: their contents (%s) are not fetched", r.LFSFiles, human.Size(r.LFSBytes)))
	}
	return lines
}

type repoLsCmd struct{}

// Run lists the connected repositories.
func (repoLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Repositories.List(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.Flags.JSON {
		a.Note("no repository is connected; connect one: hortus repo add PATH|URL")
		return nil
	}
	return app.ShowList(a, list, "NAME STATE BRANCH COMMIT SIZE FETCHED PREPARED URL", func(r api.Repository) []string {
		at := "never"
		if !r.FetchedAt.IsZero() {
			at = human.Duration(time.Since(r.FetchedAt).Truncate(time.Second)) + " ago"
		}
		return []string{human.Sanitize(r.Name), human.Sanitize(string(r.State)), human.Sanitize(cmp.Or(r.Branch, "-")), cmp.Or(fmt.Sprintf("%.12s", human.Sanitize(r.Commit)), "-"),
			human.Size(r.Bytes), at, human.Sanitize(cmp.Or(preparation(r, time.Now(), 60), "-")), human.Truncate(git.DisplayAddress(r.URL), 80)}
	})
}

type repoShowCmd struct {
	Name string `arg:"" complete:"connected" help:"Name of the repository, its ID, or a unique prefix of that."`
}

// Run shows a connected repository.
func (c *repoShowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	r, err := cl.Repositories.Get(ctx, c.Name)
	if err != nil {
		return app.Missing(err, "hortus repo ls")
	}
	return app.ShowOne(a, r, func(row func(name, value string)) {
		row("repository", string(r.ID))
		row("name", r.Name)
		row("state", string(r.State))
		row("url", git.DisplayAddress(r.URL))
		row("branch", cmp.Or(r.Branch, "the default branch of the repository"))
		row("commit", r.Commit)
		row("subject", r.Subject)
		for _, line := range outside(r) {
			row("outside", line)
		}
		if r.Bytes > 0 {
			row("copy", human.Size(r.Bytes))
		}
		if !r.FetchedAt.IsZero() {
			row("fetched", fmt.Sprintf("%s, %s in %s", r.FetchedAt.Format(time.RFC3339), objects(r.Objects), human.Milliseconds(r.FetchMS)))
		}
		showPreparation(r, row)
		row("gate", cmp.Or(r.Verify, "detected for each commit"))
		row("isolation", isolationOf(r))
		row("forge", r.Forge)
		row("token", credentialOf(r))
		row("account", r.Account)
		row("key", r.Key)
		row("created", r.CreatedAt.Format(time.RFC3339))
		if !r.EndedAt.IsZero() {
			row("ended", r.EndedAt.Format(time.RFC3339))
		}
		if r.Error != nil {
			row("error", r.Error.Message)
			row("next", r.Error.Hint)
		}
	})
}

type repoRmCmd struct {
	Names []string `arg:"" name:"name" complete:"connected" help:"Names of repositories, their IDs, or unique prefixes of these."`
}

// Run disconnects repositories.
func (c *repoRmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return app.Each(ctx, a, c.Names, "hortus repo ls", cl.Repositories.Remove, func(r api.Repository) string {
		return fmt.Sprintf("%s is disconnected; its cached copy (%s) is kept, and hortus gc removes it after a week without use", r.Name, human.Size(r.Bytes))
	})
}

type repoSyncCmd struct {
	Names   []string `arg:"" optional:"" name:"name" complete:"connected" help:"Repositories to fetch (default: all)."`
	Prepare bool     `help:"Then prepare them in the background: the daemon installs what a new commit needs. hortus repo show NAME shows the result."`
}

// Run fetches repositories, one after the other. One that fails does not stop the others.
func (c *repoSyncCmd) Run(ctx app.Context, a *app.App) error {
	a.NeedForges = true
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	var list []api.Repository
	if len(c.Names) == 0 {
		if list, err = cl.Repositories.List(ctx); err != nil {
			return err
		}
	}
	for _, name := range c.Names {
		r, err := cl.Repositories.Get(ctx, name)
		if err != nil {
			return app.Missing(err, "hortus repo ls")
		}
		list = append(list, r)
	}
	out, failed := []api.Repository{}, error(nil)
	for _, old := range list {
		r, err := fetched(ctx, a, old.Name, func(ctx context.Context, cl *client.Client, line func(string)) (api.Repository, error) {
			if c.Prepare {
				return cl.Repositories.SyncAndPrepare(ctx, string(old.ID), line)
			}
			return cl.Repositories.Sync(ctx, string(old.ID), line)
		})
		if api.KindOf(err) == api.KindCanceled {
			return err
		}
		if err != nil {
			if len(list) == 1 {
				return err
			}
			failed = err
			a.Note("%s: failed: %s", old.Name, err)
			continue
		}
		out = append(out, r)
		if a.Flags.JSON {
			continue
		}
		switch {
		case r.Objects == 0 && r.Commit == old.Commit:
			a.Note("%s: nothing new, %s", r.Name, tip(r))
		case r.Commit == old.Commit || old.Commit == "":
			a.Note("%s: %s in %s, %s", r.Name, objects(r.Objects), human.Milliseconds(r.FetchMS), tip(r))
		default:
			a.Note("%s: %s in %s, %s; it was at %.12s", r.Name, objects(r.Objects), human.Milliseconds(r.FetchMS), tip(r), old.Commit)
		}
		if c.Prepare {
			a.Note("%s is prepared in the background; to see the result: hortus repo show %s", r.Name, r.Name)
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(out); err != nil {
			return err
		}
	}
	if failed != nil {
		return api.Errorf(api.KindOf(failed), "%d of %d repositories could not be fetched", len(list)-len(out), len(list)).WithHint("hortus repo show NAME says why")
	}
	return nil
}

// every is the interval of a schedule; 0 is "never".
type every time.Duration

// UnmarshalText reads an interval of at least a minute, or "never".
func (e *every) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*e = 0
		return nil
	}
	var d flags.Span
	if err := d.UnmarshalText(text); err != nil {
		return err
	}
	*e = every(d)
	return api.RepositorySchedule{PrepareEveryMS: max(1, time.Duration(d).Milliseconds())}.Check()
}

// milliseconds is the interval as the API takes it; 0 for nil.
func (e *every) milliseconds() int64 {
	if e == nil {
		return 0
	}
	return time.Duration(*e).Milliseconds()
}

type repoSetCmd struct {
	Name      string  `arg:"" complete:"connected" help:"Name of the repository, its ID, or a unique prefix of that."`
	Every     *every  `name:"prepare-every" placeholder:"6h" help:"Interval at which the daemon fetches the repository and prepares what is new (minimum 1m), or never."`
	Verify    *string `placeholder:"CMD" help:"Gate command of tasks that name none; an empty text to detect it for each commit."`
	Isolation *string `complete:"isolations" placeholder:"NAME" help:"Isolation of tasks and plans that name none: a backend, or auto; an empty text for the default of the API key or of the daemon."`
	Secret    *string `name:"token-secret" complete:"secrets" placeholder:"NAME" help:"Secret with the token for the repository; an empty text for the credentials of the daemon."`
	appFlags
}

// Run changes a connected repository.
func (c *repoSetCmd) Run(ctx app.Context, a *app.App) error {
	if c.Every == nil && c.Verify == nil && c.Isolation == nil && c.Secret == nil && c.appFlags == (appFlags{}) {
		return api.Errorf(api.KindInvalid, "nothing to change").WithHint("give --prepare-every, --verify, --isolation, --token-secret or --app")
	}
	a.NeedForges = true
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	given := ""
	if c.Secret != nil {
		given = *c.Secret
	}
	secret, named, undo, err := c.credential(ctx, cl, given)
	if err != nil {
		return err
	}
	if secret != "" {
		c.Secret = &secret
	}
	var r api.Repository
	if c.Verify != nil || c.Isolation != nil || c.Secret != nil {
		if r, err = cl.Repositories.Settings(ctx, c.Name, api.RepositorySettings{Verify: c.Verify, Isolation: c.Isolation, Secret: c.Secret, App: named}); err != nil {
			undo()
		}
	}
	if err == nil && c.Every != nil {
		r, err = cl.Repositories.Schedule(ctx, c.Name, time.Duration(*c.Every))
	}
	if err != nil {
		return app.Missing(err, "hortus repo ls")
	}
	if a.Flags.JSON {
		return a.JSON(r)
	}
	if c.Verify != nil {
		a.Note("the gate of %s: %s", r.Name, cmp.Or(r.Verify, "detected for each commit"))
	}
	if c.Isolation != nil {
		a.Note("the isolation of %s: %s", r.Name, isolationOf(r))
	}
	if c.Secret != nil {
		a.Note("the token of %s: %s", r.Name, credentialOf(r))
	}
	if c.Every == nil {
		return nil
	}
	if r.PrepareEveryMS == 0 {
		a.Note("%s is not prepared by itself any more", r.Name)
	} else {
		a.Note("%s is prepared every %s, while the daemon runs; to see the result: hortus repo show %s", r.Name, interval(r.PrepareEveryMS), r.Name)
	}
	return nil
}

// isolationOf says what isolation tasks on a repository get that name none.
func isolationOf(r api.Repository) string {
	return cmp.Or(r.Isolation, "the default of the API key or of the daemon")
}

// interval is a duration without its zero minutes and seconds: "6h".
func interval(ms int64) string {
	text := (time.Duration(ms) * time.Millisecond).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len(zero)+1]
		}
	}
	return text
}

// preparation says how the automatic preparation of a repository stands; "" if there is none. An
// error is cut after most bytes.
func preparation(r api.Repository, now time.Time, most int) string {
	ago := func(t time.Time) string { return human.Duration(max(0, now.Sub(t)).Truncate(time.Second)) + " ago" }
	p := r.Preparation
	switch {
	case p == nil:
		return ""
	case p.Running:
		return "running, started " + ago(p.StartedAt)
	case p.Requested:
		return "requested"
	case p.Error != nil:
		text := fmt.Sprintf("failed %s: %s", ago(p.EndedAt), human.Truncate(p.Error.Message, most))
		if !p.NextAt.IsZero() {
			text += "; next at " + p.NextAt.Format(time.RFC3339)
		}
		return text
	case !p.PreparedAt.IsZero():
		return fmt.Sprintf("prepared %s at %.7s", ago(p.PreparedAt), human.Sanitize(p.Commit))
	case !p.NextAt.IsZero():
		return "waiting"
	}
	return ""
}

// showPreparation shows the automatic preparation of a repository.
func showPreparation(r api.Repository, row func(name, value string)) {
	p := r.Preparation
	if p == nil {
		return
	}
	if r.PrepareEveryMS > 0 {
		row("prepare every", interval(r.PrepareEveryMS))
	}
	row("preparation", preparation(r, time.Now(), 300))
	if p.Error != nil {
		row("help", p.Error.Hint)
		if !p.PreparedAt.IsZero() {
			row("last success", fmt.Sprintf("%s at %.7s", p.PreparedAt.Format(time.RFC3339), p.Commit))
		}
	}
	row("preparation task", string(p.Task))
	if !p.NextAt.IsZero() {
		row("next preparation", p.NextAt.Format(time.RFC3339))
	}
}
