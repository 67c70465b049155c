package http

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/internal/server/forward"
)

// Plans is what the server asks of plans, those of the caller's account.
type Plans interface {
	Create(ctx context.Context, req plan.Create) (plan.Plan, error)
	// Get returns one with its items.
	Get(ctx context.Context, id api.PlanID) (plan.Plan, error)
	List(ctx context.Context, all bool, limit int) ([]plan.Plan, error)
	Approve(ctx context.Context, id api.PlanID) (plan.Plan, error)
	Edit(ctx context.Context, id api.PlanID, req plan.Edit) (plan.Plan, error)
	Pause(ctx context.Context, id api.PlanID) (plan.Plan, error)
	Resume(ctx context.Context, id api.PlanID) (plan.Plan, error)
	Retry(ctx context.Context, id api.PlanID, req plan.Retry) (plan.Plan, error)
	Replan(ctx context.Context, id api.PlanID, req plan.Replan) (plan.Plan, error)
	Answer(ctx context.Context, id api.PlanID, req plan.Answer) (plan.Plan, error)
	Deliver(ctx context.Context, id api.PlanID, req plan.Deliver) (plan.Plan, error)
	Unfollow(ctx context.Context, id api.PlanID) (plan.Plan, error)
	Cancel(ctx context.Context, id api.PlanID) (plan.Plan, error)
	// Workstreams lists who changes files of a repository, or of all for "".
	Workstreams(ctx context.Context, repository string) ([]api.Workstream, error)
}

// maxPlans bounds the list of plans.
const maxPlans = 200

// plans has the handlers of plans.
type plans struct {
	Plans  Plans
	events eventServer
}

