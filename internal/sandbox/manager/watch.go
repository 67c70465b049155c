package manager

import (
	"context"
	"time"

	"hortus.dev/api"
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
)

// begin announces that a sandbox is running, and watches it from now on. The event is delayed for
// the sandbox's first command, unless a reader waits for it; later events follow it.
func (c *core) begin(l *live) {
	l.told.Begin()
	running := func() {
		c.event(l.id, api.EventSandboxState, api.SandboxStateEvent{State: api.SandboxRunning})
		l.told.Done()
	}
	watched := c.spawn(func() {
		rest := time.NewTimer(announceDelay)
		select {
		case <-rest.C:
		case <-l.told.Hurry():
		case <-l.machine.Done():
		case <-c.ctx.Done():
		}
		rest.Stop()
		running()
		l.egress.Begin()
		watch{c}.run(l)
	})
	if !watched { // the manager is closing, and ends the sandbox or leaves it
		running()
	}
}

// watch is the one goroutine of a sandbox that waits for its end.
type watch struct{ *core }

// run waits for the end of a machine or of its time. It is the one place that sees a
// machine end by itself.
func (c watch) run(l *live) {
	deadline := time.NewTimer(l.Left())
	defer deadline.Stop()
	look := time.NewTicker(sampleEvery)
	defer look.Stop()
	tries := 0 // of a pause at the deadline
	var cpu <-chan time.Time
	budget := l.Row().Limits.CPUTimeMS
	if budget > 0 { // of the whole tree, so the host adds it up
		ticker := time.NewTicker(cpuEvery)
		defer ticker.Stop()
		cpu = ticker.C
	}
	for {
		select {
		case <-l.ended:
			return
		case <-l.machine.Done():
			if c.exited(l) {
				return
			}
		case <-l.Moved():
			deadline.Reset(l.Left())
			tries = 0
		case <-look.C:
			c.look(l)
		case <-cpu:
			ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
			s, err := l.machine.Stats(ctx)
			cancel()
			if err == nil && s.CPUTimeMS >= budget {
				if _, err := c.end(context.WithoutCancel(c.ctx), l, api.CauseCPUTime); err == nil || err == errSuspended {
					return
				}
			}
		case <-deadline.C:
			if left := l.Left(); left > 0 { // it has moved
				deadline.Reset(left)
				continue
			}
			again, over := c.expired(l, tries)
			if over {
				return
			}
			tries++
			deadline.Reset(again)
		}
	}
}

// exited finishes a sandbox whose machine has ended. It returns false if that failed and must be
// retried.
func (c watch) exited(l *live) (over bool) {
	reason := l.machine.Cause()
	if reason == "" {
		reason = "guest ended"
	}
	for {
		_, changed := l.Stand()
		switch step := l.End(life.Exit, reason); step.Answer {
		case life.Wait:
			<-changed
			continue
		case life.Go:
			c.lost(l, reason)
			return true
		}
		break
	}
	// The goroutine that is ending it stores the end with its proof. If that failed, it is
	// retried here.
	select {
	case <-l.ended:
		return true
	case <-time.After(killTimeout):
	}
	if _, err := c.end(context.WithoutCancel(c.ctx), l, l.Reason()); err != nil && err != errSuspended {
		c.log.Error("cannot clean up ended sandbox; retrying", "sandbox", l.id, "error", err)
		return false
	}
	return true
}

// expired carries out what was requested for the deadline. It returns when to retry, or that the
// sandbox has ended.
func (c watch) expired(l *live, tries int) (again time.Duration, over bool) {
	reason := "expired"
	if row := l.Row(); row.OnExpiry.Pauses() {
		err := c.suspendExpired(l, row.OnExpiry == api.ExpiryPauseFiles)
		if err == nil {
			return 0, true
		}
		if tries+1 < suspendTries && api.KindOf(err) != api.KindUnsupported {
			c.log.Error("cannot pause expired sandbox; retrying", "sandbox", l.id, "error", err)
			return suspendAgain, false
		}
		reason = "expired; could not be paused to disk: " + err.Error()
	}
	_, err := c.end(context.WithoutCancel(c.ctx), l, reason)
	if err == nil || err == errSuspended {
		return 0, true
	}
	c.log.Error("cannot kill expired sandbox; retrying", "sandbox", l.id, "error", err)
	return time.Second, false
}

// suspendExpired pauses a sandbox to disk because its time is up.
func (c watch) suspendExpired(l *live, files bool) error {
	if l.State() == life.Paused { // in memory, which is not what was requested
		if err := c.resume(c.ctx, l); err != nil {
			return err
		}
	}
	_, err := saves{c.core}.suspend(c.ctx, l.id, files)
	return err
}

// look records what a sandbox uses now, and stores its deadline again if the wall clock was set,
// so that its row is correct for every reader, including a later daemon.
func (c watch) look(l *live) {
	c.sample(l)
	if l.Correct() {
		if err := c.store(c.ctx, l); err != nil {
			c.log.Error("cannot store sandbox record", "sandbox", l.id, "error", err)
		}
	}
}
