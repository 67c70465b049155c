package task

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/repository/git/checkout"
)

// maxPatch bounds a patch that is read whole, in bytes.
const maxPatch = 256 << 20

type taskDiffCmd struct {
	ID    string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Stat  bool   `help:"List the changed files with added and deleted lines only."`
	Round *int   `placeholder:"N" help:"Round whose patch to print (default: the task's result)."`
}

// Run prints a patch. Into anything but a terminal it goes byte for byte.
func (c *taskDiffCmd) Run(ctx app.Context, a *app.App) error {
	cl, t, err := repoTask(ctx, a, c.ID)
	if err != nil {
		return err
	}
	round := 0
	if c.Round != nil {
		if round = *c.Round; round < 1 {
			return api.Errorf(api.KindInvalid, "--round: %d is not above 0", round)
		}
	}
	if c.Stat && round == 0 {
		if t.Repo == nil || t.Repo.Head == "" {
			return nothingYet(t)
		}
		if a.Flags.JSON {
			return a.JSON(t.Repo.Files)
		}
		return showFiles(a, t.Repo.Files)
	}
	patch, err := cl.Tasks.Diff(ctx, t.ID, round)
	if err != nil {
		return err
	}
	defer patch.Close()
	if round == 0 && !a.Flags.JSON {
		for i, r := range t.Repo.Refused {
			if i == maxRejected {
				a.Note("not in the patch: %d more", len(t.Repo.Refused)-i)
				break
			}
			a.Note("not in the patch: %s: %s", r.Path, r.Why)
		}
	}
	switch {
	case c.Stat:
		text, err := readPatch(patch)
		if err != nil {
			return err
		}
		files, err := person(a).Stat(ctx, text)
		if err != nil {
			return err
		}
		list := make([]api.FileChange, 0, len(files))
		for _, f := range files {
			list = append(list, api.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted, Binary: f.Binary})
		}
		if a.Flags.JSON {
			return a.JSON(list)
		}
		return showFiles(a, list)
	case a.Flags.JSON:
		text, err := readPatch(patch)
		if err != nil {
			return err
		}
		return a.JSON(struct {
			Task  api.TaskID `json:"task"`
			Round int        `json:"round,omitempty"`
			Patch []byte     `json:"patch"`
		}{t.ID, round, text})
	}
	if f, ok := a.Env.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return view.ShowPatch(a.Env.Stdout, patch, a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb")
	}
	return copyOut(a.Env.Stdout, patch, "the patch")
}

// repoTask finds a task on a repository.
func repoTask(ctx context.Context, a *app.App, id string) (*client.Client, api.Task, error) {
	cl, err := a.Client(ctx)
	if err != nil {
		return nil, api.Task{}, err
	}
	t, err := find(ctx, cl, id)
	if err == nil && t.Create.Repo == nil {
		err = api.Errorf(api.KindInvalid, "task %s is not on a repository", t.ID).
			WithHint("its program: hortus task code %s; its output: hortus task logs %s", t.ID, t.ID)
	}
	return cl, t, err
}

// nothingYet returns why a task has no result.
func nothingYet(t api.Task) error {
	if t.State != api.TaskDone {
		return api.Errorf(api.KindConflict, "task %s is still running: it has no result yet", t.ID).WithHint("hortus task show %s", t.ID)
	}
	if t.Repo != nil && len(t.Repo.Refused) > 0 {
		return api.Errorf(api.KindConflict, "all changes of task %s were rejected", t.ID).WithHint("see which and why: hortus task show %s", t.ID)
	}
	return api.Errorf(api.KindConflict, "task %s changed nothing", t.ID).WithHint("see how it ended: hortus task show %s", t.ID)
}

// showFiles lists files, one a line.
func showFiles(a *app.App, files []api.FileChange) error {
	w := bufio.NewWriter(a.Env.Stdout)
	added, deleted := 0, 0
	for _, f := range files {
		added, deleted = added+f.Added, deleted+f.Deleted
		line := view.FileLine(f)
		if f.Status == "" {
			line = strings.TrimPrefix(line, "? ")
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s changed, +%d -%d\n", cmp.Or(human.Count(len(files), "file"), "nothing"), added, deleted)
	return w.Flush()
}

// readPatch reads a whole patch.
func readPatch(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPatch+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindUnavailable, "the download of the patch was interrupted: %w", err)
	case len(b) > maxPatch:
		return nil, api.Errorf(api.KindExhausted, "the patch has more than %s", human.Size(maxPatch)).WithHint("use its commits: hortus task apply ID --branch")
	}
	return b, nil
}

