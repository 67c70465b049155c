package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"hortus.dev/api"
	"hortus.dev/api/plan"
)

// PlanService runs plans: requests that are divided into items, each done by an agent of its own, whose results become one branch.
type PlanService struct{ service }

func (s *PlanService) post(ctx context.Context, id api.PlanID, rest string, in any) (out plan.Plan, err error) {
	path, err := planPath(id, rest)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPost, path, in, &out)
}

func planPath(id api.PlanID, rest string) (string, error) {
	seg, err := segment(string(id))
	return "/v1/plans/" + seg + rest, err
}

// Create makes a plan, and begins with it unless it has to be approved.
func (s *PlanService) Create(ctx context.Context, req plan.Create) (out plan.Plan, err error) {
	return out, s.client.call(ctx, http.MethodPost, "/v1/plans", req, &out)
}

// List lists the plans that are not done, or all, the newest first, without their items.
func (s *PlanService) List(ctx context.Context, all bool, states ...plan.State) (out []plan.Plan, err error) {
	q := whether(all)
	for _, state := range states {
		q.Add("state", string(state))
	}
	return out, s.client.query(ctx, http.MethodGet, "/v1/plans", q, nil, &out)
}

// Get returns a plan with its items, by its ID or a unique prefix of it.
func (s *PlanService) Get(ctx context.Context, id api.PlanID) (out plan.Plan, err error) {
	path, err := planPath(id, "")
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, path, nil, &out)
}

// Workstreams lists what changes files of a repository now, or waits for that, the earliest first: plans, tasks that belong to no plan, and
// sessions whose turn runs. The address "" stands for all repositories.
func (s *PlanService) Workstreams(ctx context.Context, repository string) (out []api.Workstream, err error) {
	q := url.Values{}
	if repository != "" {
		q.Set("repository", repository)
	}
	return out, s.client.query(ctx, http.MethodGet, "/v1/workstreams", q, nil, &out)
}

// Approve lets the items of a proposed plan be worked on.
func (s *PlanService) Approve(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	return s.post(ctx, id, "/approve", nil)
}

// Edit replaces the items of a plan. Those that have begun must be the same.
func (s *PlanService) Edit(ctx context.Context, id api.PlanID, req plan.Edit) (plan.Plan, error) {
	return s.post(ctx, id, "/edit", req)
}

// Pause lets what runs end, and begins nothing.
func (s *PlanService) Pause(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	return s.post(ctx, id, "/pause", nil)
}

// Resume continues a paused plan.
func (s *PlanService) Resume(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	return s.post(ctx, id, "/resume", nil)
}

// Retry tries failed items again, with those that were skipped because of them.
func (s *PlanService) Retry(ctx context.Context, id api.PlanID, req plan.Retry) (plan.Plan, error) {
	return s.post(ctx, id, "/retry", req)
}

// Replan has the planner divide again what is not completed.
func (s *PlanService) Replan(ctx context.Context, id api.PlanID, req plan.Replan) (plan.Plan, error) {
	return s.post(ctx, id, "/replan", req)
}

// Answer answers an item that asks for files.
func (s *PlanService) Answer(ctx context.Context, id api.PlanID, req plan.Answer) (plan.Plan, error) {
	return s.post(ctx, id, "/answer", req)
}

// Deliver delivers the branch of a plan that is done.
func (s *PlanService) Deliver(ctx context.Context, id api.PlanID, req plan.Deliver) (plan.Plan, error) {
	return s.post(ctx, id, "/deliver", req)
}

// Unfollow ends the looks at the merge requests of a plan.
func (s *PlanService) Unfollow(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	return s.post(ctx, id, "/unfollow", nil)
}

// Cancel cancels a plan, and waits for its receipt.
func (s *PlanService) Cancel(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	return s.post(ctx, id, "/cancel", nil)
}

// Events yields the events of a plan after a sequence number, as [TaskService.Events] does. It ends after an event plan.finished, of
// which there is another one after each retry.
func (s *PlanService) Events(ctx context.Context, id api.PlanID, after int64) iter.Seq2[api.Event, error] {
	path, err := planPath(id, "/events")
	if err != nil {
		return func(yield func(api.Event, error) bool) { yield(api.Event{}, err) }
	}
	return s.client.events(ctx, path, after, func(e api.Event) bool { return e.Type == plan.EventFinished })
}
