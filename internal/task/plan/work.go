package plan

import (
	"context"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// request is the task of the n-th item's last try.
func (o *openPlan) request(n int) api.CreateTask {
	it := &o.items[n]
	try := it.Last()
	create := o.Task
	r := *create.Repo
	create.Repo, create.Request = &r, it.Request
	if it.Message != "" {
		create.Request += "\n\n" + it.Message
	}
	if len(create.Request) > words.MaxRequest {
		create.Request = create.Request[:words.MaxRequest]
		create.Request = strings.ToValidUTF8(create.Request, "")
	}
	if it.Agent != "" {
		r.Agent = it.Agent
	}
	if it.Model != "" {
		create.Model = it.Model
	}
	if allowed := append(slices.Clone(touches(it.Item)), it.Granted...); !slices.Equal(touches(it.Item), everything) {
		r.FilePolicy = within(r.FilePolicy, allowed)
	}
	if len(it.Context) > 0 {
		given := r.Context
		r.Context, r.Documents = nil, nil
		for _, name := range it.Context {
			if i := slices.IndexFunc(given, func(d api.Document) bool { return d.Name == name }); i >= 0 {
				r.Context = append(r.Context, given[i])
			} else {
				r.Documents = append(r.Documents, name)
			}
		}
	}
	if it.Review != "" {
		most := min(len(r.Context), max(0, api.MaxTaskDocuments-len(r.Documents)-1))
		r.Context = append(slices.Clone(r.Context[:most]), api.Document{Name: it.ID, Text: it.Review})
	}
	r.Ref, r.Push, r.MergeRequest, r.Draft, r.Target, r.Remote, r.Issue = try.Base, false, false, false, "", "", ""
	switch {
	case o.continues(it.ID):
		r.Budget = atMost(r.Budget, r.Budget, o.Usage) // all that is left
	case it.Review != "":
		r.Budget = atMost(share(r.Budget, len(o.items)), r.Budget, o.Usage)
	default:
		r.Budget = share(r.Budget, len(o.items))
	}
	if !o.continues(it.ID) {
		r.Until, r.Passes = "", 0
	}
	r.Item = &api.ItemTask{Plan: o.ID, Item: it.ID, Branch: o.Base, Start: try.Start}
	if it.Acceptance != "" {
		r.Verify = it.Acceptance // the gate of the repository runs on the merged result
	}
	return create
}

// within is a policy by which only those of its writable files that match globs, too, can be changed: all others become read-only.
func within(p api.FilePolicy, globs []string) api.FilePolicy {
	if len(p.Writable) > 0 {
		except := []string{"**"}
		for _, g := range p.Writable {
			if rest, ok := strings.CutPrefix(g, "!"); ok {
				except = append(except, rest)
			} else {
				except = append(except, "!"+g)
			}
		}
		p.ReadOnly = append(except, p.ReadOnly...)
	}
	p.Writable = globs
	return p
}

// share is the part of a plan's budget that one of n items has. The time is that of each.
func share(b api.Budget, n int) api.Budget {
	part := func(v int64) int64 { return (v + int64(n) - 1) / int64(n) }
	b.Steps, b.Tokens, b.OutputBytes, b.CostUSD = int(part(int64(b.Steps))), part(b.Tokens), part(b.OutputBytes), b.CostUSD/float64(n)
	return b
}

// atMost is a part of a budget, bounded by what is left of the whole. It is never 0, which would be no limit.
func atMost(part, whole api.Budget, used api.Usage) api.Budget {
	if whole.Steps > 0 {
		part.Steps = max(1, min(part.Steps, whole.Steps-used.Requests))
	}
	if whole.Tokens > 0 {
		part.Tokens = max(1, min(part.Tokens, whole.Tokens-used.InputTokens-used.OutputTokens))
	}
	if whole.CostUSD > 0 {
		part.CostUSD = max(1e-6, min(part.CostUSD, whole.CostUSD-used.CostUSD))
	}
	return part
}

// works waits for the task of an item's last try, which it starts if it is not there, and takes its result, unless it has stopped for another node.
func (s *Service) works(ctx context.Context, id api.PlanID, name string, d *driver) {
	var create api.CreateTask
	var by api.Principal
	var task api.TaskID
	err := s.with(ctx, id, func(o *openPlan) error {
		n := o.index(name)
		create, by, task = o.request(n), o.By, o.items[n].Last().Task
		return nil
	})
	if err != nil {
		return // the driver says it
	}
	t, err := s.wait(api.WithPrincipal(ctx, by), task, create)
	if ctx.Err() != nil {
		return
	}
	if s.cfg.Elsewhere != nil && err == nil && t.State != api.TaskDone {
		d.stop(task)
		return
	}
	err = s.with(s.life, id, func(o *openPlan) error {
		n := o.index(name)
		if n < 0 || o.Canceling || o.items[n].State != words.InProgress || o.items[n].Last().Task != task {
			return nil
		}
		return s.worked(s.life, o, n, t, err)
	})
	if err != nil && s.life.Err() == nil {
		s.cfg.Logger.Error("store what came of an item", "plan", id, "item", name, "err", err)
	}
}

// wait waits for a task, which it starts if it is not there.
func (s *Service) wait(ctx context.Context, id api.TaskID, create api.CreateTask) (api.Task, error) {
	t, err := s.cfg.Tasks.StartItem(ctx, id, create)
	if err == nil && t.State != api.TaskDone {
		t, err = s.cfg.Tasks.Wait(ctx, id)
	}
	return t, err
}

// worked takes the end of the task of an item.
func (s *Service) worked(ctx context.Context, o *openPlan, n int, t api.Task, err error) error {
	it := &o.items[n]
	try := it.Last()
	try.EndedAt, try.Outcome = o.now, t.Outcome
	it.Usage, o.Usage = it.Usage.Add(t.Usage), o.Usage.Add(t.Usage)
	if err != nil {
		try.Outcome = api.OutcomeFailed
		o.fail(n, api.AsError(err).Message, api.HintOf(err))
		return nil
	}
	var wanted []api.WantedFile
	if t.Repo != nil {
		try.Head, try.Stopped, wanted = t.Repo.Head, t.Repo.Stopped, t.Repo.Wanted
	}
	switch {
	case len(wanted) > 0 && (t.Outcome == api.OutcomeVerified || t.Outcome == api.OutcomeNeedsHuman) && len(it.Amendments) < maxAmendments:
		return s.wants(ctx, o, n, wanted, t.Create.Repo.FilePolicy)
	case t.Outcome == api.OutcomeVerified && try.Head != "":
		o.Arrived++
		it.Arrived = o.Arrived
		o.set(n, words.InProgress, words.Merges, "")
	case t.Outcome == api.OutcomeLost && len(it.Tries) < words.MaxTries:
		s.try(o, n, "its daemon ended", try.Start)
	case t.Outcome == api.OutcomeCanceled && t.Owner != s.cfg.Owner && len(it.Tries) < words.MaxTries:
		s.try(o, n, "its daemon was stopped", try.Start)
	case t.Outcome == api.OutcomeCanceled:
		o.fail(n, "its task was canceled", "")
	case t.Error != nil:
		o.fail(n, t.Error.Message, t.Error.Hint)
	case t.Outcome == api.OutcomeNeedsHuman && o.continues(it.ID):
		o.fail(n, t.Diagnosis, o.again())
	default:
		o.fail(n, cmpText(t.Diagnosis, "it has no verified result ("+string(t.Outcome)+")"), t.Question)
	}
	return nil
}

func cmpText(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}
