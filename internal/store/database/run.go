package database

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	selectRunSQL = `
		SELECT id, kind, owner, lease_epoch, input, created_at, paused, canceled_at, ended_at, result
		FROM run`
	insertRunSQL = `
		INSERT INTO run (id, kind, owner, lease_epoch, created_at, input)
		VALUES ($1, $2, $3, 1, $4, $5)`
	takeRunSQL = `
		UPDATE run
		SET owner = $2, lease_epoch = lease_epoch + 1, paused = $3
		WHERE id = $1`
	lastStepSQL = `
		SELECT max(started_at), max(ended_at)
		FROM run_step
		WHERE run = (SELECT seq FROM run WHERE id = $1)`
	cancelRunSQL = `
		UPDATE run
		SET canceled_at = coalesce(canceled_at, $3)
		WHERE id = $1 AND owner = $2 AND ended_at IS NULL`
	growRunSQL = `
		UPDATE run
		SET steps = steps + $3, size = size + $4
		WHERE id = $1 AND owner = $2 AND ended_at IS NULL
		RETURNING seq, steps, size`
	endRunSQL = `
		UPDATE run
		SET ended_at = $2, result = $3, input = $4
		WHERE seq = $1`

	selectStepSQL = `
		SELECT name, try, asked, started_at, ended_at, result
		FROM run_step`
	insertStepSQL = `
		INSERT INTO run_step (run, name, try, asked, started_at)
		VALUES ($1, $2, 1, $3, $4)`
	retryStepSQL = `
		UPDATE run_step
		SET try = $3, started_at = $4
		WHERE run = $1 AND name = $2`
	// rewindSQL removes step $2 of run $1 and what began after it, which rewoundSQL counts, with those that are named $3.
	rewindFrom = `
		FROM run_step
		WHERE run = $1 AND seq >= (SELECT seq FROM run_step WHERE run = $1 AND name = $2)`
	rewoundSQL = `
		SELECT count(*), coalesce(sum(octet_length(name) + octet_length(asked) + coalesce(octet_length(result), 0)), 0), coalesce(sum(CASE WHEN name = $3 THEN 1 ELSE 0 END), 0)` + rewindFrom
	rewindSQL  = `DELETE` + rewindFrom
	endStepSQL = `
		UPDATE run_step
		SET ended_at = $3, result = $4
		WHERE run = $1 AND name = $2 AND ended_at IS NULL`
)

// scanRun reads a run.
func scanRun(s scanner) (r store.Run, err error) {
	var paused int64
	err = s.Scan(&r.ID, &r.Kind, &r.Owner, &r.Epoch, &r.Input, instant{&r.CreatedAt}, &paused, instant{&r.CanceledAt}, instant{&r.EndedAt}, &r.Result)
	r.Paused = time.Duration(paused) * time.Microsecond
	return r, err
}

// scanStep reads a step.
func scanStep(s scanner) (r store.RunStep, err error) {
	err = s.Scan(&r.Name, &r.Try, &r.Asked, instant{&r.StartedAt}, instant{&r.EndedAt}, &r.Result)
	r.Done = !r.EndedAt.IsZero()
	return r, err
}

// blob returns bytes that are not nil: a nil slice is stored as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// runError explains an error of a statement about a run.
func runError(ctx context.Context, err error, id string) error {
	var known *api.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return notFound("run", id)
	}
	return updateError(ctx, err, "run", id, "its owner")
}

// inRun runs f in a transaction. If doubt is true, an earlier one may have been committed, and f must not do the same twice.
func (db *DB) inRun(ctx context.Context, id string, f func(tx *sql.Tx, doubt bool) error) error {
	return db.sameTx(ctx, "run "+id, func(tx *sql.Tx, doubt bool) error { return runError(ctx, f(tx, doubt), id) })
}

// runRefused explains why an owner could not write to a run.
func runRefused(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID) error {
	r, err := scanRun(tx.QueryRowContext(ctx, selectRunSQL+` WHERE id = $1`, id))
	switch {
	case err != nil:
		return err
	case !r.EndedAt.IsZero():
		return api.Errorf(api.KindConflict, "run %s has ended", id)
	}
	return api.Errorf(api.KindConflict, "run %s belongs to %s, not to %s", id, r.Owner, owner)
}

// growRun returns the number of a run of an owner that has not ended, after adding to its counters.
func growRun(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID, steps, size int) (seq int64, err error) {
	var n, bytes int64
	err = tx.QueryRowContext(ctx, growRunSQL, id, string(owner), steps, size).Scan(&seq, &n, &bytes)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, runRefused(ctx, tx, id, owner)
	case err != nil:
		return 0, err
	case n > store.MaxRunSteps || bytes > store.MaxRunBytes:
		return 0, api.Errorf(api.KindExhausted, "the journal of run %s is full: %d steps and %d bytes; the maximum is %d steps and %d bytes",
			id, n, bytes, store.MaxRunSteps, store.MaxRunBytes)
	}
	return seq, nil
}

