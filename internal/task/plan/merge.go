package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/repository/git/cache"
)

// maxRepairs is how often an item continues after a conflict, or a gate that fails on the merged result.
const maxRepairs = 2

// maxDiff bounds a diff that an agent is shown, in bytes.
const maxDiff = 6 << 10

// merge brings the result of an item onto the plan's branch. One result is merged at a time.
func (s *Service) merge(ctx context.Context, id api.PlanID, name string) {
	err := s.mergeNow(ctx, id, name)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.cfg.Logger.Error("merge the result of an item", "plan", id, "item", name, "err", err)
	err = s.with(s.life, id, func(o *openPlan) error {
		if n := o.index(name); n >= 0 && o.items[n].State == words.InProgress {
			o.fail(n, "its result could not be merged: "+api.AsError(err).Message, "")
		}
		return nil
	})
	if err != nil {
		s.cfg.Logger.Error("end an item that cannot be merged", "plan", id, "item", name, "err", err)
	}
}

func (s *Service) mergeNow(ctx context.Context, id api.PlanID, name string) error {
	var it item
	var head, url string
	var author api.Identity
	err := s.with(ctx, id, func(o *openPlan) error {
		n := o.index(name)
		it, head, url, author = o.items[n], o.Head, o.Task.Repo.URL, o.Task.Repo.Author
		it.Tries = slices.Clone(it.Tries)
		return nil
	})
	if err != nil {
		return err
	}
	r, err := s.cfg.Git.Find(url)
	if err != nil {
		return err
	}
	try := it.Last()
	if it.Phase == words.Merges {
		subject, err := r.Resolve(ctx, try.Head)
		if err != nil {
			return err
		}
		res, err := r.Merge(ctx, mergeRequest(id, it, head, author, subject.Subject))
		if err != nil {
			return err
		}
		merged := ""
		// Before a row names the result: what is completed has its commit in the archive.
		archived := s.keepCommits(ctx, id, r, res.Commit, res.Draft)
		err = s.item(id, name, func(o *openPlan, n int) error {
			o.Archived = cmp.Or(archived, o.Archived)
			switch {
			case len(res.Conflicts)+len(res.Lost) > 0:
				return s.conflict(ctx, o, n, r, res)
			case res.Empty:
				o.items[n].Gate = "no change was left: it is on the branch already"
				o.set(n, words.Completed, "", "its change is on the branch already")
				return nil
			}
			t := o.items[n].Last()
			t.Merged = res.Commit
			if t.Base == o.Head && it.Acceptance == "" {
				// The gate of its own task has run on the same files.
				return s.land(ctx, o, n, r, "passed in task "+string(t.Task))
			}
			if t.Check == "" {
				t.Check = api.NewTaskID()
			}
			merged = res.Commit
			o.set(n, words.InProgress, words.Checks, "")
			return nil
		})
		if err != nil || merged == "" {
			return err
		}
	}
	return s.check(ctx, id, name, r)
}

// mergeRequest is the commit of an item on the plan's branch.
func mergeRequest(id api.PlanID, it item, head string, author api.Identity, subject string) cache.MergeRequest {
	try := it.Last()
	body := it.Name()
	if it.Acceptance != "" {
		body += "\n\nAcceptance: " + it.Acceptance
	}
	if body == subject {
		body = ""
	}
	who := cache.Identity{Name: author.Name, Email: author.Email}
	return cache.MergeRequest{
		Base: try.Base, Ours: head, Theirs: try.Head, Author: who, Committer: who, When: try.EndedAt,
		Message:  strings.TrimSpace(subject + "\n\n" + body),
		Trailers: []string{"Hortus-Plan: " + string(id), "Hortus-Item: " + it.ID, "Hortus-Task: " + string(try.Task), "Co-authored-by: Hortus <hortus@hortus.dev>"},
	}
}

// item changes the item of a plan that is in progress, and not one of a plan that is being canceled.
func (s *Service) item(id api.PlanID, name string, f func(o *openPlan, n int) error) error {
	return s.with(s.life, id, func(o *openPlan) error {
		n := o.index(name)
		if n < 0 || o.Canceling || o.items[n].State != words.InProgress {
			return nil
		}
		return f(o, n)
	})
}

// land moves the plan's branch to the merged result of an item.
func (s *Service) land(ctx context.Context, o *openPlan, n int, r *cache.Repo, gate string) error {
	it := &o.items[n]
	to := it.Last().Merged
	if err := r.MoveBranch(ctx, o.Branch, o.Head, to); err != nil {
		if at, e := r.Resolve(ctx, o.Branch); e != nil || at.Hash != to { // it is there if a daemon ended between the two
			return err
		}
	}
	it.Commit, it.Gate, o.Head = to, gate, to
	o.set(n, words.Completed, "", "")
	return nil
}

