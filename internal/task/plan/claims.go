package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task/workstream"
)

// Claims lists which files the plans of an account change now, from their rows.
type Claims struct {
	Rows store.Plans
}

// Claims implements workstream.Source. A plan counts that runs, is paused or waits: of one that is not approved nobody knows whether it
// will run.
func (c Claims) Claims(ctx context.Context, account string) (out []workstream.Claim, err error) {
	rows, err := c.Rows.OpenPlans(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.Account != account {
			continue
		}
		o, err := read(r)
		if err != nil {
			return nil, err
		}
		if o.State != words.Running && o.State != words.Paused && o.State != words.Queued {
			continue
		}
		items, err := c.Rows.PlanItems(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		for _, row := range items {
			var it item
			if err := json.Unmarshal(row.Doc, &it); err != nil {
				return nil, api.Errorf(api.KindInternal, "item %d of plan %s is damaged: %w", row.N, r.ID, err)
			}
			o.items = append(o.items, it)
		}
		out = append(out, o.claim(r.Repository))
	}
	return out, nil
}

// claim are the files that a plan may still change: those of items that are not completed. One that failed may be tried again at any time.
func (o *openPlan) claim(key string) workstream.Claim {
	title, _, _ := strings.Cut(strings.TrimSpace(o.Task.Request), "\n")
	c := workstream.Claim{Key: key, Allows: o.overlap() == api.OverlapAllow, Workstream: api.Workstream{
		Kind: api.WorkstreamPlan, ID: string(o.ID), Title: title, Repository: o.Task.Repo.URL, Touches: []string{}, Waits: o.State == words.Queued, Since: o.CreatedAt,
	}}
	if !o.QueuedAt.IsZero() {
		c.Since = o.QueuedAt
	}
	for i := range o.items {
		it := &o.items[i]
		if it.State == words.InProgress {
			c.Waits = false // it was paused, and what ran then may run still
		}
		if it.State != words.Completed {
			c.Touches = append(c.Touches, touches(it.Item)...)
			c.Touches = append(c.Touches, it.Granted...)
		}
	}
	slices.Sort(c.Touches)
	if c.Touches = slices.Compact(c.Touches); slices.Contains(c.Touches, everything[0]) {
		c.Touches = everything
	}
	return c
}

// overlap is what the plan does about others who change the same files.
func (o *openPlan) overlap() api.Overlap {
	return cmp.Or(o.Task.Repo.Overlap, api.OverlapWait)
}

// enter lets a queued plan run, unless others change the same files of the repository.
func (s *Service) enter(ctx context.Context, o *openPlan) error {
	begin := func() error {
		if o.StartedAt.IsZero() {
			o.StartedAt = o.now
		}
		if err := o.move(words.Running, ""); err != nil {
			return err
		}
		return s.store(ctx, o, s.cfg.Owner)
	}
	c := o.claim(s.repository(o.Task))
	enter := s.cfg.Workstreams.Enter
	if !c.Waits {
		enter = s.cfg.Workstreams.Extend // those who wait, wait for it
	}
	with, entered, err := enter(ctx, o.Account, []workstream.Claim{c}, o.overlap(), begin)
	switch {
	case api.KindOf(err) == api.KindConflict && len(with) > 0 && !entered:
		o.Outcome, o.Error = api.OutcomeFailed, api.AsError(err)
		return o.done(o.Error.Message)
	case err != nil:
		return err
	case entered && len(with) > 0:
		o.tell(words.EventState, words.StateEvent{State: o.State, Why: "at the same time as " + list(with) + ", which may change the same files"})
	case !entered:
		if why := "waits for " + list(with) + ", which may change the same files"; o.Why != why {
			o.Why = why
			o.tell(words.EventState, words.StateEvent{State: o.State, Why: why})
		}
	}
	return nil
}

// list names others in a line.
func list(claims []workstream.Claim) string {
	const most = 5
	names := workstream.Names(claims)
	if over := len(names) - most; over > 0 {
		names = append(names[:most:most], "others")
	}
	return strings.Join(names, ", ")
}

// others are those of the account who change files of a plan's repository, or wait for that.
func (s *Service) others(ctx context.Context, p words.Plan) (out []workstream.Claim, err error) {
	all, err := s.cfg.Workstreams.Now(ctx, p.Account, s.repository(p.Task))
	return slices.DeleteFunc(all, func(c workstream.Claim) bool { return c.Kind == api.WorkstreamPlan && c.ID == string(p.ID) }), err
}

// Workstreams lists who of an account changes files now, or waits for that: in the repository with an address, or in all.
func (s *Service) Workstreams(ctx context.Context, account, repository string) ([]api.Workstream, error) {
	key := ""
	if repository != "" {
		key = s.repository(api.CreateTask{Repo: &api.RepoTask{URL: repository}})
	}
	all, err := s.cfg.Workstreams.Now(ctx, account, key)
	out := []api.Workstream{}
	for _, c := range all {
		out = append(out, c.Workstream)
	}
	return out, err
}
