package manager

import (
	"context"
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/life"
)

const (
	// suspendTries and suspendAgain bound how long a sandbox outlives its deadline that
	// cannot be paused as was requested: it is killed then.
	suspendTries = 3
	suspendAgain = 2 * time.Second
	// cpuEvery is how often a budget of CPU time is compared with what was used: a tenth of
	// a second is the most that a sandbox can overdraw per processor.
	cpuEvery = 100 * time.Millisecond
	// alone is how long after its deadline a sandbox ends by itself, if no daemon ended it.
	alone = 30 * time.Second
	// tellWithin bounds how long a guest may take to note its deadline, and tellTries how often the daemon tries.
	tellWithin = 2 * time.Second
	tellTries  = 3
)

// watch waits for the ends of sandboxes, with one goroutine for each.
type watch struct {
	table     *table
	lifecycle *lifecycle
	pauser    *Pauser
	log       *slog.Logger
}

// run waits for the end of a machine or of its time. It is the one place that sees a
// machine end by itself.
func (w *watch) run(in *instance) {
	deadline := time.NewTimer(in.Left())
	defer deadline.Stop()
	look := time.NewTicker(sampleEvery)
	defer look.Stop()
	tries := 0 // of a pause at the deadline
	untold := w.tell(in, tellTries)
	var cpu <-chan time.Time
	budget := in.Row().Limits.CPUTimeMS
	if budget > 0 { // of the whole tree, so the host adds it up
		ticker := time.NewTicker(cpuEvery)
		defer ticker.Stop()
		cpu = ticker.C
	}
	for {
		select {
		case <-in.ended:
			return
		case <-in.machine.Done():
			if w.exited(in) {
				return
			}
		case <-in.Moved():
			deadline.Reset(in.Left())
			tries, untold = 0, w.tell(in, tellTries)
		case <-look.C:
			w.look(in)
			untold = w.tell(in, untold)
		case <-cpu:
			ctx, cancel := context.WithTimeout(w.table.ctx, 5*time.Second)
			s, err := in.machine.Stats(ctx)
			cancel()
			if err == nil && s.CPUTimeMS >= budget {
				if _, err := w.lifecycle.end(context.WithoutCancel(w.table.ctx), in, api.CauseCPUTime); err == nil || err == errSuspended {
					return
				}
			}
		case <-deadline.C:
			if left := in.Left(); left > 0 { // it has moved
				deadline.Reset(left)
				continue
			}
			again, over := w.expired(in, tries)
			if over {
				return
			}
			tries++
			deadline.Reset(again)
		}
	}
}

// tell gives the guest its deadline, for the case that this daemon dies: at most so many times, the rest of which it returns. A
// sandbox that is to be paused at its deadline waits for the next daemon.
func (w *watch) tell(in *instance, tries int) (left int) {
	if tries == 0 || in.State() != life.Running {
		return tries
	}
	var due time.Duration
	if !in.Row().OnExpiry.Pauses() {
		due = max(in.Left(), 0) + alone
	}
	ctx, cancel := context.WithTimeout(w.table.ctx, tellWithin)
	defer cancel()
	guest := envd.NewClient(envd.ClientConfig{Dial: in.machine.Link().Open})
	defer guest.Close()
	if err := guest.SetLifetime(ctx, due); err == nil || tries == 1 {
		return 0
	}
	return tries - 1
}

// exited finishes a sandbox whose machine has ended. It returns false if that failed and must be
// retried.
func (w *watch) exited(in *instance) (over bool) {
	reason := in.machine.Cause()
	switch {
	case reason == "" && in.Left() < 0:
		reason = "expired" // by itself
	case reason == "":
		reason = "guest ended"
	}
	for {
		_, changed := in.Stand()
		switch step := in.End(life.Exit, reason); step.Answer {
		case life.Wait:
			<-changed
			continue
		case life.Go:
			w.lifecycle.lost(in, reason)
			return true
		}
		break
	}
	// The goroutine that is ending it stores the end with its proof. If that failed, it is
	// retried here.
	select {
	case <-in.ended:
		return true
	case <-time.After(killTimeout):
	}
	if _, err := w.lifecycle.end(context.WithoutCancel(w.table.ctx), in, in.Reason()); err != nil && err != errSuspended {
		w.log.Error("cannot clean up ended sandbox; retrying", "sandbox", in.id, "error", err)
		return false
	}
	return true
}

// expired carries out what was requested for the deadline. It returns when to retry, or that the
// sandbox has ended.
func (w *watch) expired(in *instance, tries int) (again time.Duration, over bool) {
	reason := "expired"
	if row := in.Row(); row.OnExpiry.Pauses() {
		err := w.suspendExpired(in, row.OnExpiry == api.ExpiryPauseFiles)
		if err == nil {
			return 0, true
		}
		if tries+1 < suspendTries && api.KindOf(err) != api.KindUnsupported {
			w.log.Error("cannot pause expired sandbox; retrying", "sandbox", in.id, "error", err)
			return suspendAgain, false
		}
		reason = "expired; could not be paused to disk: " + err.Error()
	}
	_, err := w.lifecycle.end(context.WithoutCancel(w.table.ctx), in, reason)
	if err == nil || err == errSuspended {
		return 0, true
	}
	w.log.Error("cannot kill expired sandbox; retrying", "sandbox", in.id, "error", err)
	return time.Second, false
}

// suspendExpired pauses a sandbox to disk because its time is up.
func (w *watch) suspendExpired(in *instance, files bool) error {
	if in.State() == life.Paused { // in memory, which is not what was requested
		if err := w.lifecycle.resume(w.table.ctx, in); err != nil {
			return err
		}
	}
	_, err := w.pauser.suspend(w.table.ctx, in.id, pausing{files: files})
	return err
}

// look records what a sandbox uses now, and stores its deadline again if the wall clock was set,
// so that its row is correct for every reader, including a later daemon.
func (w *watch) look(in *instance) {
	w.sample(in)
	if in.Correct() {
		if err := w.lifecycle.store(w.table.ctx, in); err != nil {
			w.log.Error("cannot store sandbox record", "sandbox", in.id, "error", err)
		}
	}
}

// sample notes what a sandbox uses now. watch calls it.
func (w *watch) sample(in *instance) {
	ctx, cancel := context.WithTimeout(w.table.ctx, sampleEvery)
	defer cancel()
	s, err := in.machine.Stats(ctx)
	if err != nil {
		return // it is ending, and the reason is set elsewhere
	}
	s.At = w.lifecycle.wall()
	in.samples.add(s)
}
