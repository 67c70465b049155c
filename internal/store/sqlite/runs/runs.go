package runs

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	// InsertSQL takes id, kind, owner, start and input.
	InsertSQL = `INSERT INTO run (id, kind, owner, lease_epoch, created_at, input) VALUES (?, ?, ?, 1, ?, ?)`
	columns   = `id, kind, owner, lease_epoch, input, created_at, paused, canceled_at, ended_at, coalesce(result, x'')`
	// OneSQL reads the run with an id.
	OneSQL = `SELECT ` + columns + ` FROM run WHERE id = ?`
	// UnfinishedSQL lists runs of a kind that are not of an owner.
	UnfinishedSQL = `SELECT ` + columns + ` FROM run WHERE ended_at IS NULL AND kind = ? AND owner <> ? ORDER BY seq`
	stepColumns   = `name, try, asked, started_at, ended_at, coalesce(result, x'')`
	// StepsSQL lists the steps of the run with an id.
	StepsSQL = `SELECT ` + stepColumns + ` FROM run_step WHERE run = (SELECT seq FROM run WHERE id = ?) ORDER BY seq`
	// The times of steps are those of the run's clock, which is behind by paused.
	takeSQL = `UPDATE run SET owner = ?3, lease_epoch = lease_epoch + 1,
		paused = max(paused, ?4 - max(created_at, coalesce((SELECT max(max(started_at, coalesce(ended_at, 0))) FROM run_step WHERE run = run.seq), 0)))
		WHERE id = ?1 AND owner = ?2 AND ended_at IS NULL`
	cancelSQL = `UPDATE run SET canceled_at = coalesce(canceled_at, ?3) WHERE id = ?1 AND owner = ?2 AND ended_at IS NULL`
	ownSQL    = `UPDATE run SET steps = steps + ?3, size = size + ?4
		WHERE id = ?1 AND owner = ?2 AND ended_at IS NULL RETURNING seq, steps, size`
)

// Scanner is a row.
type Scanner interface{ Scan(...any) error }

// instant scans a time, the zero time for NULL.
type instant struct{ to *time.Time }

// Scan implements sql.Scanner.
func (i instant) Scan(value any) error {
	*i.to = time.Time{}
	if micros, ok := value.(int64); ok {
		*i.to = time.UnixMicro(micros).UTC()
	}
	return nil
}

// Blob returns bytes as they are stored where NULL is not allowed.
func Blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Scan reads a run.
func Scan(s Scanner) (r store.Run, err error) {
	var paused int64
	err = s.Scan(&r.ID, &r.Kind, &r.Owner, &r.Epoch, &r.Input, instant{&r.CreatedAt}, &paused, instant{&r.CanceledAt}, instant{&r.EndedAt}, &r.Result)
	r.Paused = time.Duration(paused) * time.Microsecond
	return r, err
}

// ScanStep reads a step.
func ScanStep(s Scanner) (r store.RunStep, err error) {
	err = s.Scan(&r.Name, &r.Try, &r.Asked, instant{&r.StartedAt}, instant{&r.EndedAt}, &r.Result)
	r.Done = !r.EndedAt.IsZero()
	return r, err
}

// refused explains why an owner could not write to a run.
func refused(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID) error {
	r, err := Scan(tx.QueryRowContext(ctx, OneSQL, id))
	switch {
	case err != nil:
		return err
	case !r.EndedAt.IsZero():
		return api.Errorf(api.KindConflict, "run %s has ended", id)
	}
	return api.Errorf(api.KindConflict, "run %s belongs to %s, not to %s", id, r.Owner, owner)
}

// changed reports whether a statement changed a row.
func changed(r sql.Result) bool {
	n, err := r.RowsAffected()
	return err == nil && n > 0
}

// Check refuses a run that cannot be stored.
func Check(r store.Run) error {
	switch {
	case r.ID == "" || r.Kind == "" || r.Owner == "" || r.CreatedAt.IsZero():
		return api.Errorf(api.KindInvalid, "a run needs an id, a kind, an owner and a start time")
	case len(r.Input) > store.MaxRunInput:
		return api.Errorf(api.KindExhausted, "run %s: its input has %d bytes; the maximum is %d", r.ID, len(r.Input), store.MaxRunInput)
	}
	return nil
}

// Take makes an owner's run another owner's.
func Take(ctx context.Context, tx *sql.Tx, id string, from, to api.OwnerID, at time.Time) (run store.Run, err error) {
	r, err := tx.ExecContext(ctx, takeSQL, id, string(from), string(to), at.UnixMicro())
	if err != nil {
		return run, err
	}
	if !changed(r) {
		return run, refused(ctx, tx, id, from)
	}
	return Scan(tx.QueryRowContext(ctx, OneSQL, id))
}

