package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/workstream"
)

// Tasks runs the tasks of items. A task engine implements it.
type Tasks interface {
	// CheckItem refuses what no task can be made from, and returns it with its defaults.
	CheckItem(ctx context.Context, create api.CreateTask) (api.CreateTask, error)
	// StartItem starts a task, or returns the one with that ID.
	StartItem(ctx context.Context, id api.TaskID, create api.CreateTask) (api.Task, error)
	// Wait returns a task when it is done.
	Wait(ctx context.Context, id api.TaskID) (api.Task, error)
	// Cancel ends a task and returns it when it is done.
	Cancel(ctx context.Context, id api.TaskID) (api.Task, error)
	// Deliver delivers the result of a verified task.
	Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error)
}

// Log takes facts.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
	// Appended learns of a fact that was stored with the row of a plan.
	Appended(e api.Event)
}

// Config is what a Service is made of. All fields but Titles, Reviews, Archive, Elsewhere, Now and Logger must be set.
type Config struct {
	Rows  store.Plans
	Tasks Tasks
	Git   *cache.Cache
	// Source finds what opens a repository.
	Source func(ctx context.Context, url string) (git.Source, error)
	// Model finds a model by its name.
	Model func(name string) (model.Model, error)
	// Titles lists the documents of an account and a repository that items may be given: their names, each with its title. It may be nil.
	Titles func(ctx context.Context, account, repository, ref string) (map[string]string, error)
	// Workstreams knows who changes which files. Claims of the same rows is one of its sources.
	Workstreams *workstream.Registry
	Log         Log
	// Reviews reads merge requests that are followed, every FollowEvery (default 1 minute). Without it none can be.
	Reviews     Reviews
	FollowEvery time.Duration
	// Archive has commits for other nodes; nil for none.
	Archive Archive
	// Elsewhere has plans continue on other nodes; nil if there are none.
	Elsewhere Elsewhere
	Owner     api.OwnerID
	Now       func() time.Time
	Logger    *slog.Logger
}

// Service runs plans. Its methods may be called from several goroutines.
type Service struct {
	cfg   Config
	locks perkey.Locks
	life  context.Context
	end   context.CancelFunc
	work  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	drivers map[api.PlanID]*driver
	// open are the plans that have a driver. Each is used under its lock.
	open map[api.PlanID]*openPlan // nil for one that has to be read
	// followed are the plans of this owner whose merge requests are looked at.
	followed map[api.PlanID]bool
}

// New makes a Service. [Service.Close] ends it.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.FollowEvery = cmp.Or(cfg.FollowEvery, time.Minute)
	s := &Service{cfg: cfg, drivers: map[api.PlanID]*driver{}, open: map[api.PlanID]*openPlan{}, followed: map[api.PlanID]bool{}}
	s.life, s.end = context.WithCancel(context.Background())
	if cfg.Reviews != nil {
		s.work.Go(s.follow)
	}
	return s
}

// Leave leaves the plans to the next daemon: nothing begins any more, and nothing that happens to their tasks is theirs. It is called before the engine of
// the tasks ends.
func (s *Service) Leave() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
}

// Close is Leave, and waits for the drivers.
func (s *Service) Close(context.Context) error {
	s.Leave()
	s.work.Wait()
	return nil
}

// Recover takes over the plans of owners that have ended. It returns how many.
func (s *Service) Recover(ctx context.Context, gone func(api.OwnerID) bool) (n int, err error) {
	rows, err := s.cfg.Rows.OpenPlans(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if r.Owner == s.cfg.Owner || !gone(r.Owner) {
			continue
		}
		o, err := s.load(ctx, r)
		if err == nil {
			if o.Owner, o.now = s.cfg.Owner, s.cfg.Now().UTC(); s.cfg.Archive != nil {
				err = s.missed(ctx, o)
			}
		}
		if err == nil {
			err = s.store(ctx, o, r.Owner)
		}
		if err != nil {
			s.cfg.Logger.Error("take over a plan", "plan", r.ID, "err", err)
			continue
		}
		n++
		s.drive(r.ID)
	}
	return n, nil
}

func stream(id api.PlanID) api.Stream { return api.Stream{Kind: words.Stream, ID: string(id)} }

