package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// driver continues one plan until nothing of it runs or can begin.
type driver struct {
	wake chan struct{}
	done chan struct{}
	// end ends what waits for tasks.
	end context.CancelFunc
	ctx context.Context
	// blocked is closed when it is worth looking whether others still change the same files; nil if the plan does not wait. It is used by
	// the goroutine of the driver.
	blocked <-chan struct{}

	mu   sync.Mutex
	jobs map[string]bool
	work sync.WaitGroup
	// leaves is true while tasks are to stop for another node, which stopped have. left is true if the plan was handed over; if it could not be, why says it, since failedAt.
	leaves   bool
	stopped  map[api.TaskID]bool
	left     bool
	why      string
	failedAt time.Time
}

// interrupt has the driver look at the plan, and no longer wait for its tasks.
func (d *driver) interrupt() {
	d.end()
	d.signal()
}

func (d *driver) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// begin starts a job in a goroutine, unless one of that name runs.
func (d *driver) begin(name string, job func(ctx context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.jobs[name] {
		return
	}
	d.jobs[name] = true
	d.work.Go(func() {
		job(d.ctx)
		d.mu.Lock()
		delete(d.jobs, name)
		d.mu.Unlock()
		d.signal()
	})
}

// over reports whether the plan was handed over.
func (d *driver) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// idle reports whether no job runs.
func (d *driver) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.jobs) == 0
}

// drive starts the driver of a plan, or wakes the one that it has. It returns nil after Close.
func (s *Service) drive(id api.PlanID) *driver {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.drivers[id]; d != nil && !d.over() {
		d.signal()
		return d
	}
	if s.closed {
		return nil
	}
	d := &driver{wake: make(chan struct{}, 1), done: make(chan struct{}), jobs: map[string]bool{}}
	d.ctx, d.end = context.WithCancel(s.life)
	s.drivers[id], s.open[id] = d, nil
	s.work.Go(func() { s.run(id, d) })
	return d
}

// wake wakes the driver of a plan, if it has one.
func (s *Service) wake(id api.PlanID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.drivers[id]; d != nil {
		d.signal()
	}
}

// run is the goroutine of a driver.
func (s *Service) run(id api.PlanID, d *driver) {
	defer close(d.done)
	defer d.end()
	for {
		goes, err := s.step(id, d)
		if err != nil && s.life.Err() == nil {
			s.cfg.Logger.Error("cannot continue a plan", "plan", id, "err", err)
			goes = false
		}
		if !goes && s.leave(id, d) {
			break
		}
		select {
		case <-d.wake:
		case <-d.blocked:
		case <-s.life.Done():
			d.work.Wait()
			s.leave(id, d)
			return
		}
	}
	d.work.Wait()
	s.prune()
}

// leave ends a driver, unless somebody has woken it meanwhile.
func (s *Service) leave(id api.PlanID, d *driver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(d.wake) > 0 && s.life.Err() == nil {
		return false
	}
	if s.drivers[id] == d { // a plan that was handed over may have come back
		delete(s.drivers, id)
		delete(s.open, id)
	}
	return true
}