// check runs the gate on the merged result of an item, which then is on the branch or goes back to its agent.
func (s *Service) check(ctx context.Context, id api.PlanID, name string, r *cache.Repo) error {
	var create api.CreateTask
	var by api.Principal
	var task api.TaskID
	err := s.with(ctx, id, func(o *openPlan) error {
		it := &o.items[o.index(name)]
		create, by, task = o.checkRequest(it.ID, it.Name(), it.Last().Merged, it.Acceptance), o.By, it.Last().Check
		return nil
	})
	if err != nil {
		return err
	}
	t, err := s.wait(api.WithPrincipal(ctx, by), task, create)
	if err != nil || ctx.Err() != nil {
		return err
	}
	return s.item(id, name, func(o *openPlan, n int) error {
		it := &o.items[n]
		try := it.Last()
		o.Usage = o.Usage.Add(t.Usage)
		switch t.Outcome {
		case api.OutcomeVerified:
			if try.Task == "" {
				s.probed(o, n, t)
				return nil
			}
			return s.land(ctx, o, n, r, "passed in task "+string(task))
		case api.OutcomeLost, api.OutcomeCanceled:
			if t.Owner == s.cfg.Owner && t.Outcome == api.OutcomeCanceled {
				o.fail(n, "the check of its result was canceled", "")
				return nil
			}
			if try.Task == "" {
				s.probe(o, n)
				return nil
			}
			try.Check = ""
			o.set(n, words.InProgress, words.Merges, "its check is run again")
			return nil
		case api.OutcomeFailed:
			o.fail(n, "the gate could not run on the merged result: "+t.Error.Message, t.Error.Hint)
			return nil
		}
		if try.Task == "" {
			s.probed(o, n, t)
			return nil
		}
		if it.Repairs++; it.Repairs >= maxRepairs {
			o.fail(n, t.Diagnosis, "The work passes alone and fails with the others. Change the plan or the request, and try again: hortus plan retry "+string(o.ID)+" "+it.ID)
			return nil
		}
		it.Message = "Your work was merged with that of others, and the gate fails on the result, which is in the workspace: " + t.Diagnosis + output(t)
		s.try(o, n, "the gate fails on the merged result", try.Merged)
		return nil
	})
}

// output is the end of what the gate of a check printed.
func output(t api.Task) string {
	if t.Repo == nil || len(t.Repo.Rounds) == 0 {
		return ""
	}
	g := t.Repo.Rounds[0].Gate
	if a := t.Repo.Rounds[0].Acceptance; a != nil && !a.Passed {
		g = a
	}
	if g == nil || g.Output == "" {
		return ""
	}
	return "\n\nIts output:\n" + tail(g.Output, 4<<10)
}

func tail(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return s
}

// conflict sends an item back to its agent, with what the others have changed, on the new base. The second one is for a person.
func (s *Service) conflict(ctx context.Context, o *openPlan, n int, r *cache.Repo, res cache.MergeResult) error {
	it := &o.items[n]
	try := it.Last()
	var files []string
	for _, c := range res.Conflicts {
		files = append(files, c.Path)
	}
	for _, l := range res.Lost {
		files = append(files, l.Path)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	try.Conflicts = files
	list := strings.Join(files[:min(len(files), 20)], ", ")
	if it.Repairs++; it.Repairs >= maxRepairs || res.Draft == "" {
		o.fail(n, "it conflicts again with what was merged, in "+list, "Which of the two changes is right? Change the request, and try again: hortus plan retry "+string(o.ID)+" "+it.ID)
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "While you worked, others changed the same lines. The workspace has their result with your work merged into it. These files have conflicts, marked with <<<<<<< and >>>>>>>: %s. "+
		"Keep what both changes are for, and remove the marks.\n", list)
	for _, side := range []struct{ what, to string }{{"What the others changed", o.Head}, {"What you changed", try.Head}} {
		patch, err := r.Diff(ctx, try.Base, side.to, cache.DiffOptions{Max: 4 << 20})
		if err != nil {
			continue // it is in the workspace too
		}
		fmt.Fprintf(&b, "\n%s:\n%s\n", side.what, head(of(string(patch), files), maxDiff))
	}
	it.Message = b.String()
	s.try(o, n, "it conflicts with what was merged, in "+list, res.Draft)
	return nil
}

// of returns the parts of a patch that are about some files.
func of(patch string, files []string) string {
	var b strings.Builder
	for _, part := range strings.SplitAfter("\n"+patch, "\ndiff --git ") {
		line, _, _ := strings.Cut(part, "\n")
		if slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(line, " b/"+f) }) {
			b.WriteString("diff --git " + strings.TrimSuffix(part, "diff --git "))
		}
	}
	return b.String()
}

