package manager

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/pool"
	"hortus.dev/internal/sandbox/uptime"
)

// Recoverer brings rows and reality together: it takes over what an ended daemon left, and destroys
// what nobody has.
type Recoverer struct {
	table     *table
	lifecycle *lifecycle
	origins   *origins
	capacity  *capacity
	policies  *Policies
	pool      *pool.Pool
	run       *command.Commands
	facts     facts
	backends  []sandbox.Backend
	rows      sandbox.Rows
	owner     api.OwnerID
	clock     uptime.Clock
	log       *slog.Logger
}

// Recovered counts the sandboxes of ended owners that a recovery processed.
type Recovered struct{ Adopted, Lost int }

// Recover takes over the sandboxes of every owner for which gone returns true, with their
// deadlines and commands. A sandbox that cannot continue is destroyed with proof and marked
// lost, and its commands unknown: if it was starting, worked for a task, was held by a
// connection, has exited, or if its backend is not an Adopter. A sandbox that is paused to disk
// stays paused. Leftovers without a row are destroyed too. Rows of an owner that may still be
// running are not changed.
func (r *Recoverer) Recover(ctx context.Context, gone func(api.OwnerID) bool) (did Recovered, err error) {
	rows, err := r.rows.ListSandboxes(ctx, false)
	if err != nil {
		return did, err
	}
	backends := map[string]sandbox.Backend{}
	for _, b := range r.backends {
		backends[b.Name()] = b
	}
	var errs []error
	keep := map[api.SandboxID]bool{}
	note := func(row api.Sandbox, lives bool, err error) {
		switch {
		case err != nil:
			r.count(row)
			errs = append(errs, err)
			keep[row.ID] = lives
		case lives:
			keep[row.ID] = true
			did.Adopted++
		default:
			did.Lost++
		}
	}
	var far []api.Sandbox // that services run
	for _, row := range rows {
		if row.State.Final() {
			continue
		}
		if row.Owner == r.owner || !gone(row.Owner) {
			keep[row.ID] = true
			continue
		}
		b := backends[row.Isolation]
		switch {
		case b == nil:
			r.count(row)
			errs = append(errs, api.Errorf(api.KindUnsupported, "sandbox %s ran on backend %q, which this build does not include", row.ID, row.Isolation))
		case b.Capabilities().Remote:
			far = append(far, row)
		default:
			lives, err := r.recoverOne(ctx, ctx, b, row)
			note(row, lives, err)
		}
	}
	within, cancel := context.WithTimeout(ctx, farTime)
	defer cancel()
	r.recoverFar(within, backends, far, note)
	errs = append(errs, r.reclaimOrphans(ctx, within, keep), r.dropPauses(ctx, gone))
	r.policies.follower().Follow(slices.DeleteFunc(rows, func(row api.Sandbox) bool { return !keep[row.ID] }), "")
	return did, errors.Join(errs...)
}

// A daemon serves after its recovery, and what supervises it ends a start that takes minutes. So there is a time for all
// sandboxes of services together.
const (
	// answerTime is the time in which their guests have to answer: one that can return does within seconds.
	answerTime = 45 * time.Second
	// farTime includes the removal of what is lost, and of leftovers.
	farTime = 70 * time.Second
	// tellEvery is the time between two log lines about those that are waited for.
	tellEvery = 10 * time.Second
	// farAtOnce is how many leftovers of services are removed at a time.
	farAtOnce = 16
)