// load reads a plan with its items.
func (s *Service) load(ctx context.Context, r store.Plan) (*openPlan, error) {
	o, err := read(r)
	if err != nil {
		return nil, err
	}
	rows, err := s.cfg.Rows.PlanItems(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		var it item
		if err := json.Unmarshal(row.Doc, &it); err != nil || row.N != i+1 {
			return nil, api.Errorf(api.KindInternal, "item %d of plan %s is damaged: %w", row.N, r.ID, err)
		}
		o.items = append(o.items, it)
	}
	return o, nil
}

// store writes what was changed, and then tells it.
func (s *Service) store(ctx context.Context, o *openPlan, owner api.OwnerID) error {
	ctx = context.WithoutCancel(ctx)
	p, items, err := o.rows(s.repository(o.Task))
	if err == nil {
		err = s.cfg.Rows.UpdatePlan(ctx, owner, p, items...)
	}
	if err == nil {
		s.stored(o, p.Events)
	}
	return err
}

// stored tells others what is stored of a plan.
func (s *Service) stored(o *openPlan, events []api.Event) {
	less := slices.ContainsFunc(o.facts, fact.releases)
	o.changed, o.facts = nil, nil
	s.watch(o)
	for _, e := range events {
		s.cfg.Log.Appended(e)
	}
	if less {
		s.cfg.Workstreams.Released()
	}
}

// releases reports whether a plan changes less files after a fact.
func (f fact) releases() bool {
	switch v := f.data.(type) {
	case words.ItemEvent:
		return v.State == words.Completed
	case words.EditedEvent:
		return true
	case words.StateEvent:
		return v.State == words.Done
	}
	return false
}

// repository names the repository of a plan: the same one for all its addresses' spellings.
func (s *Service) repository(t api.CreateTask) string {
	r, err := s.cfg.Git.Remote(t.Repo.URL)
	if err != nil {
		return t.Repo.URL
	}
	return r.BranchKey("")
}

// with calls f with a plan whose lock is held, and stores what f changed.
func (s *Service) with(ctx context.Context, id api.PlanID, f func(*openPlan) error) (err error) {
	unlock, err := s.locks.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	defer func() {
		if v := recover(); v != nil { // a defect here must not end the daemon with all that others have in it
			s.cfg.Logger.Error("plan panicked", "plan", id, "panic", v, "stack", string(debug.Stack()))
			s.forget(id)
			err = api.Errorf(api.KindInternal, "internal error: %v", v)
		}
	}()
	o, err := s.current(ctx, id)
	if err != nil {
		return err
	}
	if err := s.elsewhere(o.Plan); err != nil {
		return err
	}
	o.now = s.cfg.Now().UTC()
	owner := o.Owner
	if o.State == words.Done {
		o.Owner = s.cfg.Owner // nobody works on it: that its owner may have ended does not matter
	}
	if err = f(o); err == nil && (len(o.changed) > 0 || len(o.facts) > 0) {
		err = s.store(ctx, o, owner)
	}
	if err != nil {
		s.forget(id) // what is in memory is not what is stored
	}
	return err
}

// current returns a plan as it is: from memory if it has a driver.
func (s *Service) current(ctx context.Context, id api.PlanID) (*openPlan, error) {
	s.mu.Lock()
	o, driven := s.open[id]
	s.mu.Unlock()
	if o != nil {
		return o, nil
	}
	r, err := s.cfg.Rows.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	if o, err = s.load(ctx, r); err == nil && driven {
		s.mu.Lock()
		s.open[id] = o
		s.mu.Unlock()
	}
	return o, err
}

// forget removes what is in memory of a plan.
func (s *Service) forget(id api.PlanID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] != nil {
		s.open[id] = nil
	}
}

// of is with for a plan of an account.
func (s *Service) of(ctx context.Context, account string, id api.PlanID, f func(*openPlan) error) error {
	if _, err := s.find(ctx, account, id); err != nil {
		return err
	}
	return s.with(ctx, id, f)
}

// find reads the row of a plan of an account.
func (s *Service) find(ctx context.Context, account string, id api.PlanID) (store.Plan, error) {
	r, err := s.cfg.Rows.Plan(ctx, id)
	if err == nil && r.Account != account {
		err = api.Errorf(api.KindNotFound, "not of this account")
	}
	if api.KindOf(err) == api.KindNotFound {
		err = api.Errorf(api.KindNotFound, "unknown plan %.64q", string(id)).WithHint("list them: hortus plan ls")
	}
	return r, err
}

