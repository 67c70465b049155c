package task_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task"
	"hortus.dev/test/agenttest"
	"hortus.dev/test/storetest"
	"hortus.dev/test/tier"
)

// says sends the messages of a log that contain a text.
type says struct {
	slog.Handler
	text string
	to   chan string
}

func (s says) Enabled(context.Context, slog.Level) bool { return true }
func (s says) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, s.text) {
		s.to <- r.Message
	}
	return nil
}

// TestStop: a daemon stops in order at each write to the journal of a request for a program, whose first version fails. The step that is executed ends, or is
// interrupted if it takes too long. The next daemon continues the task: no step that has ended is done again, and nothing says that it was canceled.
func TestStop(t *testing.T) {
	const writes = 11 // see TestProgramsSurvive
	for n := 1; n <= writes; n += tier.Count(2, 1) {
		for _, at := range []string{fmt.Sprint("before ", n), fmt.Sprint("after ", n)} {
			for _, cut := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, cut %v", at, cut), func(t *testing.T) {
					t.Parallel()
					db, dir := newRows(t)
					sandboxes := agenttest.NewLocaldir(t)
					m := &counted{Model: &forgetful{}, n: map[string]int{}}
					h := &halting{Runs: db, at: at, halted: make(chan struct{}), release: make(chan struct{})}
					stopping := says{slog.DiscardHandler, "left to the next daemon", make(chan string, 1)}
					within := time.Hour
					if cut {
						stopping.text, within = "is interrupted", time.Nanosecond
					}
					first, one := programDaemon(t, db, h, sandboxes, dir, m, func(c *task.Config) { c.Logger, c.StepTime = slog.New(stopping), within })
					row, err := first.Create(api.WithPrincipal(t.Context(), asker), api.CreateTask{Request: "Print the total", Model: "forgetful", Sandbox: api.CreateSandbox{Account: "ada"}})
					if err != nil {
						t.Fatal(err)
					}
					<-h.halted
					if first.Running() != 1 || first.Ending() != 0 {
						t.Errorf("%d run, %d of which end with the daemon", first.Running(), first.Ending())
					}
					closed := make(chan error, 1)
					go func() { closed <- first.Close(context.WithoutCancel(t.Context())) }()
					<-stopping.to
					close(h.release)
					if err := <-closed; err != nil {
						t.Fatal(err)
					}
					if left := sandboxes.Left.Load(); left != 0 {
						t.Errorf("%d sandboxes are left", left)
					}
					if row, err = first.Wait(t.Context(), row.ID); err != nil || (row.State == api.TaskDone) != (n == writes) || row.Owner != one {
						t.Fatalf("it is %s (%s) of %s, %v", row.State, row.Outcome, row.Owner, err)
					}
					got := row
					if n < writes {
						next, me := programDaemon(t, db, db, sandboxes, dir, m)
						if err := storetest.EndOthers(t.Context(), db, me); err != nil {
							t.Fatal(err)
						}
						if found, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o == one }); found != 1 || err != nil {
							t.Fatal(found, err)
						}
						if resumed := next.Resume(t.Context()); resumed != 1 {
							t.Fatal("resumed:", resumed)
						}
						if got, err = next.Wait(t.Context(), row.ID); err != nil {
							t.Fatal(err)
						}
					}
					if got.Outcome != api.OutcomeVerified || len(got.Attempts) != 2 || got.Attempts[1].Result.Stdout != "7\n" {
						t.Errorf("%s: %+v", got.Outcome, got)
					}
					done := map[string]int{"attempt": int(sandboxes.Created.Load()) - 1}
					for name, n := range m.n {
						done[name] = n
					}
					again := 0
					for _, name := range []string{"ExecutionPlan", "CodeArtifact", "Diagnosis", "attempt"} {
						if again += done[name] - 1; done[name] < 1 {
							t.Errorf("%s was done %d times", name, done[name])
						}
					}
					if again > 1 || again == 1 && !cut {
						t.Errorf("steps were done again: %v", done)
					}
					count := map[api.EventType]int{}
					for _, typ := range finished(t, db, row.ID) {
						count[typ]++
					}
					left := map[bool]int{true: 1}[n < writes]
					if count[api.EventTaskLeft] != left || count[api.EventTaskResumed] != left || count[api.EventTaskFinished] != 1 || count[api.EventTaskStarted] != 1 || count[api.EventTaskCancel] != 0 {
						t.Errorf("events: %v", count)
					}
				})
			}
		}
	}
}

// TestStopCanceled: a task that is canceled stays so, before the daemon stops and while it does.
func TestStopCanceled(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("before the stop: ", before), func(t *testing.T) {
			t.Parallel()
			db, dir := newRows(t)
			m := &counted{Model: &forgetful{}, n: map[string]int{}}
			h := &halting{Runs: db, at: "before 3", halted: make(chan struct{}), release: make(chan struct{})}
			stopping := says{slog.DiscardHandler, "left to the next daemon", make(chan string, 1)}
			sandboxes := agenttest.NewLocaldir(t)
			canceling := &cancelRows{Runs: h, canceled: make(chan struct{})}
			first, _ := programDaemon(t, db, canceling, sandboxes, dir, m, func(c *task.Config) { c.Logger, c.StepTime = slog.New(stopping), time.Hour })
			row, err := first.Create(api.WithPrincipal(t.Context(), asker), api.CreateTask{Request: "Print the total", Model: "forgetful", Sandbox: api.CreateSandbox{Account: "ada"}})
			if err != nil {
				t.Fatal(err)
			}
			<-h.halted
			ended := make(chan error, 2)
			cancel := func() {
				got, err := first.Cancel(context.WithoutCancel(t.Context()), row.ID)
				if err == nil && (got.Outcome != api.OutcomeCanceled || got.Receipt == nil) {
					err = fmt.Errorf("it is %s", got.Outcome)
				}
				ended <- err
			}
			if before {
				go cancel()
				<-canceling.canceled
			}
			go func() { ended <- first.Close(context.WithoutCancel(t.Context())) }()
			if !before {
				<-stopping.to
				go cancel()
				<-canceling.canceled
			}
			close(h.release)
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if got, err := db.Task(t.Context(), row.ID); err != nil || got.Outcome != api.OutcomeCanceled {
				t.Errorf("%+v, %v", got, err)
			}
			next, me := programDaemon(t, db, db, sandboxes, filepath.Join(dir, "next"), m)
			if err := storetest.EndOthers(t.Context(), db, me); err != nil {
				t.Fatal(err)
			}
			if found, err := next.Recover(t.Context(), func(o api.OwnerID) bool { return o != me }); found != 0 || err != nil {
				t.Error(found, err)
			}
		})
	}
}

// cancelRows say that a cancellation was stored.
type cancelRows struct {
	store.Runs
	once     atomic.Bool
	canceled chan struct{}
}

func (c *cancelRows) CancelRun(ctx context.Context, run string, owner api.OwnerID, at time.Time) error {
	err := c.Runs.CancelRun(ctx, run, owner, at)
	if !c.once.Swap(true) {
		close(c.canceled)
	}
	return err
}