// recoverFar recovers sandboxes of services, all at a time: most of it is waiting, and each has the whole answerTime. It calls note for
// each, in this goroutine.
func (r *Recoverer) recoverFar(ctx context.Context, backends map[string]sandbox.Backend, rows []api.Sandbox, note func(api.Sandbox, bool, error)) {
	if len(rows) == 0 {
		return
	}
	answering, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	type result struct {
		row   api.Sandbox
		lives bool
		err   error
	}
	results := make(chan result)
	waiting := map[api.SandboxID]bool{}
	for _, row := range rows {
		waiting[row.ID] = true
		go func() {
			lives, err := r.recoverOne(ctx, answering, backends[row.Isolation], row)
			results <- result{row, lives, err}
		}()
	}
	r.log.Info("taking over the sandboxes that services run", "count", len(rows), "atMost", answerTime)
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for len(waiting) > 0 {
		select {
		case x := <-results:
			delete(waiting, x.row.ID)
			note(x.row, x.lives, x.err)
		case <-tick.C:
			ids := slices.Sorted(maps.Keys(waiting))
			r.log.Warn("waiting for sandboxes that services run; those that do not answer are ended", "count", len(ids), "sandboxes", ids[:min(len(ids), 10)])
		}
	}
}

// Lose marks the sandboxes of owners on other hosts as lost, with their commands: what ran there cannot be reached, and their hosts
// end it when they are back. What is paused to disk is taken over if its snapshot is in the archive, and stays as it is otherwise. why says for people why an owner has ended. It returns how many.
func (r *Recoverer) Lose(ctx context.Context, gone func(api.OwnerID) bool, why func(api.OwnerID) string) (n int, err error) {
	rows, err := r.rows.ListSandboxes(ctx, false)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, row := range rows {
		if row.State.Final() || row.Owner == r.owner || !gone(row.Owner) {
			continue
		}
		if paused, _ := r.foundPaused(ctx, row); paused {
			// With a copy in the archive it is resumed here; without one it waits for its host.
			if s, err := r.origins.snapshots.Snapshot(ctx, row.Snapshot); err == nil && s.Archived != "" {
				errs = append(errs, r.takeOver(ctx, row))
			}
			continue
		}
		if err := r.lifecycle.markLost(ctx, row, why(row.Owner), api.Proof{How: elsewhere}); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

// elsewhere is the proof of what ended with its node.
const elsewhere = "its node ended; what may still run there is destroyed when the node is back"

// count takes the room of a sandbox that could neither be taken over nor destroyed,
// and may still run, for as long as this daemon lives.
func (r *Recoverer) count(row api.Sandbox) {
	_ = r.capacity.hold(r.lifecycle.instance(row, nil, life.Running), row.Isolation)
}

// recoverOne recovers one sandbox of an ended owner, which has to answer before answering ends. It returns true if the
// sandbox continues, here or on disk.
func (r *Recoverer) recoverOne(ctx, answering context.Context, b sandbox.Backend, row api.Sandbox) (bool, error) {
	paused, reason := r.foundPaused(ctx, row)
	if !paused && reason == "" {
		err := r.adoptTrying(answering, b, row)
		var unstored errUnstored
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil || errors.As(err, &unstored):
			return true, err // it is left to the next daemon as it is
		}
		reason = lostWhy(err, row.ExpiresAt.Before(r.lifecycle.wall()))
	}
	proof, err := b.Reclaim(ctx, row.ID)
	switch {
	case err != nil:
		return paused, err
	case paused:
		return true, r.takeOver(ctx, row)
	}
	if err := r.lifecycle.markLost(ctx, row, reason, proof); err != nil {
		return false, err
	}
	r.log.Warn("sandbox lost", "sandbox", row.ID, "reason", reason)
	return false, nil
}

const (
	// nearTries is how often a sandbox of this host is tried: its backend waits for a guest itself.
	nearTries = 3
	// minTryWait and maxTryWait bound the pause before the next try, which doubles.
	minTryWait = 250 * time.Millisecond
	maxTryWait = 5 * time.Second
	// lastTry is how long before the end a try is made that was to wait for longer.
	lastTry = 5 * time.Second
)

// adoptTrying takes over a sandbox. It tries again after an error that does not say that the sandbox has ended or must not continue: a service
// that is busy or away is no reason to end what runs there. It tries a sandbox of a service until ctx ends.
func (r *Recoverer) adoptTrying(ctx context.Context, b sandbox.Backend, row api.Sandbox) error {
	var why error // of the last try that was not ended by the end of ctx
	began := time.Now()
	for tries, wait := 1, minTryWait; ; tries, wait = tries+1, min(2*wait, maxTryWait) {
		err := r.adopt(ctx, b, row)
		if err == nil || sure(err) {
			return err
		}
		if why == nil || ctx.Err() == nil {
			why = err
		}
		pause := max(wait, api.RetryAfterOf(err))
		if end, ok := ctx.Deadline(); ok {
			pause = max(wait, min(pause, time.Until(end)-lastTry))
		}
		over := !b.Capabilities().Remote && tries == nearTries
		if !over {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				over = true
			}
		}
		if over && tries > 1 {
			return api.Errorf(api.KindOf(why), "%d tries in %s failed, the last one: %w", tries, time.Since(began).Round(time.Second), why)
		}
		if over {
			return why
		}
	}
}