func head(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "\n[truncated]"
	}
	return s
}

// carry returns a commit on the plan's last one with the result of a try, with conflicts marked; "" if it has none.
func (s *Service) carry(ctx context.Context, o *openPlan, try *words.Try) (string, error) {
	if try.Head == "" || try.Base == o.Head {
		return try.Head, nil
	}
	r, err := s.cfg.Git.Find(o.Task.Repo.URL)
	if err != nil {
		return "", err
	}
	who := cache.Identity{Name: o.Task.Repo.Author.Name, Email: o.Task.Repo.Author.Email}
	res, err := r.Merge(ctx, cache.MergeRequest{Base: try.Base, Ours: o.Head, Theirs: try.Head, Author: who, Committer: who, Message: "Work in progress", When: try.EndedAt})
	if err != nil {
		return "", err
	}
	for _, c := range res.Conflicts {
		try.Conflicts = append(try.Conflicts, c.Path)
	}
	if res.Commit == "" {
		return res.Draft, nil
	}
	return res.Commit, nil
}

// checkRequest is the task that runs the gate on a commit of the plan.
func (o *openPlan) checkRequest(name, title, commit, acceptance string) api.CreateTask {
	create := o.Task
	r := *create.Repo
	create.Repo, create.Request, create.Model = &r, "Check the plan's result: "+title, ""
	r.Agent, r.Best, r.Ref, r.FilePolicy.Writable, r.Context, r.Documents, r.Issue = "", nil, o.Commit, nil, nil, nil, ""
	r.Item = &api.ItemTask{Plan: o.ID, Item: name, Branch: o.Base, Check: commit, Acceptance: acceptance}
	if r.Passes = 0; name != "" && !o.continues(name) {
		r.Until = "" // it is about the whole
	}
	create.Models = api.Models{}
	return create
}

// maxEvidence bounds the request of an item that reviewers are shown, in bytes.
const maxEvidence = 2 << 10

// evidence is what reviewers are shown of the items.
func (o *openPlan) evidence() (out []api.ItemEvidence) {
	for i := range o.items {
		it := &o.items[i]
		e := api.ItemEvidence{ID: it.ID, Title: it.Name(), State: string(it.State), Needs: it.Needs, Commit: it.Commit, Why: it.Why, CostUSD: it.Usage.CostUSD,
			Request: head(it.Request, maxEvidence), Acceptance: it.Acceptance, Gate: it.Gate, Order: it.Arrived}
		if !it.StartedAt.IsZero() {
			e.MS = it.EndedAt.Sub(it.StartedAt).Milliseconds()
		}
		out = append(out, e)
	}
	return out
}

// judge runs the gate on the whole result of a plan, and delivers it if it passes and all is done.
func (s *Service) judge(ctx context.Context, id api.PlanID) {
	var create api.CreateTask
	var by api.Principal
	var task api.TaskID
	var commit string
	var deliver bool
	var how api.DeliverTask
	err := s.with(ctx, id, func(o *openPlan) error {
		create, by, task, commit = o.checkRequest("", o.Task.Request, o.Head, ""), o.By, o.Final, o.Head
		create.Request, create.Repo.Item.Items = o.Task.Request, o.evidence()
		create.Repo.Item.Delivered, create.Repo.Item.Stack = o.Delivered, o.Stack
		deliver = (o.Task.Repo.Push || o.Task.Repo.MergeRequest) && o.count()[words.Completed] == len(o.items) || o.inRound()
		how = o.how()
		return nil
	})
	if err != nil {
		return
	}
	ctx = api.WithPrincipal(ctx, by)
	t, err := s.wait(ctx, task, create)
	var done *api.RepoResult
	if err == nil && t.Outcome == api.OutcomeVerified && deliver && ctx.Err() == nil {
		if t, err = s.cfg.Tasks.Deliver(ctx, task, how); err == nil {
			done = t.Repo
		}
	}
	if ctx.Err() != nil {
		return
	}
	err = s.with(s.life, id, func(o *openPlan) error {
		if o.Canceling || o.Final != task {
			return nil
		}
		o.Final, o.Judged, o.Checked, o.Passed = "", commit, task, err == nil && t.Outcome == api.OutcomeVerified
		if o.delivered(done); err != nil {
			o.Error = api.AsError(err)
		}
		if t.Outcome == api.OutcomeLost || t.Outcome == api.OutcomeCanceled && t.Owner != s.cfg.Owner {
			o.Judged = "" // it runs again
		}
		o.tell(words.EventState, words.StateEvent{State: o.State, Why: "the gate on the whole result: " + string(t.Outcome)})
		return nil
	})
	if err != nil && s.life.Err() == nil {
		s.cfg.Logger.Error("store the end of a plan", "plan", id, "err", err)
	}
}
