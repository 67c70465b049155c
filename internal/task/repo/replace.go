package repo

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/journal"
)

// replaceWait is how long to wait before the first sandbox takes the place of a lost one. It doubles each time.
const replaceWait = time.Second

// replace gives the agent another sandbox over its workspace in the place of one that was lost. A replacement that is recorded
// was made by an earlier daemon: this one has opened a sandbox already.
func (w *attempt) replaceSandbox(ctx context.Context, n int, lost error) error {
	_, err := journal.Do(ctx, w.Run, fmt.Sprint("replacement ", n), nil, func(ctx context.Context, _ journal.Try) (int, error) {
		return n, w.swapSandbox(ctx, n, lost)
	})
	return err
}

// swap is replace for an agent whose turn is one step of the journal.
func (w *attempt) swapSandbox(ctx context.Context, n int, lost error) error {
	wait := replaceWait << (n - 1)
	w.tell(ctx, api.EventRetry, api.RetryEvent{
		What: api.RetrySandbox, Attempt: n, Of: loop.MaxReplaced, NextAt: w.cfg.Now().Add(wait).UTC(), WaitMS: wait.Milliseconds(), Error: bounded(lost.Error(), maxSummary), Candidate: w.candidate,
	})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.tools != nil {
		w.tools.Close(ctx) // its jobs were those of the old sandbox
	}
	if err := w.vacate(ctx); err != nil {
		return err
	}
	access, err := w.spec.access(ctx, w.project)
	if err != nil {
		return err
	}
	box, err := w.cfg.Sandboxes.Open(ctx, w.spec.box(w.project), w.res.Workspace, access)
	if err != nil {
		return err
	}
	w.slot.set(box)
	return Serve(ctx, box, w.prepared.Services)
}