// sure reports whether the error of a takeover is final. See [sandbox.Backend.Adopt] for the first two kinds; the others are errors of what
// was asked.
func sure(err error) bool {
	var refused errRefused
	var unstored errUnstored
	if errors.As(err, &refused) || errors.As(err, &unstored) {
		return true
	}
	switch api.KindOf(err) {
	case api.KindNotFound, api.KindConflict, api.KindInvalid, api.KindUnsupported:
		return true
	}
	return false
}

// foundPaused reports whether a sandbox of an ended owner is paused to disk, or why it was paused
// and is lost; neither if it may still be running. A sandbox whose pause was in progress is
// paused if its snapshot is complete, and one whose resume was in progress if its row does not
// say running yet.
func (r *Recoverer) foundPaused(ctx context.Context, row api.Sandbox) (bool, string) {
	if row.Snapshot == "" || r.origins.snapshots == nil {
		return false, ""
	}
	s, err := r.origins.snapshots.Snapshot(ctx, row.Snapshot)
	switch {
	case err == nil && s.State == api.SnapshotReady && s.Paused && s.Sandbox == row.ID:
		return true, ""
	case row.State != api.SandboxPaused, err == nil && !(s.Paused && s.Sandbox == row.ID):
		return false, "" // what it started from
	case err != nil:
		return false, "the sandbox was paused to disk, and its snapshot cannot be read: " + err.Error()
	}
	return false, "the sandbox was paused to disk, and its snapshot is " + string(s.State) + because(s.Reason)
}

// takeOver makes a sandbox that is paused to disk this daemon's.
func (r *Recoverer) takeOver(ctx context.Context, row api.Sandbox) error {
	said := row.State != api.SandboxPaused
	row.State, row.Owner = api.SandboxPaused, r.owner
	if err := r.rows.UpdateSandbox(ctx, row); err != nil {
		return err
	}
	if said {
		r.facts.append(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: "paused to disk in snapshot " + string(row.Snapshot)})
	}
	return nil
}

