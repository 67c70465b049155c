package plan

import (
	"context"
	"slices"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// how is the request of the delivery of a plan's result.
func (o *openPlan) how() api.DeliverTask {
	if o.How != nil {
		return *o.How
	}
	return api.DeliverTask{Stacked: o.Stacked}
}

// delivered takes what came of a delivery; nil for none.
func (o *openPlan) delivered(r *api.RepoResult) {
	if r == nil || r.Delivery == nil {
		return
	}
	o.Delivered = r.Delivery
	o.Stack = nil
	if r.Delivery.Item != "" {
		o.Stack = r.Stack
	}
	for _, d := range o.deliveries() {
		if d.Commit != "" && !slices.Contains(o.Pushed, d.Commit) {
			o.Pushed = append(o.Pushed, d.Commit)
		}
	}
}

// deliveries are those of a plan: of its items, or of all of it.
func (o *openPlan) deliveries() []api.Delivery {
	if len(o.Stack) > 0 {
		return o.Stack
	}
	if o.Delivered != nil {
		return []api.Delivery{*o.Delivered}
	}
	return nil
}

// Deliver delivers the branch of a plan that is done, if its gate passed on the whole result.
func (s *Service) Deliver(ctx context.Context, account string, id api.PlanID, req words.Deliver) (p words.Plan, err error) {
	if err := req.Check(); err != nil {
		return p, err
	}
	var task api.TaskID
	err = s.of(ctx, account, id, func(o *openPlan) error {
		switch {
		case o.count()[words.Completed] == 0:
			return api.Errorf(api.KindConflict, "plan %s has no completed item: there is nothing to deliver", id).WithHint("hortus plan show %s", id)
		case o.State != words.Done || o.Checked == "" || !o.Passed:
			return api.Errorf(api.KindConflict, "plan %s is %s and has no verified result", id, o.State).WithHint("hortus plan show %s", id)
		}
		task = o.Checked
		return nil
	})
	if err != nil {
		return p, err
	}
	t, err := s.cfg.Tasks.Deliver(ctx, task, req.DeliverTask)
	if err != nil {
		return p, err
	}
	err = s.of(ctx, account, id, func(o *openPlan) error {
		// Rounds repeat what has worked, or what was requested to be followed.
		if failed := t.Repo.Delivery != nil && t.Repo.Delivery.Error != nil; (req.Push || req.MergeRequest) && (req.Follow || !failed) {
			o.How = &req.DeliverTask
		}
		o.delivered(t.Repo)
		if err := s.begins(o, req.Follow, req.FollowRounds); err != nil {
			return err
		}
		o.tell(words.EventState, words.StateEvent{State: o.State, Why: "delivered"})
		p = o.view()
		return nil
	})
	return p, err
}
