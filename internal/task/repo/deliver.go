package repo

import (
	"context"
	"fmt"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/forge/policy"
	"hortus.dev/internal/git"
)

// deliver pushes the branch and opens the merge request, if that was asked for.
// What keeps a delivery from happening is in the result and undoes nothing: the
// work is verified all the same. An error means that the task was cut short.
func (w *work) deliver(ctx context.Context) error {
	if !w.req.Push && !w.req.MergeRequest {
		return nil
	}
	remote := w.req.Remote
	if remote == "" {
		remote = w.req.URL
	}
	d := &api.Delivery{Branch: w.res.Branch, Target: w.target()}
	w.res.Delivery = d
	if err := w.offer(ctx, d, remote); err != nil {
		d.Error = api.AsError(err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return w.save(ctx)
}

func (w *work) target() string {
	if w.req.Target != "" {
		return w.req.Target
	}
	return w.base.Branch
}

func (w *work) offer(ctx context.Context, d *api.Delivery, remote string) error {
	files, err := w.touched(ctx)
	if err != nil {
		return err
	}
	t := w.job.Task
	t.Repo, t.Usage = &w.res, w.usage
	p := Proposal{Task: t, Remote: remote, Branch: d.Branch, Target: d.Target, Files: files}
	if d.Refused = w.cfg.Deliverer.Check(p); len(d.Refused) > 0 {
		first := d.Refused[0]
		return api.Errorf(api.KindDenied, "the branch policy refuses to deliver: %s", first.Why).
			WithHint("The branch stays here: hortus task diff %s.", w.job.Task.ID)
	}
	err = w.step(ctx, api.RepoStepEvent{Step: "push", Detail: d.Branch}, func() (string, error) {
		src, err := w.cfg.Deliverer.Source(remote)
		if err != nil {
			return "", err
		}
		res, err := w.repo.Push(ctx, git.PushRequest{Source: src, Commit: w.res.Head, Branch: d.Branch})
		if err != nil {
			return "", err
		}
		d.Pushed = git.Public(remote)
		if res.UpToDate {
			return d.Branch + " was there already", nil
		}
		return fmt.Sprintf("%s at %.10s", d.Branch, w.res.Head), nil
	})
	if err != nil || !w.req.MergeRequest {
		return err
	}
	return w.step(ctx, api.RepoStepEvent{Step: "merge request"}, func() (string, error) {
		opened, err := w.cfg.Deliverer.Open(ctx, p)
		if opened.Refused != nil {
			d.Refused = opened.Refused
		}
		if err != nil {
			return "", err
		}
		d.Forge, d.URL, d.Number, d.Created, d.Target = opened.Forge, opened.URL, opened.Number, opened.Created, opened.Target
		return d.URL, nil
	})
}

// touched are the changed files as the policy looks at them: with their modes and
// sizes, from the commit itself.
func (w *work) touched(ctx context.Context) ([]policy.File, error) {
	stats, err := w.repo.Stat(ctx, w.base.Hash, w.res.Head)
	if err != nil {
		return nil, err
	}
	entries, err := w.repo.Files(ctx, w.res.Head)
	if err != nil {
		return nil, err
	}
	is := make(map[string]git.Entry, len(entries))
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
