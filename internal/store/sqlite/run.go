package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const runColumns = `id, kind, owner, lease_epoch, input, created_at, paused, canceled_at, ended_at, coalesce(result, x'')`

// runTable has the rows of durable runs and of their steps.
type runTable struct{ *database }

// InsertRun implements store.Store.
func (db runTable) InsertRun(ctx context.Context, r store.Run) error {
	switch {
	case r.ID == "" || r.Kind == "" || r.Owner == "" || r.CreatedAt.IsZero():
		return api.Errorf(api.KindInvalid, "a run needs an id, a kind, an owner and a start time")
	case len(r.Input) > store.MaxRunInput:
		return api.Errorf(api.KindExhausted, "run %s: its input has %d bytes; the maximum is %d", r.ID, len(r.Input), store.MaxRunInput)
	}
	_, err := db.write.ExecContext(ctx, `INSERT INTO run (id, kind, owner, lease_epoch, created_at, input) VALUES (?, ?, ?, 1, ?, ?)`,
		r.ID, r.Kind, string(r.Owner), toMicros(r.CreatedAt), blob(r.Input))
	if err != nil {
		return insertError(ctx, err, "run", r.ID, "owner "+string(r.Owner))
	}
	return nil
}

// blob is bytes as they are stored where NULL is not allowed.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Run implements store.Store.
func (db runTable) Run(ctx context.Context, id string) (store.Run, error) {
	return get(ctx, db.read, "run", id, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`)
}

// UnfinishedRuns implements store.Store.
func (db runTable) UnfinishedRuns(ctx context.Context, kind string, notOwner api.OwnerID) ([]store.Run, error) {
	return list(ctx, db.read, "runs", scanRun, `SELECT `+runColumns+` FROM run
		WHERE ended_at IS NULL AND kind = ? AND owner <> ? ORDER BY seq`, kind, string(notOwner))
}

// TakeRun implements store.Store.
func (db runTable) TakeRun(ctx context.Context, id string, from, to api.OwnerID, at time.Time) (run store.Run, err error) {
	err = db.inTx(ctx, "run "+id, func(tx *sql.Tx) error {
		// The times of steps are those of the run's clock, which is behind by paused.
		r, err := tx.ExecContext(ctx, `UPDATE run SET owner = ?3, lease_epoch = lease_epoch + 1,
			paused = max(paused, ?4 - max(created_at, coalesce((SELECT max(max(started_at, coalesce(ended_at, 0))) FROM run_step WHERE run = run.seq), 0)))
			WHERE id = ?1 AND owner = ?2 AND ended_at IS NULL`, id, string(from), string(to), toMicros(at))
		if err != nil {
			return updateError(ctx, err, "run", id, "owner "+string(to))
		}
		if !changed(r) {
			return db.refused(ctx, tx, id, from)
		}
		run, err = get(ctx, tx, "run", id, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`)
		return err
	})
	return run, err
}

// refused explains why an owner could not write to a run.
func (db runTable) refused(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID) error {
	r, err := get(ctx, tx, "run", id, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`)
	switch {
	case err != nil:
		return err
	case !r.EndedAt.IsZero():
		return api.Errorf(api.KindConflict, "run %s has ended", id)
	}
	return api.Errorf(api.KindConflict, "run %s belongs to %s, not to %s", id, r.Owner, owner)
}

// CancelRun implements store.Store.
func (db runTable) CancelRun(ctx context.Context, id string, at time.Time) error {
	return db.inTx(ctx, "run "+id, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE run SET canceled_at = coalesce(canceled_at, ?2) WHERE id = ?1 AND ended_at IS NULL`, id, toMicros(at))
		if err != nil {
			return wrapError(ctx, err, "store run %s", id)
		}
		if !changed(r) {
			return db.refused(ctx, tx, id, "")
		}
		return nil
	})
}

// own returns the number of a run of an owner that has not ended, after adding to its counters.
func (db runTable) own(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID, steps, size int) (seq int64, err error) {
	var n, bytes int64
	err = tx.QueryRowContext(ctx, `UPDATE run SET steps = steps + ?3, size = size + ?4
		WHERE id = ?1 AND owner = ?2 AND ended_at IS NULL RETURNING seq, steps, size`, id, string(owner), steps, size).Scan(&seq, &n, &bytes)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, db.refused(ctx, tx, id, owner)
	case err != nil:
		return 0, wrapError(ctx, err, "store run %s", id)
	case n > store.MaxRunSteps || bytes > store.MaxRunBytes:
		return 0, api.Errorf(api.KindExhausted, "the journal of run %s is full: %d steps and %d bytes; the maximum is %d steps and %d bytes",
			id, n, bytes, store.MaxRunSteps, store.MaxRunBytes)
	}
	return seq, nil
}