// InsertRun implements store.Store.
func (db *DB) InsertRun(ctx context.Context, r store.Run) error {
	switch {
	case r.ID == "" || r.Kind == "" || r.Owner == "" || r.CreatedAt.IsZero():
		return api.Errorf(api.KindInvalid, "a run needs an id, a kind, an owner and a start time")
	case len(r.Input) > store.MaxRunInput:
		return api.Errorf(api.KindExhausted, "run %s: its input has %d bytes; the maximum is %d", r.ID, len(r.Input), store.MaxRunInput)
	}
	if err := db.mayGrow("run " + r.ID); err != nil {
		return err
	}
	err := db.insertOnce(ctx, func() error {
		_, err := db.write.ExecContext(ctx, insertRunSQL, r.ID, r.Kind, string(r.Owner), toMicros(r.CreatedAt), blob(r.Input))
		return err
	})
	if err != nil {
		return insertError(ctx, err, "run", r.ID, "owner "+string(r.Owner))
	}
	return nil
}

// Run implements store.Store.
func (db *DB) Run(ctx context.Context, id string) (store.Run, error) {
	r, err := scanRun(db.read.QueryRowContext(ctx, selectRunSQL+` WHERE id = $1`, id))
	return r, runError(ctx, err, id)
}

// UnfinishedRuns implements store.Store.
func (db *DB) UnfinishedRuns(ctx context.Context, kind string, notOwner api.OwnerID) ([]store.Run, error) {
	return list(ctx, db.read, "runs", scanRun, selectRunSQL+`
		WHERE ended_at IS NULL AND kind = $1 AND owner <> $2
		ORDER BY seq`, kind, string(notOwner))
}

// TakeRun implements store.Store.
func (db *DB) TakeRun(ctx context.Context, id string, from, to api.OwnerID, at time.Time) (run store.Run, err error) {
	err = db.inRun(ctx, id, func(tx *sql.Tx, doubt bool) error {
		r, err := scanRun(tx.QueryRowContext(ctx, db.dialect.adapt(selectRunSQL+` WHERE id = $1 FOR UPDATE`), id))
		if err != nil {
			return err
		}
		if doubt && r.Owner == to {
			run = r
			return nil
		}
		if r.Owner != from || !r.EndedAt.IsZero() {
			return runRefused(ctx, tx, id, from)
		}
		// The times of steps are those of the run's clock, which is behind by what it was paused.
		var began, ended time.Time
		if err := tx.QueryRowContext(ctx, lastStepSQL, id).Scan(instant{&began}, instant{&ended}); err != nil {
			return err
		}
		last := slices.MaxFunc([]time.Time{r.CreatedAt, began, ended}, time.Time.Compare)
		paused := max(r.Paused.Microseconds(), at.UnixMicro()-last.UnixMicro())
		if _, err := tx.ExecContext(ctx, takeRunSQL, id, string(to), paused); err != nil {
			return err
		}
		run, err = scanRun(tx.QueryRowContext(ctx, selectRunSQL+` WHERE id = $1`, id))
		return err
	})
	return run, err
}

// CancelRun implements store.Store.
func (db *DB) CancelRun(ctx context.Context, id string, owner api.OwnerID, at time.Time) error {
	return db.inRun(ctx, id, func(tx *sql.Tx, _ bool) error {
		r, err := tx.ExecContext(ctx, cancelRunSQL, id, string(owner), at.UnixMicro())
		if err == nil && !changed(r) {
			err = runRefused(ctx, tx, id, owner)
		}
		return err
	})
}

// BeginStep implements store.Store.
func (db *DB) BeginStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) (try int, err error) {
	if err := db.mayGrow("run " + run); err != nil {
		return 0, err
	}
	err = db.inRun(ctx, run, func(tx *sql.Tx, doubt bool) error {
		try, err = beginStep(ctx, tx, run, owner, s, doubt)
		return err
	})
	return try, err
}

// beginStep stores that a step begins, or begins again.
func beginStep(ctx context.Context, tx *sql.Tx, run string, owner api.OwnerID, s store.RunStep, doubt bool) (try int, err error) {
	if s.Name == "" || len(s.Name) > store.MaxStepName || len(s.Asked) > 64 || s.StartedAt.IsZero() {
		return 0, api.Errorf(api.KindInvalid, "a step of run %s: its name, its digest or its start time is missing or too long", run)
	}
	seq, err := growRun(ctx, tx, run, owner, 0, 0)
	if err != nil {
		return 0, err
	}
	was, err := scanStep(tx.QueryRowContext(ctx, selectStepSQL+` WHERE run = $1 AND name = $2`, seq, s.Name))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if _, err = growRun(ctx, tx, run, owner, 1, len(s.Name)+len(s.Asked)); err != nil {
			return 0, err
		}
		_, err = tx.ExecContext(ctx, insertStepSQL, seq, s.Name, blob(s.Asked), s.StartedAt.UnixMicro())
		return 1, err
	case err != nil:
		return 0, err
	case was.Done:
		return 0, api.Errorf(api.KindConflict, "step %q of run %s is done", s.Name, run)
	case string(was.Asked) != string(s.Asked):
		return 0, api.Errorf(api.KindConflict, "step %q of run %s was asked something else before", s.Name, run)
	}
	if doubt && was.StartedAt.Equal(s.StartedAt.Truncate(time.Microsecond)) {
		return was.Try, nil // this is it
	}
	_, err = tx.ExecContext(ctx, retryStepSQL, seq, s.Name, was.Try+1, s.StartedAt.UnixMicro())
	return was.Try + 1, err
}