// step does what can be done with a plan now: it changes states, and begins jobs. It reports whether more can happen to the plan by
// itself.
func (s *Service) step(id api.PlanID, d *driver) (goes bool, err error) {
	var begin []func()
	if d.blocked = nil; d.over() {
		return false, nil
	}
	err = s.with(s.life, id, func(o *openPlan) error {
		ctx := api.WithPrincipal(s.life, o.By)
		if departs, now := s.departing(ctx, o, d); departs {
			if goes = true; now {
				begin = append(begin, func() { d.begin(handOverJob, func(context.Context) { s.give(id, d) }) })
			}
			return nil
		}
		if o.Canceling && o.State != words.Done {
			goes = true
			if d.idle() {
				goes = false
				return s.canceled(ctx, o, d)
			}
			return nil
		}
		switch o.State {
		case words.Planning:
			goes = true
			begin = append(begin, func() { d.begin("plan", func(ctx context.Context) { s.divide(ctx, id) }) })
		case words.Queued:
			goes = true
			d.blocked = s.cfg.Workstreams.Changed()
			if err := s.enter(ctx, o); err != nil || o.State != words.Running {
				return err
			}
			begin, goes, err = s.items(o, d)
			return err
		case words.Running:
			begin, goes, err = s.items(o, d)
			return err
		case words.Paused:
			begin = s.waiting(o, d) // a task that runs may end
			goes = len(begin) > 0 || !d.idle()
		default:
			goes = !d.idle()
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		d.signal()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, f := range begin {
		f()
	}
	return goes, nil
}

// waiting waits for the tasks of items that are worked on.
func (s *Service) waiting(o *openPlan, d *driver) (begin []func()) {
	for i := range o.items {
		if it := &o.items[i]; it.State == words.InProgress && it.Phase == words.Works {
			name := "item " + it.ID
			begin = append(begin, func() { d.begin(name, func(ctx context.Context) { s.works(ctx, o.ID, it.ID, d) }) })
		}
	}
	return begin
}

// items begins what is ready, and ends the plan if nothing is left.
func (s *Service) items(o *openPlan, d *driver) (begin []func(), goes bool, err error) {
	o.skip()
	s.proceed(api.WithPrincipal(s.life, o.By), o)
	for _, n := range o.ready() {
		if it := &o.items[n]; o.continues(it.ID) {
			s.probe(o, n)
		} else {
			s.try(o, n, "", it.Start)
		}
	}
	begin = s.waiting(o, d)
	for i := range o.items {
		if id := o.items[i].ID; undecided(&o.items[i]) {
			begin = append(begin, func() { d.begin("amendment of "+id, func(ctx context.Context) { s.decide(ctx, o.ID, id) }) })
		}
	}
	if n := o.arrival(); n >= 0 {
		id := o.items[n].ID
		begin = append(begin, func() { d.begin("merge", func(ctx context.Context) { s.merge(ctx, o.ID, id) }) })
	}
	if !o.ended() {
		asks := slices.ContainsFunc(o.items, func(it item) bool { return it.Phase == words.Asks && !answered(&it) })
		if why := map[bool]string{true: "an item waits for an answer"}[asks && len(begin) == 0]; o.Why != why {
			o.Why = why
			o.tell(words.EventState, words.StateEvent{State: o.State, Why: why})
		}
		return begin, true, nil
	}
	if len(begin) > 0 || !d.idle() {
		return begin, true, nil
	}
	if o.count()[words.Completed] > 0 && o.Judged != o.Head {
		if o.Final == "" {
			o.Final = api.NewTaskID()
			o.tell(words.EventState, words.StateEvent{State: o.State, Why: "the gate runs on the whole result"})
		}
		return append(begin, func() { d.begin("final", func(ctx context.Context) { s.judge(ctx, o.ID) }) }), true, nil
	}
	return nil, false, s.finish(o)
}

// try begins another task on the n-th item; in a paused plan, when that continues.
func (s *Service) try(o *openPlan, n int, why, start string) {
	it := &o.items[n]
	if o.State == words.Paused {
		it.Start = start
		o.set(n, words.Pending, "", why)
		return
	}
	it.Tries = append(it.Tries, words.Try{Task: api.NewTaskID(), Base: o.Head, Start: start, Why: why, StartedAt: o.now})
	it.Start = ""
	o.set(n, words.InProgress, words.Works, why)
}

// fail ends an item without a result.
func (o *openPlan) fail(n int, why, question string) {
	o.items[n].Question = question
	o.set(n, words.Failed, "", why)
	o.skip()
}

// finish ends a plan of which no item is left.
func (s *Service) finish(o *openPlan) error {
	counts := o.count()
	switch {
	case counts[words.Completed] == len(o.items) && o.Passed:
		o.Outcome = api.OutcomeVerified
	default:
		o.Outcome = api.OutcomeNeedsHuman
	}
	why := fmt.Sprintf("%d of %d items completed", counts[words.Completed], len(o.items))
	if stopped := o.stopped(); stopped != "" {
		why += "; " + stopped
	} else if counts[words.Completed] > 0 && !o.Passed {
		why += "; the gate fails on the whole result"
	}
	return o.done(why)
}

// done ends a plan.
func (o *openPlan) done(why string) error {
	if err := o.move(words.Done, why); err != nil {
		return err
	}
	o.EndedAt = o.now
	o.tell(words.EventFinished, o.summary())
	return nil
}

// canceled ends the tasks of a plan that is being canceled, of which this process waits for none, and the plan.
func (s *Service) canceled(ctx context.Context, o *openPlan, d *driver) error {
	r, stopped := &api.Receipt{Completed: []string{}, Skipped: []string{}}, false
	end := func(id api.TaskID) {
		if id == "" {
			return
		}
		t, err := s.cfg.Tasks.Cancel(ctx, id)
		if api.KindOf(err) == api.KindNotFound {
			return
		}
		if s.cfg.Elsewhere != nil && t.ID != "" && t.State != api.TaskDone {
			d.stop(id) // the node that gets the plan cancels it
			stopped = true
			return
		}
		if err != nil {
			s.cfg.Logger.Error("cancel a task of a plan", "plan", o.ID, "task", id, "err", err)
			r.ProcessesLeft++
			return
		}
		if t.Receipt != nil {
			r.ProcessesLeft += t.Receipt.ProcessesLeft
		}
	}
	end(o.Final)
	for i := range o.items {
		it := &o.items[i]
		switch it.State {
		case words.Completed:
			r.Completed = append(r.Completed, it.ID)
		case words.Pending:
			o.set(i, words.Skipped, "", "the plan was canceled")
			r.Skipped = append(r.Skipped, it.ID)
		case words.InProgress:
			end(it.Last().Task)
			end(it.Last().Check)
			it.Last().Outcome, it.Last().EndedAt = api.OutcomeCanceled, o.now
			o.set(i, words.Failed, "", "the plan was canceled")
			r.Skipped = append(r.Skipped, it.ID)
		default:
			r.Skipped = append(r.Skipped, it.ID)
		}
	}
	if stopped {
		return errStopped
	}
	o.Canceling, o.Outcome, o.Receipt = false, api.OutcomeCanceled, r
	return o.done("a person canceled it")
}
