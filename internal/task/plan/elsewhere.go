package plan

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// Elsewhere are the other nodes of a fleet.
type Elsewhere interface {
	// Leaves returns nil if work for such a request is to continue on another node, or else why it is not.
	Leaves(ctx context.Context, account string, c api.CreateTask) error
	// HandOver gives a plan, with those of its tasks that have stopped here and are not done, to another node. If there is none, or back is set, this one continues them, as
	// the work of an owner that has ended; a plan without such tasks is still here then, and HandOver returns an error.
	HandOver(ctx context.Context, p words.Plan, tasks []api.TaskID, back bool) error
}

const (
	// againAfter is the time after which a plan that could not be handed over is tried again.
	againAfter = 30 * time.Second
	// onItsWay is how long it takes until another node has a plan that was handed over to it.
	onItsWay = 2 * time.Second
)

// errStopped says that a task of a plan has stopped here, and is not done.
var errStopped = errors.New("a task has stopped")

// elsewhere is the error for a plan of another owner; nil if it is this one's.
func (s *Service) elsewhere(p words.Plan) error {
	if s.cfg.Elsewhere == nil || p.Owner == s.cfg.Owner || p.State == words.Done {
		return nil
	}
	err := api.Errorf(api.KindUnavailable, "plan %s is on its way to another node", p.ID).WithHint("try again in a few seconds")
	err.RetryAfterMS = onItsWay.Milliseconds()
	return err
}

// stop notes that a task has stopped where another node can continue it.
func (d *driver) stop(id api.TaskID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped == nil {
		d.stopped = map[api.TaskID]bool{}
	}
	d.stopped[id] = true
}

// departing reports whether a plan is about to be handed over: nothing begins any more. Its tasks learn it from Leaves. now is true if nothing of it runs.
func (s *Service) departing(ctx context.Context, o *openPlan, d *driver) (departs, now bool) {
	if s.cfg.Elsewhere == nil {
		return false, false
	}
	err := s.leaves(ctx, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	again := s.cfg.Now().Sub(d.failedAt) > againAfter
	d.leaves = err == nil && !o.Canceling && again
	return d.leaves || len(d.stopped) > 0, again && len(d.jobs) == 0
}

// leaves returns nil if a plan is to continue on another node, or else why it is not.
func (s *Service) leaves(ctx context.Context, o *openPlan) error {
	if err := s.cfg.Elsewhere.Leaves(ctx, o.Account, o.Task); err != nil {
		return err
	}
	if len(o.commits()) > 0 && s.cfg.Archive == nil {
		return api.Errorf(api.KindUnsupported, "this node has no archive for its commits")
	}
	return nil
}

// Leaves reports whether the tasks of a plan are to stop where another node can continue them with the plan.
func (s *Service) Leaves(id api.PlanID) error {
	s.mu.Lock()
	d := s.drivers[id]
	s.mu.Unlock()
	if d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.leaves {
			return nil
		}
	}
	return api.Errorf(api.KindConflict, "plan %s stays", id)
}

// give hands a plan over of which nothing runs. It is the last job of its driver, or notes why the plan stays.
func (s *Service) give(id api.PlanID, d *driver) {
	err := s.giveNow(s.life, id, d)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = ""
	if err != nil {
		d.failedAt, d.why = s.cfg.Now(), api.AsError(err).Message
		return
	}
	d.left, d.leaves = true, false
}

func (s *Service) giveNow(ctx context.Context, id api.PlanID, d *driver) error {
	back, archived, url := false, "", ""
	err := s.with(ctx, id, func(o *openPlan) error {
		if len(o.commits()) > 0 {
			url = o.Task.Repo.URL
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	tasks := slices.Sorted(maps.Keys(d.stopped))
	d.mu.Unlock()
	if url != "" {
		if r, err := s.cfg.Git.Find(url); err == nil {
			archived = s.keepCommits(ctx, id, r)
		}
		if back = archived == ""; back && len(tasks) == 0 {
			return api.Errorf(api.KindUnavailable, "its commits are not in the archive")
		}
	}
	if archived != "" {
		err := s.with(ctx, id, func(o *openPlan) error {
			o.Archived = archived
			o.tell(words.EventState, words.StateEvent{State: o.State, Why: "it continues on another node"})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.with(ctx, id, func(o *openPlan) error {
		if err := s.cfg.Elsewhere.HandOver(ctx, o.Plan, tasks, back); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followed, id)
		if s.drivers[id] == d {
			s.open[id] = nil
		}
		return nil
	})
}

// HandOver gives the plans of this owner to other nodes, if that is wanted: each when its tasks have stopped or ended. It does not wait for that.
func (s *Service) HandOver(ctx context.Context) {
	all, err := s.own(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("hand plans over to other nodes", "err", err)
	}
	for _, o := range all {
		if s.leaves(ctx, o) == nil {
			s.drive(o.ID)
		} else {
			s.wake(o.ID) // tasks of it may have stopped before
		}
	}
}

// own lists the plans of this owner that are not done, without their items.
func (s *Service) own(ctx context.Context) (all []*openPlan, err error) {
	rows, err := s.cfg.Rows.OpenPlans(ctx, "")
	for _, r := range rows {
		if r.Owner != s.cfg.Owner {
			continue
		}
		o, err := read(r)
		if err != nil {
			return all, err
		}
		all = append(all, o)
	}
	return all, err
}

// Staying is a plan of a node that drains.
type Staying struct {
	ID api.PlanID
	// Why is what it waits for if it Goes to another node, and else why it stays. It is empty if it is about to go.
	Why  string
	Goes bool
}

// Staying lists the plans of this owner.
func (s *Service) Staying(ctx context.Context) (out []Staying, err error) {
	all, err := s.own(ctx)
	for _, o := range all {
		st := Staying{ID: o.ID, Goes: true}
		if err := s.leaves(ctx, o); err != nil {
			st.Why, st.Goes = err.Error(), false
		} else {
			st.Why, st.Goes = s.waits(o.ID)
		}
		out = append(out, st)
	}
	return out, err
}

// waits says what a plan that is about to be handed over waits for, or why it could not be.
func (s *Service) waits(id api.PlanID) (why string, goes bool) {
	s.mu.Lock()
	d := s.drivers[id]
	s.mu.Unlock()
	if d == nil {
		return "", true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why != "" {
		return d.why, false
	}
	jobs := slices.Sorted(maps.Keys(d.jobs))
	jobs = slices.DeleteFunc(jobs, func(name string) bool { return name == handOverJob })
	if len(jobs) == 0 || !d.leaves && len(d.stopped) == 0 {
		return "", true
	}
	return "what runs now (" + strings.Join(jobs, ", ") + ")", true
}

// handOverJob is the name of the job that hands a plan over.
const handOverJob = "hand-over"
