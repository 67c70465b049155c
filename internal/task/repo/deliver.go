package repo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	p := r.newProject(job)
	if err := p.recall(ctx, *job.Task.Repo); err != nil {
		return *job.Task.Repo, err
	}
	w := p.attempt(*job.Task.Repo, job.Save)
	w.usage = job.Task.Usage
	err := w.deliver(ctx)
	return w.res, err
}

// deliver brings the result of each repository to its reviewers, if that was requested. What keeps a delivery from
// happening is in the result and undoes nothing: the work is verified all the same. An error means that the task was
// interrupted.
func (w *attempt) deliver(ctx context.Context) error {
	if !w.project.req.Push && !w.project.req.MergeRequest {
		return nil
	}
	if it := w.project.item(); it != nil && it.Stacked {
		return w.stack(ctx)
	}
	if !w.project.members.several() {
		d := w.project.members[0].delivery(w.res, w.usage, w.res.Delivery, "")
		w.res.Delivery = d.out
		return deliveries{d}.bring(ctx, w)
	}
	var all deliveries
	for i, m := range w.project.members {
		r := &w.res.Repositories[i]
		if r.Head == "" {
			continue
		}
		part, _ := w.res.Of(m.Name)
		d := m.delivery(part, w.usage, r.Delivery, "")
		r.Delivery = d.out
		all = append(all, d)
	}
	return all.bring(ctx, w)
}

// deliveries are those of the repositories that were changed.
type deliveries []*delivery