// AccountOf returns whose plan it is.
func (s *Service) AccountOf(ctx context.Context, id api.PlanID) (string, error) {
	r, err := s.cfg.Rows.Plan(ctx, id)
	return r.Account, err
}

// Get returns a plan of an account with its items.
func (s *Service) Get(ctx context.Context, account string, id api.PlanID) (words.Plan, error) {
	r, err := s.find(ctx, account, id)
	if err != nil {
		return words.Plan{}, err
	}
	o, err := s.load(ctx, r)
	if err != nil {
		return words.Plan{}, err
	}
	for i := range o.items {
		if it := &o.items[i]; it.State == words.Pending && o.State == words.Running {
			it.Why = o.waits(i)
		}
	}
	return o.view(), nil
}

// List lists the plans of an account, the newest first, without their items; those that are done too if all is set.
func (s *Service) List(ctx context.Context, account string, all bool, limit int) ([]words.Plan, error) {
	rows, err := s.cfg.Rows.PlansOf(ctx, account, all, limit)
	if err != nil {
		return nil, err
	}
	out := []words.Plan{}
	for _, r := range rows {
		o, err := read(r)
		if err != nil {
			return nil, err
		}
		out = append(out, o.Plan)
	}
	return out, nil
}

func excepts(glob string) bool { return strings.HasPrefix(glob, "!") }

// Create stores a plan and begins with it: its items are found if it has none, and worked on unless a person has to approve them.
// KindInvalid for a request that makes no sense, KindExhausted if the account has too many plans.
func (s *Service) Create(ctx context.Context, req words.Create) (words.Plan, error) {
	by := api.PrincipalOf(ctx)
	if err := req.Check(); err != nil {
		return words.Plan{}, err
	}
	if len(req.Task.Sandbox.Env) > 0 {
		return words.Plan{}, api.Errorf(api.KindInvalid, "sandbox.env cannot be used with a plan").WithHint("use secrets")
	}
	if p := req.Task.Repo.FilePolicy; len(p.Writable) > 0 && (slices.ContainsFunc(p.ReadOnly, excepts) || len(p.Writable)+len(p.ReadOnly) >= api.MaxFileGlobs) {
		return words.Plan{}, api.Errorf(api.KindInvalid, "readOnly cannot have exceptions (\"!\") in a plan that has writable files, and both can have %d globs together", api.MaxFileGlobs-1).
			WithHint("put the exceptions into writable")
	}
	req.Task.Sandbox.Account, req.Task.Sandbox.Key = by.Account, by.Key
	checked, err := s.cfg.Tasks.CheckItem(ctx, req.Task)
	if err != nil {
		return words.Plan{}, err
	}
	req.Task.Model = checked.Model
	if err := checkUntil(req.Items, req.Task, nil); err != nil {
		return words.Plan{}, err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return words.Plan{}, api.Errorf(api.KindUnavailable, "plans are closed").WithHint("Run the command again; a new daemon starts automatically.")
	}
	o := &openPlan{now: s.cfg.Now().UTC()}
	o.Plan = words.Plan{
		ID: api.NewPlanID(), State: words.Planning, Version: 1, Task: req.Task, Parallel: cmp.Or(req.Parallel, words.DefaultParallel),
		Account: by.Account, Key: by.Key, Owner: s.cfg.Owner, CreatedAt: o.now, Stacked: req.Stacked,
	}
	if err := s.begins(o, req.Follow, req.FollowRounds); err != nil {
		return words.Plan{}, err
	}
	o.Branch, o.By, o.Approve = repo.PlanBranch(o.ID), by, req.Approve
	if len(req.Items) > 0 {
		o.replace(withUntil(req.Items, req.Task))
	}
	o.tell(words.EventCreated, o.summary())
	p, items, err := o.rows(s.repository(req.Task))
	if err == nil {
		err = s.cfg.Rows.InsertPlan(context.WithoutCancel(ctx), p, words.MaxPlans, items...)
	}
	if err != nil {
		return words.Plan{}, err
	}
	s.stored(o, p.Events)
	out := o.view()
	s.drive(o.ID)
	return out, nil
}

