package tally

import (
	"context"
	"encoding/json"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/store"
)

// Rows counts the tasks of a store, and keeps the sums of those that it removes.
type Rows struct{ Store Store }

// Store is what Rows needs of a store; store.Store says what each method promises.
type Store interface {
	WalkTasks(ctx context.Context, account string, since time.Time, use func(api.Task) error) error
	WalkTallies(ctx context.Context, account string, since time.Time, use func(sums []byte) error) error
	Prune(ctx context.Context, keep store.Retention) (store.Pruned, error)
	PruneTasks(ctx context.Context, keep store.Retention, fold func(sums []byte, t api.Task) ([]byte, error)) (store.Pruned, error)
}

// taskShare is how many times the bytes of other Rows tasks may have: they hold
// programs and output.
const taskShare = 16

// Prune removes the rows that a retention does not keep. Removed tasks still count in the
// statistics.
func (r Rows) Prune(ctx context.Context, keep store.Retention) (store.Pruned, error) {
	done, err := r.Store.Prune(ctx, keep)
	if err != nil {
		return done, err
	}
	keep.Bytes *= taskShare
	tasks, err := r.Store.PruneTasks(ctx, keep, Fold)
	return done.Plus(tasks), err
}

// TaskStats implements the statistics of access.Engine: those of the rows and those of
// removed tasks, since a time.
func (r Rows) TaskStats(ctx context.Context, account string, since time.Time) (admin.TaskStats, error) {
	y := New(since)
	err := r.Store.WalkTasks(ctx, account, since, func(t api.Task) error {
		y.Add(t)
		return nil
	})
	if err == nil {
		err = r.Store.WalkTallies(ctx, account, since, y.AddSums)
	}
	return y.Stats(), err
}

// sums is a tally as it is stored.
type sums struct {
	Stats    admin.TaskStats `json:"stats"`
	Attempts int             `json:"attempts"`
	Rounds   int             `json:"rounds"`
	Programs int             `json:"programs"`
	// Missing are all names that are counted; those of Stats are the most wanted.
	Missing []admin.MissingCount `json:"missing,omitempty"`
}

// Fold adds a task to sums that it gave before, nil at first.
func Fold(stored []byte, t api.Task) ([]byte, error) {
	y := New(time.Time{})
	if err := y.AddSums(stored); err != nil {
		return nil, err
	}
	y.Add(t)
	out := sums{Stats: y.Stats(), Attempts: y.attempts, Rounds: y.rounds, Programs: y.programs}
	for w, n := range y.missing {
		out.Missing = append(out.Missing, admin.MissingCount{Name: w.name, Language: w.lang, Tasks: n})
	}
	return json.Marshal(out)
}

// AddSums counts the tasks of sums that Fold gave.
func (y *Tally) AddSums(stored []byte) error {
	if stored == nil {
		return nil
	}
	var s sums
	if err := json.Unmarshal(stored, &s); err != nil {
		return api.Errorf(api.KindInternal, "the statistics of old tasks are corrupted: %w", err)
	}
	to, from := &y.stats, s.Stats
	to.Tasks += from.Tasks
	to.Requests += from.Requests
	to.Programs += from.Programs
	to.Replays += from.Replays
	to.Repositories += from.Repositories
	to.Running += from.Running
	for k, n := range from.Outcomes {
		to.Outcomes[k] += n
	}
	for k, n := range from.Errors {
		to.Errors[k] += n
	}
	if to.Stops == nil && from.Stops != nil {
		to.Stops = map[api.StopReason]int{}
	}
	for k, n := range from.Stops {
		to.Stops[k] += n
	}
	y.addLessons(from.Lessons)
	y.attempts += s.Attempts
	y.rounds += s.Rounds
	y.programs += s.Programs
	for _, p := range from.Phases {
		y.spent(p.Phase, p.Count, p.TotalMS)
	}
	for _, f := range from.Failures {
		have := y.failures[f.Category]
		if have == nil {
			have = &admin.FailureCount{Category: f.Category}
			y.failures[f.Category] = have
		}
		have.Attempts += f.Attempts
		have.Tasks += f.Tasks
	}
	for _, m := range from.Models {
		y.used(m)
	}
	for _, m := range s.Missing {
		y.lack(requirement{m.Name, m.Language}, m.Tasks)
	}
	return nil
}