// bring makes the deliveries. Nothing is pushed anywhere before all are allowed.
func (all deliveries) bring(ctx context.Context, w *attempt) error {
	var refused *delivery
	for _, d := range all {
		if err := d.propose(ctx); err != nil {
			d.out.Error = api.AsError(err)
			refused = d
		}
	}
	for _, d := range all {
		switch {
		case refused == nil:
			if err := d.bring(ctx); err != nil {
				d.out.Error = api.AsError(err)
			}
		case d.out.Error == nil:
			d.out.Error = api.AsError(api.Errorf(api.KindConflict, "nothing was pushed, because the delivery to %s is not possible", refused.repository.Name).
				WithHint("See its error: hortus task show %s.", w.project.task.ID))
		}
	}
	if err := w.save(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// delivery brings the result of a repository to a remote repository and its forge.
type delivery struct {
	repository *repository
	remote     string
	// part is the result of the repository, and out what becomes of its delivery.
	part api.RepoResult
	out  *api.Delivery
	p    Proposal
	// id ends the name of its branch.
	id string
	// rename has another name be used if the branch exists at another commit.
	rename bool
	// base is the commit that it is a change of.
	base string
	// again is true for a branch that is delivered to more than once: by the turns of a session, or by a plan.
	again bool
	// merged is true if its merge request was merged already.
	merged bool
}

// delivery begins one. was is an earlier one; nil if there is none. part is the item of a plan in a stack; empty otherwise.
func (m *repository) delivery(res api.RepoResult, usage api.Usage, was *api.Delivery, part string) *delivery {
	d := &delivery{repository: m, remote: cmp.Or(m.Remote, m.URL), part: res, out: &api.Delivery{Item: part}, base: m.base.Hash, id: strings.TrimPrefix(res.Branch, policy.DefaultPrefix)}
	talk, item := m.project.conversation, m.project.item()
	d.again = talk != nil || item != nil
	if talk != nil {
		d.id = string(talk.turn.Session)
		was = cmp.Or(was, talk.turn.Delivered)
	} else if item != nil {
		was = cmp.Or(was, item.Delivered)
	}
	if part != "" {
		d.id += "-" + part
	}
	here := was != nil && was.Pushed == git.DisplayAddress(d.remote) && was.Item == part
	if here {
		// What an earlier delivery brought there is there, whatever comes of this one.
		o := d.out
		o.Pushed, o.Target, o.Forge, o.URL, o.Number, o.Commit, o.Branch, o.Draft, o.Policy = was.Pushed, was.Target, was.Forge, was.URL, was.Number, was.Commit, was.Branch, was.Draft, was.Policy
	}
	t := m.project.task
	d.part.Delivery = d.out
	t.Repo, t.Usage = &d.part, usage
	d.p = Proposal{Task: t, Remote: d.remote, Source: m.URL, Branch: d.out.Branch, MergeRequest: m.project.req.MergeRequest, Draft: m.project.req.Draft}
	if talk != nil {
		d.p.Requests = talk.turn.Requests
	}
	if here && d.again {
		d.p.Earlier = was
	}
	return d
}

// choose completes the proposal with what the branch policies choose. A branch that was delivered keeps its name.
func (w *delivery) choose(ctx context.Context) error {
	terms, err := w.repository.project.cfg.Deliverer.Terms(ctx, w.p)
	if err != nil {
		return err
	}
	w.rename = terms.Rename && w.out.Pushed == ""
	w.name(cmp.Or(w.out.Branch, terms.Prefix+w.id))
	was := w.out.Policy
	w.out.Policy = nil
	use := func(field, value, from string) {
		w.out.Policy = append(w.out.Policy, api.PolicyField{Name: field, Value: value, From: cmp.Or(from, api.FromBuiltIn)})
	}
	keep := func(fields ...string) {
		for _, f := range was {
			if slices.Contains(fields, f.Name) {
				w.out.Policy = append(w.out.Policy, f)
			}
		}
	}
	if w.out.Pushed != "" {
		keep(api.PolicyPrefix, api.PolicyExists)
	} else {
		use(api.PolicyPrefix, terms.Prefix, terms.From[api.PolicyPrefix])
		use(api.PolicyExists, terms.Existing(), terms.From[api.PolicyExists])
	}
	if !w.p.MergeRequest {
		return nil
	}
	asked := w.repository.project.req
	w.p.Draft = asked.Draft || terms.Draft
	switch opened := w.out.Number > 0 && w.out.Target != ""; {
	case w.p.Target != "": // the branch of the item before
	case opened && (w.p.Earlier != nil || asked.Target == ""):
		w.p.Target = w.out.Target
		keep(api.PolicyTarget)
	case asked.Target != "":
		w.p.Target = asked.Target
		use(api.PolicyTarget, w.p.Target, api.FromTask)
	case terms.Target != "":
		w.p.Target = terms.Target
		use(api.PolicyTarget, w.p.Target, terms.From[api.PolicyTarget])
	default:
		w.p.Target = w.repository.base.Branch
	}
	switch {
	case w.out.Number > 0:
		keep(api.PolicyDraft)
	case terms.Draft:
		use(api.PolicyDraft, "yes", terms.From[api.PolicyDraft])
	case asked.Draft:
		use(api.PolicyDraft, "yes", api.FromTask)
	}
	return nil
}

// name sets the name of the branch.
func (w *delivery) name(branch string) { w.out.Branch, w.p.Branch = branch, branch }

// propose asks the policy.
func (w *delivery) propose(ctx context.Context) (err error) {
	if err := w.choose(ctx); err != nil {
		return err
	}
	if w.p.Files, err = w.touched(ctx); err != nil {
		return err
	}
	return w.repository.step(ctx, api.RepoStepEvent{Step: "policy"}, func() (string, error) { return w.allowed(ctx) })
}

// bring pushes, and opens the merge request.
func (w *delivery) bring(ctx context.Context) error {
	d, first := w.out, w.out.Branch
	err := w.repository.step(ctx, api.RepoStepEvent{Step: "push", Detail: d.Branch}, func() (string, error) {
		src, err := w.repository.project.cfg.Deliverer.Source(ctx, w.remote)
		if err != nil {
			return "", err
		}
		res, err := w.push(ctx, src)
		for n := 2; w.rename && api.KindOf(err) == api.KindConflict && n <= maxNames; n++ {
			w.name(fmt.Sprintf("%s-%d", first, n))
			if _, err := w.allowed(ctx); err != nil {
				return "", err
			}
			res, err = w.push(ctx, src)
		}
		if err != nil {
			return "", err
		}
		d.Commit, d.Pushed = w.part.Head, git.DisplayAddress(w.remote)
		if res.UpToDate {
			return d.Branch + " already exists", nil
		}
		return fmt.Sprintf("%s at %.10s", d.Branch, w.part.Head), nil
	})
	if err != nil || !w.repository.project.req.MergeRequest {
		return err
	}
	return w.repository.step(ctx, api.RepoStepEvent{Step: "merge request"}, func() (string, error) {
		opened, err := w.repository.project.cfg.Deliverer.Open(ctx, w.p)
		if opened.URL != "" {
			d.Forge, d.URL, d.Number, d.Created = opened.Forge, opened.URL, opened.Number, opened.Created
			d.Draft = w.p.Draft && opened.Created || d.Draft && !opened.Created
		}
		return d.URL, err
	})
}

// maxNames is the maximum number of names that are tried for a branch.
const maxNames = 20

// push sets the branch of the remote. That of a plan moves forward only. That of a session continues from what its turns before have left there: from an earlier
// commit of the same work, or, if the session was taken back, from exactly what was pushed last.
func (w *delivery) push(ctx context.Context, src git.Source) (cache.PushResult, error) {
	q := cache.PushRequest{Source: src, Commit: w.part.Head, Branch: w.out.Branch}
	if w.again {
		q.Expect = w.part.Head
	}
	res, err := w.repository.repo.Push(ctx, q)
	if e := w.p.Earlier; w.repository.project.conversation != nil && api.KindOf(err) == api.KindConflict && e != nil && e.Commit != "" {
		q.Expect = e.Commit
		res, err = w.repository.repo.Push(ctx, q)
	}
	return res, err
}

// allowed asks the policy, and completes the proposal with what the forge says.
func (w *delivery) allowed(ctx context.Context) (string, error) {
	d := w.out
	v, err := w.repository.project.cfg.Deliverer.Check(ctx, w.p)
	d.Target = v.Target
	w.p.Target = v.Target
	w.merged = v.Merged
	if d.Refused = v.Refused; err != nil || len(v.Refused) == 0 {
		return "allowed", err
	}
	var all []policy.Refusal
	for _, r := range v.Refused {
		all = append(all, policy.Refusal{Rule: r.Rule, Path: r.Path, Why: r.Why})
	}
	return "", api.AsError(policy.Error(all)).
		WithHint("Nothing was pushed. Apply the work yourself with hortus task apply %s --branch, or ask the operator to change [policy].", w.repository.project.task.ID)
}

// touched are the changed files as the policy looks at them: with their modes and
// sizes, from the commit itself.
func (w *delivery) touched(ctx context.Context) ([]policy.File, error) {
	stats, err := w.repository.repo.Stat(ctx, w.base, w.part.Head)
	if err != nil {
		return nil, err
	}
	entries, err := w.repository.repo.Files(ctx, w.part.Head)
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