// copyOut copies what is kept of a task to stdout.
func copyOut(w io.Writer, r io.Reader, what string) error {
	if _, err := io.Copy(w, r); err != nil {
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err)
	}
	return nil
}

type taskApplyCmd struct {
	ID     string     `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Repo   string     `complete:"dirs" placeholder:"PATH" help:"Checkout to change (default: the checkout of the working directory)."`
	Check  bool       `help:"Check whether the patch applies; change nothing."`
	Branch branchFlag `placeholder:"[=NAME]" help:"Create a local branch with the commits (default name: hortus/...) and leave the working tree unchanged."`
}

// branchFlag is a flag whose value may be left out.
type branchFlag struct {
	given bool
	name  string
}

// IsBool lets the flag stand without a value.
func (*branchFlag) IsBool() bool { return true }

// Decode reads the flag.
func (b *branchFlag) Decode(ctx *kong.DecodeContext) error {
	b.given = true
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		if b.name = fmt.Sprint(ctx.Scan.Pop().Value); b.name == "" {
			return api.Errorf(api.KindInvalid, "the branch name is empty")
		}
	}
	return nil
}

// applyResult is what `task apply --json` says.
type applyResult struct {
	Task   api.TaskID       `json:"task"`
	Repo   string           `json:"repo"`
	Commit string           `json:"commit"`
	Branch string           `json:"branch,omitempty"`
	Files  []api.FileChange `json:"files"`
	// Checked is true if nothing was changed.
	Checked bool `json:"checked,omitempty"`
}

// Run brings a result into a person's checkout. No other command writes there.
func (c *taskApplyCmd) Run(ctx app.Context, a *app.App) error {
	if c.Check && c.Branch.given {
		return api.Errorf(api.KindInvalid, "--check and --branch exclude each other: a branch changes no file")
	}
	cl, t, err := repoTask(ctx, a, c.ID)
	if err != nil {
		return err
	}
	if t.State != api.TaskDone || t.Repo == nil || t.Repo.Head == "" {
		return nothingYet(t)
	}
	dir, err := filepath.Abs(cmp.Or(c.Repo, "."))
	if err != nil {
		return api.Errorf(api.KindInvalid, "--repo: %w", err)
	}
	g := person(a)
	tree, err := g.Toplevel(ctx, dir)
	if err == nil && tree.Bare && !c.Branch.given {
		err = api.Errorf(api.KindInvalid, "%s has no working tree", tree.Root).WithHint("--branch makes a branch there")
	}
	if err != nil {
		hint := "name it: --repo PATH"
		if filepath.IsAbs(t.Create.Repo.URL) {
			hint = "name it: --repo " + t.Create.Repo.URL
		}
		if api.KindOf(err) != api.KindNotFound {
			hint = cmp.Or(api.HintOf(err), hint)
		}
		if api.KindOf(err) == api.KindUnsupported {
			hint += "; or by hand: hortus task diff " + t.ID.Short() + " | git apply"
		}
		return api.AsError(err).WithHint("%s", hint)
	}
	member := ""
	if len(t.Repo.Repositories) > 0 {
		if member, t, err = ofCheckout(ctx, g, tree, t); err != nil {
			return err
		}
	}
	if _, err := g.Commit(ctx, tree.Root, t.Repo.Commit); err != nil {
		return api.Errorf(api.KindConflict, "%s lacks the base commit of the work, %.12s", tree.Root, t.Repo.Commit).
			WithHint("run git fetch, or set the right checkout: --repo PATH")
	}
	if t.Outcome != api.OutcomeVerified {
		a.Note("hortus: WARNING: this result is not verified: the task ended as %s", t.Outcome)
	}
	for _, w := range view.RepoWarnings(*t.Repo) {
		a.Note("hortus: WARNING: %s", w)
	}
	done := applyResult{Task: t.ID, Repo: tree.Root, Commit: t.Repo.Head, Files: t.Repo.Files, Checked: c.Check}
	if c.Branch.given {
		done.Branch = cmp.Or(c.Branch.name, t.Repo.Branch, "hortus/"+t.ID.Short())
		err = importBranch(ctx, a, cl, g, t, member, tree, done.Branch)
	} else {
		err = c.patch(ctx, a, cl, g, t, member, tree)
	}
	if err != nil {
		return err
	}
	if !c.Check && t.Outcome == api.OutcomeVerified {
		if _, err := cl.Tasks.Applied(ctx, t.ID); err != nil {
			a.Note("hortus: the daemon did not record that the result was applied, so later tasks do not learn from it: %v", err)
		}
	}
	return showApplied(a, done)
}

// ofCheckout finds the repository of a task on several that a checkout is of: the one whose commit it has. It returns the
// task with the result of that one.
func ofCheckout(ctx context.Context, g checkout.User, tree checkout.Info, t api.Task) (name string, part api.Task, err error) {
	var found, all []string
	for _, m := range t.Repo.Repositories {
		all = append(all, m.Name)
		if _, err := g.Commit(ctx, tree.Root, m.Commit); err == nil {
			found = append(found, m.Name)
		}
	}
	if len(found) != 1 {
		return "", t, api.Errorf(api.KindConflict, "%s has the base commit of %d of the %d repositories of the task (%s); it needs to have exactly one", tree.Root, len(found), len(all), human.List(all)).
			WithHint("run git fetch, or set the right checkout: --repo PATH")
	}
	res, _ := t.Repo.Of(found[0])
	if res.Head == "" {
		return "", t, api.Errorf(api.KindInvalid, "the task changed nothing in %s", found[0])
	}
	t.Repo = &res
	return found[0], t, nil
}

// patch applies the patch to the working tree.
func (c *taskApplyCmd) patch(ctx context.Context, a *app.App, cl *client.Client, g checkout.User, t api.Task, member string, tree checkout.Info) error {
	open := func() (io.ReadCloser, error) { return cl.Tasks.Diff(ctx, t.ID, 0) }
	if member != "" {
		open = func() (io.ReadCloser, error) { return cl.Tasks.DiffOf(ctx, t.ID, member) }
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := readPatch(r)
	if err != nil {
		return err
	}
	paths, err := g.Touched(ctx, text)
	if err != nil {
		return err
	}
	dirty, err := g.Changed(ctx, tree.Root, paths)
	if err != nil {
		return err
	}
	if len(dirty) > 0 {
		return api.Errorf(api.KindConflict, "%s in %s would be changed and %s uncommitted changes: %s", human.Count(len(dirty), "file"), tree.Root,
			map[bool]string{true: "has", false: "have"}[len(dirty) == 1], human.List(dirty)).
			WithHint("git stash or git commit them first; or take the work as a branch: hortus task apply %s --branch", t.ID)
	}
	if tree.Head != t.Repo.Commit {
		a.Note("hortus: the work started from %.12s, and %s is at %.12s", t.Repo.Commit, tree.Root, tree.Head)
	}
	err = g.Apply(ctx, tree.Root, bytes.NewReader(text), checkout.ApplyOptions{Check: c.Check, Max: maxPatch})
	if api.KindOf(err) == api.KindConflict {
		return api.AsError(err).WithHint("nothing was changed; create a branch and merge it: hortus task apply %s --branch", t.ID)
	}
	return err
}

// maxBundle bounds the commits that are brought into a checkout, in bytes.
const maxBundle = 1 << 30

// maxRejected is how many changes are listed that are not in a patch.
const maxRejected = 20

// importBranch makes a branch of the result's commits.
func importBranch(ctx context.Context, a *app.App, cl *client.Client, g checkout.User, t api.Task, member string, tree checkout.Info, branch string) error {
	open := func() (io.ReadCloser, error) { return cl.Tasks.Bundle(ctx, t.ID) }
	if member != "" {
		open = func() (io.ReadCloser, error) { return cl.Tasks.BundleOf(ctx, t.ID, member) }
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.CreateTemp("", "hortus-*.bundle")
	if err != nil {
		return api.Errorf(api.KindUnavailable, "store the commits temporarily: %w", err)
	}
	defer os.Remove(f.Name())
	n, err := io.Copy(f, io.LimitReader(r, maxBundle+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return api.Errorf(api.KindUnavailable, "the download of the commits was interrupted: %w", err)
	}
	if n > maxBundle {
		return api.Errorf(api.KindExhausted, "the commits have more than %s", human.Size(maxBundle))
	}
	err = g.Import(ctx, tree.Root, f.Name(), branch, t.Repo.Head)
	if api.KindOf(err) == api.KindExists {
		return api.AsError(err).WithHint("use another name: hortus task apply %s --branch=NAME", t.ID)
	}
	return err
}

func showApplied(a *app.App, d applyResult) error {
	if a.Flags.JSON {
		return a.JSON(d)
	}
	if err := showFiles(a, d.Files); err != nil {
		return err
	}
	switch {
	case d.Branch != "":
		a.Note("hortus: branch %s in %s is at %.12s; your working tree is as it was", d.Branch, d.Repo, d.Commit)
		a.Note("  next: git switch %s", d.Branch)
	case d.Checked:
		a.Note("hortus: the patch applies to %s; nothing was changed", d.Repo)
	default:
		a.Note("hortus: applied to %s; not committed", d.Repo)
	}
	return nil
}

type taskDeliverCmd struct {
	ID string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	DeliveryFlags
}

// Help returns what the first lines of help do not.
func (taskDeliverCmd) Help() string {
	return "Without --push and --mr the task's own delivery options are used. The branch policy is checked again. " +
		"Repeating a delivery is safe: an existing branch or merge request is not created twice."
}

// Run delivers the result of a verified task.
func (c *taskDeliverCmd) Run(ctx app.Context, a *app.App) error {
	// The daemon must have the tokens that are set here.
	a.NeedForges = true
	cl, t, err := repoTask(ctx, a, c.ID)
	if err != nil {
		return err
	}
	asked := *t.Create.Repo
	push, request := c.Push || c.MR, c.MR
	if !push {
		push, request = asked.Push || asked.MergeRequest, asked.MergeRequest
	}
	// What was requested at first needs not be said again.
	if err := (&DeliveryFlags{Push: push, MR: request, Draft: c.Draft, Target: c.Target, Remote: c.Remote}).Delivers(); err != nil {
		return err
	}
	req := api.DeliverTask{Push: push, MergeRequest: request, Draft: c.Draft || request && asked.Draft, Target: c.Target}
	if push && len(asked.Also) > 0 {
		if req.Remotes, err = c.remotes(ctx, a, asked); err != nil {
			return err
		}
	} else if push && (c.Remote != "" || asked.Remote == "") {
		var tree checkout.Info
		g := person(a)
		if filepath.IsAbs(asked.URL) {
			if tree, err = g.Toplevel(ctx, asked.URL); err != nil {
				return err
			}
		}
		if req.Remote, err = c.remote(ctx, a, g, tree); err != nil {
			return err
		}
	}
	if t, err = cl.Tasks.Deliver(ctx, t.ID, req); err != nil {
		return err
	}
	if t.Repo == nil {
		return api.Errorf(api.KindInternal, "the daemon returned no result of task %s", t.ID)
	}
	if a.Flags.JSON {
		err = a.JSON(t)
	} else {
		err = showResult(a, *t.Repo)
	}
	if err != nil {
		return err
	}
	p := view.NewProgress(a.Env, a.Flags.Quiet, t.ID)
	defer p.Close()
	p.Delivery(t)
	if !view.Delivered(t, request) {
		return app.ExitCode(1)
	}
	return nil
}

// remotes are where several repositories are pushed to that have no remote yet.
func (c *taskDeliverCmd) remotes(ctx context.Context, a *app.App, asked api.RepoTask) (map[string]string, error) {
	if c.Remote != "" {
		return nil, api.Errorf(api.KindInvalid, "--remote cannot be used with several repositories").WithHint("each is pushed to the origin of its checkout, or to its URL")
	}
	out := map[string]string{}
	g := person(a)
	for _, r := range asked.All() {
		if r.Remote != "" || !filepath.IsAbs(r.URL) {
			continue
		}
		tree, err := g.Toplevel(ctx, r.URL)
		if err != nil {
			return nil, err
		}
		if out[r.Name], err = (&DeliveryFlags{}).remote(ctx, a, g, tree); err != nil {
			return nil, err
		}
	}
	return out, nil
}