func (d plans) planRoutes() []Route {
	const one = "/v1/plans/{id}"
	return []Route{{
		Method: "POST", Pattern: "/v1/plans", Name: "createPlan", Role: api.RoleUser, Creates: true, Places: forward.Plan,
		Doc: "Create a plan: a request that is divided into items, whose results become one branch. Without items, the model of the task divides the request. With approve, it waits for a person before it works on the items.",
		In:  plan.Create{}, Out: plan.Plan{}, Status: http.StatusCreated,
		Handler: create(http.StatusCreated, d.Plans, Plans.Create),
	}, {
		Method: "GET", Pattern: "/v1/plans", Name: "plans", Role: api.RoleUser,
		Doc: "List the plans of the account, newest first, without their items.",
		Out: []plan.Plan{}, Params: []Param{{Name: "all", Doc: "Include those that are done (default false), 200 plans in total.", Type: false}, stateParam},
		Handler: give(func(r *http.Request) ([]plan.Plan, error) {
			all, err := flag(r, "all")
			if err != nil {
				return nil, err
			}
			states, err := oneOf[plan.State](r, "state")
			if err != nil {
				return nil, err
			}
			list, err := d.Plans.List(r.Context(), all || slices.Contains(states, plan.Done), maxPlans)
			return slices.DeleteFunc(list, func(p plan.Plan) bool { return !in(states, p.State) }), err
		}),
	}, {
		Method: "GET", Pattern: "/v1/workstreams", Name: "workstreams", Role: api.RoleUser,
		Doc: "List what changes files of repositories now, or waits for that, the earliest first: plans, tasks that belong to no plan, and sessions whose turn runs, of the account.",
		Out: []api.Workstream{}, Params: []Param{{Name: "repository", Doc: "Address of the repository (default: all).", Type: ""}},
		Handler: give(func(r *http.Request) ([]api.Workstream, error) {
			return d.Plans.Workstreams(r.Context(), r.URL.Query().Get("repository"))
		}),
	}, {
		Method: "GET", Pattern: one, Name: "planOf", Role: api.RoleUser, Stored: true,
		Doc:     "Get a plan with its items, by its id or a unique prefix of it.",
		Out:     plan.Plan{},
		Handler: on(d.Plans, d.planID, Plans.Get),
	}, {
		Method: "POST", Pattern: one + "/approve", Name: "approvePlan", Role: api.RoleUser,
		Doc: "Approve a proposed plan: its items are worked on.",
		Out: plan.Plan{}, Handler: on(d.Plans, d.planID, Plans.Approve),
	}, {
		Method: "POST", Pattern: one + "/edit", Name: "editPlan", Role: api.RoleUser,
		Doc: "Replace the items of a plan. Those that have begun must be the same.",
		In:  plan.Edit{}, Out: plan.Plan{},
		Handler: change(http.StatusOK, decode, d.Plans, d.planID, Plans.Edit),
	}, {
		Method: "POST", Pattern: one + "/pause", Name: "pausePlan", Role: api.RoleUser,
		Doc: "Pause a plan: what runs ends, and nothing begins.",
		Out: plan.Plan{}, Handler: on(d.Plans, d.planID, Plans.Pause),
	}, {
		Method: "POST", Pattern: one + "/resume", Name: "resumePlan", Role: api.RoleUser,
		Doc: "Continue a paused plan.",
		Out: plan.Plan{}, Handler: on(d.Plans, d.planID, Plans.Resume),
	}, {
		Method: "POST", Pattern: one + "/retry", Name: "retryPlan", Role: api.RoleUser,
		Doc: "Try failed items again, with those that were skipped because of them.",
		In:  plan.Retry{}, Optional: true, Out: plan.Plan{},
		Handler: change(http.StatusOK, decodeAny, d.Plans, d.planID, Plans.Retry),
	}, {
		Method: "POST", Pattern: one + "/replan", Name: "replanPlan", Role: api.RoleUser,
		Doc: "Have the planner divide again what is not completed of a plan that is done. It sees what came of each item.",
		In:  plan.Replan{}, Optional: true, Out: plan.Plan{},
		Handler: change(http.StatusOK, decodeAny, d.Plans, d.planID, Plans.Replan),
	}, {
		Method: "POST", Pattern: one + "/answer", Name: "answerPlan", Role: api.RoleUser,
		Doc: "Answer an item that asks for files that it may not change.",
		In:  plan.Answer{}, Out: plan.Plan{},
		Handler: change(http.StatusOK, decode, d.Plans, d.planID, Plans.Answer),
	}, {
		Method: "POST", Pattern: one + "/deliver", Name: "deliverPlan", Role: api.RoleUser,
		Doc: "Deliver the verified branch of a plan that is done, also if some of its items have no result. With stacked, each completed item has a merge request of its own. With follow, the merge requests are looked at regularly: comments and failed checks become an item.",
		In:  plan.Deliver{}, Optional: true, Out: plan.Plan{},
		Handler: change(http.StatusOK, decodeAny, d.Plans, d.planID, Plans.Deliver),
	}, {
		Method: "POST", Pattern: one + "/unfollow", Name: "unfollowPlan", Role: api.RoleUser,
		Doc: "End the looks at the merge requests of a plan. What an item works on is not ended.",
		Out: plan.Plan{}, Handler: on(d.Plans, d.planID, Plans.Unfollow),
	}, {
		Method: "POST", Pattern: one + "/cancel", Name: "cancelPlan", Role: api.RoleUser,
		Doc: "Cancel a plan, and wait for its receipt.",
		Out: plan.Plan{}, Handler: on(d.Plans, d.planID, Plans.Cancel),
	}, {
		Method: "GET", Pattern: one + "/events", Name: "planEvents", Role: api.RoleUser, Stored: true,
		Doc: "Stream the plan's events: the stored ones, then new ones. Those of the work on an item are the events of its tasks.",
		Out: api.Event{}, OutType: typeEvents, Params: eventParams,
		Handler: d.planEvents,
	}}
}

func (d plans) planID(r *http.Request) (api.PlanID, error) { return pathID(r, d.Plans, findPlan) }

// findPlan completes the ID of a plan of the caller's account, one of those that a list has, with or without its letter.
func findPlan(all Plans, ctx context.Context, prefix string) (id api.PlanID, err error) {
	list, err := all.List(ctx, true, maxPlans)
	if err != nil {
		return "", err
	}
	for _, p := range list {
		switch {
		case prefix == "" || !strings.HasPrefix(string(p.ID), prefix) && !strings.HasPrefix(strings.TrimPrefix(string(p.ID), "p"), prefix):
		case id != "":
			return "", api.Errorf(api.KindInvalid, "plan %.64q is ambiguous: %s, %s", prefix, id, p.ID).WithHint("give more characters of the id")
		default:
			id = p.ID
		}
	}
	if id == "" {
		return "", api.Errorf(api.KindNotFound, "unknown plan %.64q", prefix).WithHint("list them: hortus plan ls")
	}
	return id, nil
}

// planEvents streams the log of a plan, to its end.
func (d plans) planEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := d.planID(r)
	if err != nil {
		return err
	}
	if _, err := d.Plans.Get(r.Context(), id); err != nil {
		return err
	}
	return d.events.serve(w, r, feed{
		stream: api.Stream{Kind: plan.Stream, ID: string(id)},
		name:   func(t api.EventType) string { return string(t) },
		last:   func(e api.Event) bool { return e.Type == plan.EventFinished },
	})
}