// Cancel stores that a run is to be stopped.
func Cancel(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID, at time.Time) error {
	r, err := tx.ExecContext(ctx, cancelSQL, id, string(owner), at.UnixMicro())
	if err == nil && !changed(r) {
		err = refused(ctx, tx, id, owner)
	}
	return err
}

// own returns the number of a run of an owner that has not ended, after adding to its counters.
func own(ctx context.Context, tx *sql.Tx, id string, owner api.OwnerID, steps, size int) (seq int64, err error) {
	var n, bytes int64
	err = tx.QueryRowContext(ctx, ownSQL, id, string(owner), steps, size).Scan(&seq, &n, &bytes)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, refused(ctx, tx, id, owner)
	case err != nil:
		return 0, err
	case n > store.MaxRunSteps || bytes > store.MaxRunBytes:
		return 0, api.Errorf(api.KindExhausted, "the journal of run %s is full: %d steps and %d bytes; the maximum is %d steps and %d bytes",
			id, n, bytes, store.MaxRunSteps, store.MaxRunBytes)
	}
	return seq, nil
}

// Begin stores that a step begins, or begins again.
func Begin(ctx context.Context, tx *sql.Tx, run string, owner api.OwnerID, s store.RunStep) (try int, err error) {
	if s.Name == "" || len(s.Name) > store.MaxStepName || len(s.Asked) > 64 || s.StartedAt.IsZero() {
		return 0, api.Errorf(api.KindInvalid, "a step of run %s: its name, its digest or its start time is missing or too long", run)
	}
	seq, err := own(ctx, tx, run, owner, 0, 0)
	if err != nil {
		return 0, err
	}
	was, err := ScanStep(tx.QueryRowContext(ctx, `SELECT `+stepColumns+` FROM run_step WHERE run = ? AND name = ?`, seq, s.Name))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if _, err = own(ctx, tx, run, owner, 1, len(s.Name)+len(s.Asked)); err != nil {
			return 0, err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO run_step (run, name, try, asked, started_at) VALUES (?, ?, 1, ?, ?)`,
			seq, s.Name, Blob(s.Asked), s.StartedAt.UnixMicro())
		return 1, err
	case err != nil:
		return 0, err
	case was.Done:
		return 0, api.Errorf(api.KindConflict, "step %q of run %s is done", s.Name, run)
	case string(was.Asked) != string(s.Asked):
		return 0, api.Errorf(api.KindConflict, "step %q of run %s was asked something else before", s.Name, run)
	}
	_, err = tx.ExecContext(ctx, `UPDATE run_step SET try = ?3, started_at = ?4 WHERE run = ?1 AND name = ?2`, seq, s.Name, was.Try+1, s.StartedAt.UnixMicro())
	return was.Try + 1, err
}

// End stores the result of a step.
func End(ctx context.Context, tx *sql.Tx, run string, owner api.OwnerID, s store.RunStep) error {
	switch {
	case s.EndedAt.IsZero():
		return api.Errorf(api.KindInvalid, "step %q of run %s: its end time is missing", s.Name, run)
	case len(s.Result) > store.MaxStepResult:
		return api.Errorf(api.KindExhausted, "the result of step %q of run %s has %d bytes; the maximum is %d", s.Name, run, len(s.Result), store.MaxStepResult)
	}
	seq, err := own(ctx, tx, run, owner, 0, len(s.Result))
	if err != nil {
		return err
	}
	r, err := tx.ExecContext(ctx, `UPDATE run_step SET ended_at = ?3, result = ?4 WHERE run = ?1 AND name = ?2 AND ended_at IS NULL`,
		seq, s.Name, s.EndedAt.UnixMicro(), Blob(s.Result))
	if err == nil && !changed(r) {
		err = api.Errorf(api.KindConflict, "step %q of run %s has not begun, or is done", s.Name, run)
	}
	return err
}

// EndRun ends a run and removes its steps.
func EndRun(ctx context.Context, tx *sql.Tx, run string, owner api.OwnerID, end store.RunEnd) error {
	switch {
	case end.At.IsZero():
		return api.Errorf(api.KindInvalid, "run %s: its end time is missing", run)
	case len(end.Result) > store.MaxStepResult:
		return api.Errorf(api.KindExhausted, "the result of run %s has %d bytes; the maximum is %d", run, len(end.Result), store.MaxStepResult)
	}
	seq, err := own(ctx, tx, run, owner, 0, 0)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM run_step WHERE run = ?`, seq); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE run SET ended_at = ?2, result = ?3, input = x'' WHERE seq = ?1`, seq, end.At.UnixMicro(), Blob(end.Result))
	return err
}
