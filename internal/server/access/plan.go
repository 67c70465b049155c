package access

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/plan"
)

// PlanRunner is what keeps and runs plans, each of an account.
type PlanRunner interface {
	Create(ctx context.Context, req plan.Create) (plan.Plan, error)
	Get(ctx context.Context, account string, id api.PlanID) (plan.Plan, error)
	List(ctx context.Context, account string, all bool, limit int) ([]plan.Plan, error)
	Approve(ctx context.Context, account string, id api.PlanID) (plan.Plan, error)
	Edit(ctx context.Context, account string, id api.PlanID, req plan.Edit) (plan.Plan, error)
	Pause(ctx context.Context, account string, id api.PlanID) (plan.Plan, error)
	Resume(ctx context.Context, account string, id api.PlanID) (plan.Plan, error)
	Retry(ctx context.Context, account string, id api.PlanID, req plan.Retry) (plan.Plan, error)
	Replan(ctx context.Context, account string, id api.PlanID, req plan.Replan) (plan.Plan, error)
	Answer(ctx context.Context, account string, id api.PlanID, req plan.Answer) (plan.Plan, error)
	Deliver(ctx context.Context, account string, id api.PlanID, req plan.Deliver) (plan.Plan, error)
	Unfollow(ctx context.Context, account string, id api.PlanID) (plan.Plan, error)
	Cancel(ctx context.Context, account string, id api.PlanID) (plan.Plan, error)
	AccountOf(ctx context.Context, id api.PlanID) (string, error)
	Workstreams(ctx context.Context, account, repository string) ([]api.Workstream, error)
}

// Plans guards plans. Everybody has those of the own account and no others, but operators, who have all.
type Plans struct {
	r     PlanRunner
	tasks *Tasks
}

// NewPlans guards plans, whose items are subject to what is checked of tasks.
func NewPlans(r PlanRunner, tasks *Tasks) *Plans { return &Plans{r, tasks} }

// Create makes a plan of the caller's account.
func (s *Plans) Create(ctx context.Context, req plan.Create) (plan.Plan, error) {
	p, err := caller(ctx)
	if err == nil {
		err = s.tasks.check(ctx, p, req.Task)
	}
	for _, it := range req.Items {
		if err == nil && it.Model != "" {
			check := req.Task
			check.Model = it.Model
			err = s.tasks.check(ctx, p, check)
		}
	}
	if err == nil {
		err = s.tasks.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Create(ctx, req) })
}

// Get returns a plan of the caller's account.
func (s *Plans) Get(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	_, account, err := s.owner(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Get(ctx, account, id) })
}

// List lists the plans of the caller's account.
func (s *Plans) List(ctx context.Context, all bool, limit int) ([]plan.Plan, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() ([]plan.Plan, error) { return s.r.List(ctx, p.Account, all, limit) })
}

// Workstreams lists who of the caller's account changes files of repositories.
func (s *Plans) Workstreams(ctx context.Context, repository string) ([]api.Workstream, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() ([]api.Workstream, error) { return s.r.Workstreams(ctx, p.Account, repository) })
}

// Approve approves a plan.
func (s *Plans) Approve(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	_, account, err := s.may(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Approve(ctx, account, id) })
}

// owner returns whose plan it is, if that is the caller's, or the caller is an operator.
func (s *Plans) owner(ctx context.Context, id api.PlanID) (p api.Principal, account string, err error) {
	if p, err = caller(ctx); err == nil {
		account, err = s.r.AccountOf(ctx, id)
	}
	if api.KindOf(err) == api.KindNotFound || err == nil && !p.May(account) {
		err = notFound("plan", string(id))
	}
	return p, account, err
}

// may refuses a change of a plan whose rights the caller does not have.
func (s *Plans) may(ctx context.Context, id api.PlanID) (p api.Principal, account string, err error) {
	if p, account, err = s.owner(ctx, id); err != nil {
		return p, account, err
	}
	check := s.tasks.check
	if account == p.Account {
		check = s.tasks.checkAgain
	}
	have, err := s.r.Get(ctx, account, id)
	if err == nil {
		err = check(ctx, p, have.Task)
	}
	return p, account, err
}

// Edit replaces the items of a plan.
func (s *Plans) Edit(ctx context.Context, id api.PlanID, req plan.Edit) (plan.Plan, error) {
	_, account, err := s.may(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Edit(ctx, account, id, req) })
}

// Pause pauses a plan.
func (s *Plans) Pause(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	_, account, err := s.owner(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Pause(ctx, account, id) })
}

// Resume continues a plan.
func (s *Plans) Resume(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	_, account, err := s.may(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Resume(ctx, account, id) })
}

// Retry tries items of a plan again.
func (s *Plans) Retry(ctx context.Context, id api.PlanID, req plan.Retry) (plan.Plan, error) {
	p, account, err := s.may(ctx, id)
	if err == nil {
		err = s.tasks.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Retry(ctx, account, id, req) })
}

// Replan has a plan divided again.
func (s *Plans) Replan(ctx context.Context, id api.PlanID, req plan.Replan) (plan.Plan, error) {
	p, account, err := s.may(ctx, id)
	if err == nil {
		err = s.tasks.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Replan(ctx, account, id, req) })
}

// Answer answers an item of a plan.
func (s *Plans) Answer(ctx context.Context, id api.PlanID, req plan.Answer) (plan.Plan, error) {
	_, account, err := s.may(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Answer(ctx, account, id, req) })
}

// Deliver delivers the branch of a plan.
func (s *Plans) Deliver(ctx context.Context, id api.PlanID, req plan.Deliver) (plan.Plan, error) {
	p, account, err := s.may(ctx, id)
	if err == nil && req.Remote != "" {
		err = s.tasks.check(ctx, p, api.CreateTask{Repo: &api.RepoTask{URL: req.Remote}})
	}
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Deliver(ctx, account, id, req) })
}

// Unfollow ends the looks at the merge requests of a plan.
func (s *Plans) Unfollow(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	_, account, err := s.owner(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Unfollow(ctx, account, id) })
}

// Cancel cancels a plan.
func (s *Plans) Cancel(ctx context.Context, id api.PlanID) (plan.Plan, error) {
	_, account, err := s.owner(ctx, id)
	return ifAllowed(err, func() (plan.Plan, error) { return s.r.Cancel(ctx, account, id) })
}

// mine refuses a plan of another account.
func (s *Plans) mine(ctx context.Context, p api.Principal, id api.PlanID) error {
	account, err := s.r.AccountOf(ctx, id)
	if err == nil && !p.May(account) {
		err = notFound("plan", string(id))
	}
	return err
}