// EndStep implements store.Store.
func (db *DB) EndStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) error {
	switch {
	case s.EndedAt.IsZero():
		return api.Errorf(api.KindInvalid, "step %q of run %s: its end time is missing", s.Name, run)
	case len(s.Result) > store.MaxStepResult:
		return api.Errorf(api.KindExhausted, "the result of step %q of run %s has %d bytes; the maximum is %d", s.Name, run, len(s.Result), store.MaxStepResult)
	}
	return db.inRun(ctx, run, func(tx *sql.Tx, doubt bool) error {
		if doubt {
			was, err := scanStep(tx.QueryRowContext(ctx, selectStepSQL+` WHERE run = (SELECT seq FROM run WHERE id = $1 AND owner = $2) AND name = $3`, run, string(owner), s.Name))
			if err == nil && was.EndedAt.Equal(s.EndedAt.Truncate(time.Microsecond)) {
				return nil // this is it
			}
		}
		seq, err := growRun(ctx, tx, run, owner, 0, len(s.Result))
		if err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, endStepSQL, seq, s.Name, s.EndedAt.UnixMicro(), blob(s.Result))
		if err == nil && !changed(r) {
			err = api.Errorf(api.KindConflict, "step %q of run %s has not begun, or is done", s.Name, run)
		}
		return err
	})
}

// RunSteps implements store.Store.
func (db *DB) RunSteps(ctx context.Context, run string) ([]store.RunStep, error) {
	return list(ctx, db.read, "steps of run "+run, scanStep, selectStepSQL+`
		WHERE run = (SELECT seq FROM run WHERE id = $1)
		ORDER BY seq`, run)
}

// RewindRun implements store.Store.
func (db *DB) RewindRun(ctx context.Context, run string, owner api.OwnerID, step, keep string) error {
	return db.inRun(ctx, run, func(tx *sql.Tx, _ bool) error { // the second time nothing is left to be removed
		seq, err := growRun(ctx, tx, run, owner, 0, 0)
		if err != nil {
			return err
		}
		var steps, size, kept int
		err = tx.QueryRowContext(ctx, rewoundSQL, seq, step, keep).Scan(&steps, &size, &kept)
		switch {
		case err != nil || steps == 0:
			return err
		case kept > 0:
			return api.Errorf(api.KindConflict, "step %q of run %s is done or was cut, and is not done again", keep, run)
		}
		if _, err = tx.ExecContext(ctx, rewindSQL, seq, step); err != nil {
			return err
		}
		_, err = growRun(ctx, tx, run, owner, -steps, -size)
		return err
	})
}

// EndRun implements store.Store.
func (db *DB) EndRun(ctx context.Context, run string, owner api.OwnerID, end store.RunEnd) (event int64, err error) {
	switch {
	case end.At.IsZero():
		return 0, api.Errorf(api.KindInvalid, "run %s: its end time is missing", run)
	case len(end.Result) > store.MaxStepResult:
		return 0, api.Errorf(api.KindExhausted, "the result of run %s has %d bytes; the maximum is %d", run, len(end.Result), store.MaxStepResult)
	}
	var task []any
	if end.Task != nil {
		if task, err = db.tasks.args(*end.Task); err != nil {
			return 0, err
		}
	}
	err = db.inRun(ctx, run, func(tx *sql.Tx, doubt bool) error {
		if doubt {
			r, err := scanRun(tx.QueryRowContext(ctx, selectRunSQL+` WHERE id = $1 AND owner = $2`, run, string(owner)))
			if err == nil && r.EndedAt.Equal(end.At.Truncate(time.Microsecond)) {
				event, err = db.stored(ctx, tx, end.Event)
				return err
			}
		}
		seq, err := growRun(ctx, tx, run, owner, 0, 0)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM run_step WHERE run = $1`, seq); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, endRunSQL, seq, end.At.UnixMicro(), blob(end.Result), []byte{}); err != nil {
			return err
		}
		if end.Task != nil {
			if err := db.tasks.updateIn(ctx, tx, task); err != nil {
				return err
			}
		}
		if end.Event == nil {
			return nil
		}
		e := *end.Event
		err = db.appendIn(ctx, tx, &e)
		event = e.Seq
		return err
	})
	return event, err
}