// BeginStep implements store.Store.
func (db runTable) BeginStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) (try int, err error) {
	if s.Name == "" || len(s.Name) > store.MaxStepName || len(s.Asked) > 64 || s.StartedAt.IsZero() {
		return 0, api.Errorf(api.KindInvalid, "a step of run %s: its name, its digest or its start time is missing or too long", run)
	}
	err = db.inTx(ctx, "a step of run "+run, func(tx *sql.Tx) error {
		seq, err := db.own(ctx, tx, run, owner, 0, 0)
		if err != nil {
			return err
		}
		was, err := scanStep(tx.QueryRowContext(ctx, `SELECT `+stepColumns+` FROM run_step WHERE run = ? AND name = ?`, seq, s.Name))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			if _, err = db.own(ctx, tx, run, owner, 1, len(s.Name)+len(s.Asked)); err != nil {
				return err
			}
			try = 1
			_, err = tx.ExecContext(ctx, `INSERT INTO run_step (run, name, try, asked, started_at) VALUES (?, ?, 1, ?, ?)`, seq, s.Name, blob(s.Asked), toMicros(s.StartedAt))
		case err != nil:
		case was.Done:
			return api.Errorf(api.KindConflict, "step %q of run %s is done", s.Name, run)
		case string(was.Asked) != string(s.Asked):
			return api.Errorf(api.KindConflict, "step %q of run %s was asked something else before", s.Name, run)
		default:
			try = was.Try + 1
			_, err = tx.ExecContext(ctx, `UPDATE run_step SET try = ?3, started_at = ?4 WHERE run = ?1 AND name = ?2`, seq, s.Name, try, toMicros(s.StartedAt))
		}
		if err != nil {
			return wrapError(ctx, err, "store step %q of run %s", s.Name, run)
		}
		return nil
	})
	return try, err
}

// EndStep implements store.Store.
func (db runTable) EndStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) error {
	switch {
	case s.EndedAt.IsZero():
		return api.Errorf(api.KindInvalid, "step %q of run %s: its end time is missing", s.Name, run)
	case len(s.Result) > store.MaxStepResult:
		return api.Errorf(api.KindExhausted, "the result of step %q of run %s has %d bytes; the maximum is %d", s.Name, run, len(s.Result), store.MaxStepResult)
	}
	return db.inTx(ctx, "a step of run "+run, func(tx *sql.Tx) error {
		seq, err := db.own(ctx, tx, run, owner, 0, len(s.Result))
		if err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, `UPDATE run_step SET ended_at = ?3, result = ?4 WHERE run = ?1 AND name = ?2 AND ended_at IS NULL`,
			seq, s.Name, toMicros(s.EndedAt), blob(s.Result))
		if err != nil {
			return wrapError(ctx, err, "store step %q of run %s", s.Name, run)
		}
		if !changed(r) {
			return api.Errorf(api.KindConflict, "step %q of run %s has not begun, or is done", s.Name, run)
		}
		return nil
	})
}

// RunSteps implements store.Store.
func (db runTable) RunSteps(ctx context.Context, run string) ([]store.RunStep, error) {
	return list(ctx, db.read, "steps of run "+run, scanStep, `SELECT `+stepColumns+` FROM run_step
		WHERE run = (SELECT seq FROM run WHERE id = ?) ORDER BY seq`, run)
}

// EndRun implements store.Store.
func (db runTable) EndRun(ctx context.Context, run string, owner api.OwnerID, end store.RunEnd) (event int64, err error) {
	if end.At.IsZero() {
		return 0, api.Errorf(api.KindInvalid, "run %s: its end time is missing", run)
	}
	if len(end.Result) > store.MaxStepResult {
		return 0, api.Errorf(api.KindExhausted, "the result of run %s has %d bytes; the maximum is %d", run, len(end.Result), store.MaxStepResult)
	}
	var task []any
	tasks := newTaskTable(db.database)
	if end.Task != nil {
		if task, err = tasks.args(*end.Task); err != nil {
			return 0, err
		}
	}
	err = db.inTx(ctx, "the end of run "+run, func(tx *sql.Tx) error {
		seq, err := db.own(ctx, tx, run, owner, 0, 0)
		if err != nil {
			return err
		}
		fail := func(err error) error { return wrapError(ctx, err, "store the end of run %s", run) }
		if _, err := tx.ExecContext(ctx, `DELETE FROM run_step WHERE run = ?`, seq); err != nil {
			return fail(err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE run SET ended_at = ?2, result = ?3, input = x'' WHERE seq = ?1`, seq, toMicros(end.At), blob(end.Result)); err != nil {
			return fail(err)
		}
		if end.Task != nil {
			if err := tasks.updateIn(ctx, tx, task); err != nil {
				return err
			}
		}
		if e := end.Event; e != nil {
			var data any
			if e.Data != nil {
				data = []byte(e.Data)
			}
			if err := tx.StmtContext(ctx, db.appendEvent).QueryRowContext(ctx, string(e.Stream.Kind), e.Stream.ID, e.At.UnixMicro(), string(e.Type), data, nil).Scan(&event); err != nil {
				return fail(err)
			}
		}
		return nil
	})
	return event, err
}

const stepColumns = `name, try, asked, started_at, ended_at, coalesce(result, x'')`

func scanStep(s scanner) (r store.RunStep, err error) {
	err = s.Scan(&r.Name, &r.Try, &r.Asked, instant{&r.StartedAt}, instant{&r.EndedAt}, &r.Result)
	r.Done = !r.EndedAt.IsZero()
	return r, err
}

func scanRun(s scanner) (r store.Run, err error) {
	var paused int64
	err = s.Scan(&r.ID, &r.Kind, &r.Owner, &r.Epoch, &r.Input, instant{&r.CreatedAt}, &paused, instant{&r.CanceledAt}, instant{&r.EndedAt}, &r.Result)
	r.Paused = time.Duration(paused) * time.Microsecond
	return r, err
}