// replace sets the items that have not begun, behind those that have.
func (o *openPlan) replace(items []words.Item) {
	var all []item
	for _, it := range items {
		if n := o.index(it.ID); n >= 0 && o.items[n].State != words.Pending {
			all = append(all, o.items[n])
			continue
		}
		all = append(all, item{Progress: words.Progress{Item: it, State: words.Pending}})
	}
	o.items = all
	for n := range all {
		o.touch(n)
	}
}

// Approve lets the items of a proposed plan be worked on.
func (s *Service) Approve(ctx context.Context, account string, id api.PlanID) (out words.Plan, err error) {
	err = s.of(ctx, account, id, func(o *openPlan) error {
		if o.State != words.Proposed {
			return api.Errorf(api.KindConflict, "plan %s is %s: only a proposed plan is approved", o.ID, o.State)
		}
		err := o.move(words.Queued, "")
		out = o.view()
		return err
	})
	if err == nil {
		s.drive(id)
	}
	return out, err
}

// Edit replaces the items that have not begun.
func (s *Service) Edit(ctx context.Context, account string, id api.PlanID, req words.Edit) (out words.Plan, err error) {
	err = s.of(ctx, account, id, func(o *openPlan) error {
		switch {
		case o.State == words.Planning || o.State == words.Done:
			return api.Errorf(api.KindConflict, "plan %s is %s; its items cannot be changed now", o.ID, o.State)
		case req.Version != 0 && req.Version != o.Version:
			return api.Errorf(api.KindConflict, "plan %s has version %d, not %d", o.ID, o.Version, req.Version).WithHint("read it again: hortus plan show %s", o.ID)
		}
		files, err := s.files(ctx, o)
		if err != nil {
			return err
		}
		if err := checkUntil(req.Items, o.Task, o.specs()); err != nil {
			return err
		}
		req.Items = Normalize(withUntil(req.Items, o.Task), files)
		if err := Check(req.Items, files); err != nil {
			return err
		}
		for i := range o.items {
			it := &o.items[i]
			n := slices.IndexFunc(req.Items, func(r words.Item) bool { return r.ID == it.ID })
			if it.State != words.Pending && (n < 0 || !same(req.Items[n], it.Item)) {
				return api.Errorf(api.KindConflict, "item %s is %s: it cannot be changed or removed", it.ID, it.State)
			}
		}
		o.replace(req.Items)
		o.edited()
		o.skip()
		out = o.view()
		return nil
	})
	if err == nil {
		s.wake(id)
	}
	return out, err
}

// same reports whether two items say the same.
func same(a, b words.Item) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && string(x) == string(y)
}

// Pause lets what runs end, and begins nothing, until Resume.
func (s *Service) Pause(ctx context.Context, account string, id api.PlanID) (out words.Plan, err error) {
	err = s.of(ctx, account, id, func(o *openPlan) error {
		err := o.move(words.Paused, "a person paused it")
		out = o.view()
		return err
	})
	return out, err
}

// Resume continues a paused plan.
func (s *Service) Resume(ctx context.Context, account string, id api.PlanID) (out words.Plan, err error) {
	err = s.of(ctx, account, id, func(o *openPlan) error {
		if o.State != words.Paused {
			return api.Errorf(api.KindConflict, "plan %s is %s, not paused", o.ID, o.State)
		}
		err := o.move(words.Queued, "")
		out = o.view()
		return err
	})
	if err == nil {
		s.drive(id)
	}
	return out, err
}

// Retry tries failed items again, with those that were skipped because of them.
func (s *Service) Retry(ctx context.Context, account string, id api.PlanID, req words.Retry) (out words.Plan, err error) {
	err = s.of(ctx, account, id, func(o *openPlan) error {
		n := 0
		for i := range o.items {
			if it := &o.items[i]; it.State == words.Failed && (req.Item == "" || req.Item == it.ID) {
				o.set(i, words.Pending, "", "tried again")
				it.Repairs, it.Question, it.Message, it.EndedAt, it.Start = 0, "", req.Message, time.Time{}, o.resumes(it)
				n++
			}
		}
		if n == 0 {
			return api.Errorf(api.KindConflict, "plan %s has no failed item%s", o.ID, map[bool]string{true: " " + req.Item}[req.Item != ""]).WithHint("hortus plan show %s", o.ID)
		}
		o.unskip()
		if o.State == words.Done {
			o.Outcome, o.EndedAt, o.Receipt, o.Error = "", time.Time{}, nil, nil
			if err := o.move(words.Queued, "items are tried again"); err != nil {
				return err
			}
		}
		out = o.view()
		return nil
	})
	if err == nil {
		s.drive(id)
	}
	return out, err
}

