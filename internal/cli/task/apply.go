package task

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/repository/git/checkout"
)

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

// applied is what `task apply --json` says.
type applied struct {
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
	done := applied{Task: t.ID, Repo: tree.Root, Commit: t.Repo.Head, Files: t.Repo.Files, Checked: c.Check}
	if c.Branch.given {
		done.Branch = cmp.Or(c.Branch.name, t.Repo.Branch, "hortus/"+t.ID.Short())
		err = importBranch(ctx, a, cl, g, t, member, tree, done.Branch)
	} else {
		err = c.patch(ctx, a, cl, g, t, member, tree)
	}
	if err != nil {
		return err
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

func showApplied(a *app.App, d applied) error {
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
