package repo

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Deliver brings the result of a task that is done to the people who review it, in
// the way in which the end of its run would have: job.Task.Create.Repo says how. Only
// Task, Emit and Save of the job are used. It may be called again after any failure.
// What kept the delivery from happening is in the result.
func (r *Runner) Deliver(ctx context.Context, job Job) (api.RepoResult, error) {
	w := &work{Runner: r, job: job, req: *job.Task.Create.Repo, res: *job.Task.Repo, usage: job.Task.Usage}
	var err error
	if w.repo, err = r.cfg.Git.Find(w.req.URL); err != nil {
		return w.res, err
	}
	w.base = cache.Commit{Hash: w.res.Commit, Branch: w.res.Base}
	err = w.delivery().deliver(ctx)
	return w.res, err
}

// delivery brings a task's result to a remote repository and its forge.
type delivery struct{ *work }

func (w *work) delivery() delivery { return delivery{w} }

// deliver pushes the branch and opens the merge request, if that was requested.
// What keeps a delivery from happening is in the result and undoes nothing: the
// work is verified all the same. An error means that the task was cut short.
func (w delivery) deliver(ctx context.Context) error {
	if !w.req.Push && !w.req.MergeRequest {
		return nil
	}
	remote := w.req.Remote
	remote = cmp.Or(remote, w.req.URL)
	d := &api.Delivery{Branch: w.res.Branch}
	if was := w.res.Delivery; was != nil && was.Pushed == git.DisplayAddress(remote) {
		// What an earlier delivery brought there is there, whatever comes of this one.
		d.Pushed, d.Target, d.Forge, d.URL, d.Number = was.Pushed, was.Target, was.Forge, was.URL, was.Number
	}
	w.res.Delivery = d
	if err := w.offer(ctx, d, remote); err != nil {
		d.Error = api.AsError(err)
	}
	if err := w.save(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// target is what a merge request aims at as far as is known here.
func (w delivery) target() string {
	switch {
	case !w.req.MergeRequest:
		return ""
	case w.req.Target != "":
		return w.req.Target
	}
	return w.base.Branch
}

// offer asks the policy, pushes, and opens the merge request.
func (w delivery) offer(ctx context.Context, d *api.Delivery, remote string) error {
	files, err := w.touched(ctx)
	if err != nil {
		return err
	}
	t := w.job.Task
	t.Repo, t.Usage = &w.res, w.usage
	p := Proposal{
		Task: t, Remote: remote, Branch: d.Branch, Target: w.target(), Files: files,
		MergeRequest: w.req.MergeRequest, Draft: w.req.Draft,
	}
	if err := w.step(ctx, api.RepoStepEvent{Step: "policy"}, func() (string, error) { return w.allowed(ctx, d, &p) }); err != nil {
		return err
	}
	err = w.step(ctx, api.RepoStepEvent{Step: "push", Detail: d.Branch}, func() (string, error) {
		src, err := w.cfg.Deliverer.Source(remote)
		if err != nil {
			return "", err
		}
		res, err := w.repo.Push(ctx, cache.PushRequest{Source: src, Commit: w.res.Head, Branch: d.Branch})
		if err != nil {
			return "", err
		}
		d.Pushed = git.DisplayAddress(remote)
		if res.UpToDate {
			return d.Branch + " already exists", nil
		}
		return fmt.Sprintf("%s at %.10s", d.Branch, w.res.Head), nil
	})
	if err != nil || !w.req.MergeRequest {
		return err
	}
	return w.step(ctx, api.RepoStepEvent{Step: "merge request"}, func() (string, error) {
		opened, err := w.cfg.Deliverer.Open(ctx, p)
		if opened.URL != "" {
			d.Forge, d.URL, d.Number, d.Created = opened.Forge, opened.URL, opened.Number, opened.Created
		}
		return d.URL, err
	})
}

// allowed asks the policy, and completes the proposal with what the forge says.
func (w delivery) allowed(ctx context.Context, d *api.Delivery, p *Proposal) (string, error) {
	v, err := w.cfg.Deliverer.Check(ctx, *p)
	d.Target = v.Target
	p.Target = v.Target
	if d.Refused = v.Refused; err != nil || len(v.Refused) == 0 {
		return "allowed", err
	}
	var all []policy.Refusal
	for _, r := range v.Refused {
		all = append(all, policy.Refusal{Rule: r.Rule, Path: r.Path, Why: r.Why})
	}
	return "", api.AsError(policy.Error(all)).
		WithHint("Nothing was pushed. Apply the work yourself with hortus task apply %s --branch, or ask the operator to change [policy].", w.job.Task.ID)
}

// touched are the changed files as the policy looks at them: with their modes and
// sizes, from the commit itself.
func (w delivery) touched(ctx context.Context) ([]policy.File, error) {
	stats, err := w.repo.Stat(ctx, w.base.Hash, w.res.Head)
	if err != nil {
		return nil, err
	}
	entries, err := w.repo.Files(ctx, w.res.Head)
	if err != nil {
		return nil, err
	}
	is := make(map[string]cache.Entry, len(entries))
	for _, e := range entries {
		is[e.Path] = e
	}
	var out []policy.File
	for _, s := range stats {
		f := policy.File{Path: s.Path, From: s.OldPath, Status: policyStatus(s.Status), Added: s.Added, Deleted: s.Deleted}
		if e, ok := is[s.Path]; ok {
			mode, err := strconv.ParseUint(string(e.Mode), 8, 32)
			if err != nil {
				return nil, api.Errorf(api.KindInternal, "the mode of %q is %q", s.Path, e.Mode)
			}
			f.Mode, f.Size = uint32(mode), e.Size
		}
		out = append(out, f)
	}
	return out, nil
}

// policyStatus is git's letter for a change in the policy's words.
func policyStatus(c byte) string {
	switch c {
	case 'A':
		return "added"
	case 'D':
		return "removed"
	case 'R':
		return "renamed"
	}
	return "changed"
}