// Replan has the planner divide again what is not completed of a plan that is done: it sees what came of each item.
func (s *Service) Replan(ctx context.Context, account string, id api.PlanID, req words.Replan) (out words.Plan, err error) {
	if len(req.Message) > words.MaxRequest {
		return out, api.Errorf(api.KindInvalid, "the message has %d bytes; the maximum is %d", len(req.Message), words.MaxRequest)
	}
	err = s.of(ctx, account, id, func(o *openPlan) error {
		switch {
		case o.State != words.Done || o.Commit == "":
			return api.Errorf(api.KindConflict, "plan %s is %s: what is done, and has begun, can be divided again", o.ID, o.State).WithHint("hortus plan show %s", o.ID)
		case o.count()[words.Completed] == len(o.items):
			return api.Errorf(api.KindConflict, "all items of plan %s are completed", o.ID).WithHint("make another plan: hortus plan start")
		}
		o.Again, o.Note, o.Approve = true, req.Message, req.Approve
		o.Outcome, o.EndedAt, o.Receipt, o.Error = "", time.Time{}, nil, nil
		err := o.move(words.Planning, "what is not completed is divided again")
		out = o.view()
		return err
	})
	if err == nil {
		s.drive(id)
	}
	return out, err
}

// divided replaces the items that have no result. Those that are completed are kept as they are.
func (o *openPlan) divided(items []words.Item) {
	var all []item
	for _, it := range items {
		next := item{Progress: words.Progress{Item: it, State: words.Pending}}
		if n := o.index(it.ID); n >= 0 {
			if o.items[n].State == words.Completed {
				next = o.items[n]
			} else {
				next.Tries, next.Usage = o.items[n].Tries, o.items[n].Usage
			}
		}
		all = append(all, next)
	}
	o.items = all
	for n := range all {
		o.touch(n)
	}
	o.edited()
	o.Again, o.Note = false, ""
}

// Answer answers the amendment that an item waits for.
func (s *Service) Answer(ctx context.Context, account string, id api.PlanID, req words.Answer) (out words.Plan, err error) {
	err = s.of(ctx, account, id, func(o *openPlan) error {
		n := o.index(req.Item)
		if n < 0 || o.items[n].Phase != words.Asks || answered(&o.items[n]) {
			return api.Errorf(api.KindConflict, "item %.60q of plan %s waits for no answer", req.Item, o.ID)
		}
		o.answer(n, req.Grant, "a person", "")
		out = o.view()
		return nil
	})
	if err == nil {
		s.wake(id)
	}
	return out, err
}

// Cancel ends a plan: its tasks are canceled, and what has not begun is skipped. It returns when nothing of it runs.
func (s *Service) Cancel(ctx context.Context, account string, id api.PlanID) (words.Plan, error) {
	err := s.of(ctx, account, id, func(o *openPlan) error {
		o.unfollow("the plan was canceled")
		if o.State == words.Done || o.Canceling {
			return nil
		}
		o.Canceling = true
		o.tell(words.EventState, words.StateEvent{State: o.State, Why: "canceled"})
		return nil
	})
	if err != nil {
		return words.Plan{}, err
	}
	if d := s.drive(id); d != nil {
		d.interrupt()
		select {
		case <-d.done:
		case <-ctx.Done():
			return words.Plan{}, ctx.Err()
		}
	}
	out, err := s.Get(ctx, account, id)
	if err == nil {
		err = s.elsewhere(out)
	}
	return out, err
}

// keepDone is how long a plan is kept that is done.
const keepDone = 90 * 24 * time.Hour

// prune removes plans that ended long ago.
func (s *Service) prune() {
	if _, err := s.cfg.Rows.PrunePlans(s.life, s.cfg.Now().Add(-keepDone)); err != nil && s.life.Err() == nil {
		s.cfg.Logger.Error("remove old plans", "err", err)
	}
}