// dropPauses removes the snapshots of pauses in which no sandbox is paused: it
// continued, or ended, and its daemon with it.
func (r *Recoverer) dropPauses(ctx context.Context, gone func(api.OwnerID) bool) error {
	if r.origins.snapshots == nil {
		return nil
	}
	all, err := r.origins.snapshots.Snapshots(ctx, false)
	errs := []error{err}
	for _, s := range all {
		if !s.Paused || s.State != api.SnapshotReady || s.Owner != r.owner && !gone(s.Owner) {
			continue
		}
		row, err := r.rows.Sandbox(ctx, s.Sandbox)
		if err == nil && row.State == api.SandboxPaused && row.Snapshot == s.ID {
			continue
		}
		if err != nil && api.KindOf(err) != api.KindNotFound {
			errs = append(errs, err)
			continue
		}
		_, err = r.origins.snapshots.Remove(ctx, s.ID, "no paused sandbox uses this snapshot")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Orphan is what a sandbox left behind with a backend and does not live.
type Orphan struct {
	Backend string
	ID      api.SandboxID
}

// Orphans lists leftovers that backends find of sandboxes that this daemon did not create and
// whose row, if there is one, is final.
func (r *Recoverer) Orphans(ctx context.Context) ([]Orphan, error) {
	rows, err := r.rows.ListSandboxes(ctx, false)
	if err != nil {
		return nil, err
	}
	keep := map[api.SandboxID]bool{}
	for _, row := range rows {
		keep[row.ID] = !row.State.Final()
	}
	return r.orphans(ctx, r.backends, keep)
}

func (r *Recoverer) orphans(ctx context.Context, backends []sandbox.Backend, keep map[api.SandboxID]bool) (all []Orphan, err error) {
	var errs []error
	for _, b := range backends {
		ids, err := b.Orphans(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, id := range ids {
			mine, err := r.made(ctx, id)
			if err != nil {
				errs = append(errs, err)
			} else if !mine && !keep[id] {
				all = append(all, Orphan{b.Name(), id})
			}
		}
	}
	return all, errors.Join(errs...)
}

// reclaimOrphans destroys leftovers that no row leads to, for example of a
// database that was removed. within ends the wait for services.
func (r *Recoverer) reclaimOrphans(ctx, within context.Context, keep map[api.SandboxID]bool) error {
	var near, far []sandbox.Backend
	for _, b := range r.backends {
		if b.Capabilities().Remote {
			far = append(far, b)
		} else {
			near = append(near, b)
		}
	}
	all, err := r.orphans(ctx, near, keep)
	errs := []error{err}
	for _, o := range all {
		errs = append(errs, r.Reclaim(ctx, o))
	}
	all, err = r.orphans(within, far, keep)
	errs = append(errs, err)
	failed := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(farAtOnce)
	for i, o := range all {
		group.Go(func() error { failed[i] = r.Reclaim(within, o); return nil })
	}
	_ = group.Wait() // the errors are in failed
	return errors.Join(append(errs, failed...)...)
}

// made reports whether this daemon created a sandbox: it is live, it is or was in the pool, or its
// row names this owner. Resources of an ended one are freed by the goroutine that ended it.
func (r *Recoverer) made(ctx context.Context, id api.SandboxID) (bool, error) {
	r.table.mu.Lock()
	_, lives := r.table.entries[id]
	r.table.mu.Unlock()
	if lives || r.pool.Made(id) {
		return true, nil
	}
	row, err := r.rows.Sandbox(ctx, id)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	return row.Owner == r.owner, err
}

// Reclaim destroys an orphan, and does nothing to a sandbox of this daemon's.
func (r *Recoverer) Reclaim(ctx context.Context, o Orphan) error {
	if mine, err := r.made(ctx, o.ID); mine || err != nil {
		return err
	}
	for _, b := range r.backends {
		if b.Name() == o.Backend {
			_, err := b.Reclaim(ctx, o.ID)
			return err
		}
	}
	return api.Errorf(api.KindNotFound, "this build does not include backend %q", o.Backend)
}

// errRefused is the reason why a sandbox of an earlier daemon must not continue.
type errRefused string

func (e errRefused) Error() string { return string(e) }

// errUnstored reports that a sandbox could be taken over, but not so that it was noted.
type errUnstored struct{ error }

func (e errUnstored) Unwrap() error { return e.error }

// refuses returns why a sandbox that may still run is not taken over; nil when it is.
func refuses(row api.Sandbox, b sandbox.Backend) error {
	switch {
	case row.State == api.SandboxStarting:
		return errRefused("the daemon ended while the sandbox was starting")
	case row.Task != "":
		return errRefused("the daemon ended, and with it the task that used the sandbox")
	case row.Held:
		return errRefused("the daemon ended, and with it the connection that held the sandbox")
	case !b.Capabilities().Adopt:
		return errRefused("the daemon ended without stopping the sandbox, and a sandbox of the " + b.Name() + " backend cannot be taken over")
	}
	return nil
}

// lostWhy returns why a sandbox is lost that was not taken over.
func lostWhy(err error, late bool) string {
	var refused errRefused
	switch {
	case errors.As(err, &refused):
		return string(refused)
	case api.KindOf(err) == api.KindNotFound && late:
		return "the daemon ended without stopping the sandbox, and its time to live ended before the next daemon started"
	case api.KindOf(err) == api.KindNotFound:
		return "the daemon ended without stopping the sandbox, and the sandbox ended before the next daemon started"
	}
	return "the daemon ended without stopping the sandbox, and the next daemon could not take it over: " + err.Error()
}

// adopt takes over a sandbox of an owner that has ended: its machine, its deadline, its commands.
func (r *Recoverer) adopt(ctx context.Context, b sandbox.Backend, row api.Sandbox) error {
	if err := refuses(row, b); err != nil {
		return err
	}
	a, err := b.Adopt(ctx, row.ID)
	if err != nil {
		return err
	}
	from, left := row.Owner, r.clock.Left(row)
	row.Owner, row.ExpiresAt = r.owner, r.lifecycle.wall().Add(left)
	row.Snapshot, row.Moving = r.startedFrom(ctx, row), false
	state, paused := life.Running, row.State == api.SandboxPaused
	if paused {
		state = life.Paused
	}
	in := r.lifecycle.instance(row, b, state)
	in.layers, in.asked, in.workspace = a.Spec.Layers, a.Spec.Asked, a.Spec.Workspace
	in.boot(a.Machine, nil)
	in.StartClock(left)
	fail := func(err error) error {
		if lerr := a.Machine.Leave(context.WithoutCancel(ctx)); lerr != nil {
			r.log.Error("a sandbox that could not be adopted was not released", "sandbox", row.ID, "error", lerr)
		}
		in.releaseCapacity()
		return err
	}
	// The row counts: a pause or a resume that was not acknowledged is undone, and a machine
	// that waits for a save that is not going to complete is resumed.
	switch {
	case paused && !a.Paused:
		err = a.Machine.Pause(ctx)
	case !paused && a.Paused:
		err = a.Machine.Resume(ctx)
	}
	if err == nil && paused {
		// Its output cannot be read before it is resumed.
		err = in.gate.Close(ctx)
		in.shut = err == nil
	}
	if err == nil {
		in.release = r.capacity.hold(in, b.Name())
		err = r.table.register(in)
	}
	if err != nil {
		return fail(err)
	}
	if err := r.rows.UpdateSandbox(context.WithoutCancel(ctx), row); err != nil {
		r.table.remove(in)
		return fail(errUnstored{err})
	}
	n := r.run.Adopt(ctx, in.commands, func(row api.Exec) time.Duration { return time.Duration(row.TimeoutMS) * time.Millisecond })
	r.facts.append(row.ID, api.EventAdopted, api.AdoptedEvent{
		From: from, To: r.owner, Cause: "the previous daemon ended and left the sandbox running", State: row.State, Commands: n,
	})
	r.log.Info("sandbox adopted", "sandbox", row.ID, "from", from, "commands", n, "left", left.Round(time.Second))
	r.adoptEgress(in)
	r.table.spawn(func() { r.lifecycle.watch(in) })
	return nil
}

// startedFrom returns the snapshot that a sandbox started from, where its row names one
// that it was to be paused in and was not.
func (r *Recoverer) startedFrom(ctx context.Context, row api.Sandbox) api.SnapshotID {
	if row.Snapshot == "" || r.origins.snapshots == nil {
		return row.Snapshot
	}
	s, err := r.origins.snapshots.Snapshot(ctx, row.Snapshot)
	if err == nil && s.Paused && s.Sandbox == row.ID {
		return s.Parent
	}
	return row.Snapshot
}

// adoptEgress serves the connections of a sandbox that was taken over.
func (r *Recoverer) adoptEgress(in *instance) {
	in.egress.Adopt()
	if in.State() == life.Paused { // the policy is applied again when it is resumed
		return
	}
	r.table.spawn(func() {
		if err := in.egress.Retry(r.table.ctx); err != nil && !in.State().Final() {
			r.log.Error("the egress policy of an adopted sandbox could not be applied; its connections are denied", "sandbox", in.id, "error", err)
		}
	})
}
