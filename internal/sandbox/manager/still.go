package manager

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

// Standstill calls do while no process of a running sandbox runs; it continues afterwards, whatever do returns. Commands that
// are started meanwhile wait, as do a pause, a resume and a save; the timeouts of commands stop. A kill waits
// for nothing: the error says so then, and what do read may be of different instants.
//
// Errors: KindUnsupported where a sandbox cannot be paused, those of a sandbox that does not run. One that cannot continue is paused.
func (m saves) Standstill(ctx context.Context, id api.SandboxID, do func(context.Context) error) error {
	l, err := m.running(ctx, id)
	if err == nil {
		_, err = m.fire(ctx, l, life.Save)
	}
	if err != nil {
		return err
	}
	stuck := false
	defer func() {
		if !stuck { // another caller may have it otherwise
			l.Fire(life.SaveDone, nil)
		}
	}()
	resume, err := l.quiesce(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	defer func() { resume(time.Since(since)) }()
	if err := l.machine.Pause(ctx); err != nil {
		return err
	}
	err = do(ctx)
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	rerr := l.machine.Resume(late)
	if l.State() != life.Saving || machineEnded(l) {
		return errors.Join(err, api.Errorf(api.KindUnavailable, "sandbox %s ended while it was paused for a copy", id))
	}
	if rerr != nil {
		step := l.Fire(life.PauseDone, nil)
		if stuck = step.Answer == life.Go; stuck {
			rerr = errors.Join(rerr, m.do(late, l, step, note{reason: "it could not be resumed: " + rerr.Error()}))
		}
		rerr = api.Errorf(api.KindOf(rerr), "sandbox %s was stopped for a copy and does not continue: %w", id, rerr).WithHint("try to resume it: hortus sandbox resume %s", id)
	}
	return errors.Join(err, rerr)
}
