package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/sqlite/runs"
)

// runTable has the rows of durable runs and of their steps.
type runTable struct{ *database }

// runError explains an error of package runs.
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

// inRun runs f in a transaction.
func (db runTable) inRun(ctx context.Context, id string, f func(*sql.Tx) error) error {
	return db.inTx(ctx, "run "+id, func(tx *sql.Tx) error { return runError(ctx, f(tx), id) })
}

// InsertRun implements store.Store.
func (db runTable) InsertRun(ctx context.Context, r store.Run) error {
	if err := runs.Check(r); err != nil {
		return err
	}
	_, err := db.write.ExecContext(ctx, runs.InsertSQL, r.ID, r.Kind, string(r.Owner), toMicros(r.CreatedAt), runs.Blob(r.Input))
	if err != nil {
		return insertError(ctx, err, "run", r.ID, "owner "+string(r.Owner))
	}
	return nil
}

// Run implements store.Store.
func (db runTable) Run(ctx context.Context, id string) (store.Run, error) {
	r, err := runs.Scan(db.read.QueryRowContext(ctx, runs.OneSQL, id))
	return r, runError(ctx, err, id)
}

// UnfinishedRuns implements store.Store.
func (db runTable) UnfinishedRuns(ctx context.Context, kind string, notOwner api.OwnerID) ([]store.Run, error) {
	return list(ctx, db.read, "runs", func(s scanner) (store.Run, error) { return runs.Scan(s) }, runs.UnfinishedSQL, kind, string(notOwner))
}

// TakeRun implements store.Store.
func (db runTable) TakeRun(ctx context.Context, id string, from, to api.OwnerID, at time.Time) (run store.Run, err error) {
	err = db.inRun(ctx, id, func(tx *sql.Tx) (err error) {
		run, err = runs.Take(ctx, tx, id, from, to, at)
		return err
	})
	return run, err
}

// CancelRun implements store.Store.
func (db runTable) CancelRun(ctx context.Context, id string, owner api.OwnerID, at time.Time) error {
	return db.inRun(ctx, id, func(tx *sql.Tx) error { return runs.Cancel(ctx, tx, id, owner, at) })
}

// BeginStep implements store.Store.
func (db runTable) BeginStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) (try int, err error) {
	err = db.inRun(ctx, run, func(tx *sql.Tx) (err error) {
		try, err = runs.Begin(ctx, tx, run, owner, s)
		return err
	})
	return try, err
}

// EndStep implements store.Store.
func (db runTable) EndStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) error {
	return db.inRun(ctx, run, func(tx *sql.Tx) error { return runs.End(ctx, tx, run, owner, s) })
}

// RunSteps implements store.Store.
func (db runTable) RunSteps(ctx context.Context, run string) ([]store.RunStep, error) {
	return list(ctx, db.read, "steps of run "+run, func(s scanner) (store.RunStep, error) { return runs.ScanStep(s) }, runs.StepsSQL, run)
}

// EndRun implements store.Store.
func (db runTable) EndRun(ctx context.Context, run string, owner api.OwnerID, end store.RunEnd) (event int64, err error) {
	tasks := newTaskTable(db.database)
	var task []any
	if end.Task != nil {
		if task, err = tasks.args(*end.Task); err != nil {
			return 0, err
		}
	}
	err = db.inRun(ctx, run, func(tx *sql.Tx) error {
		if err := runs.EndRun(ctx, tx, run, owner, end); err != nil {
			return err
		}
		if end.Task != nil {
			if err := tasks.updateIn(ctx, tx, task); err != nil {
				return err
			}
		}
		e := end.Event
		if e == nil {
			return nil
		}
		return tx.StmtContext(ctx, db.appendEvent).QueryRowContext(ctx, string(e.Stream.Kind), e.Stream.ID, e.At.UnixMicro(), string(e.Type), []byte(e.Data), nil).Scan(&event)
	})
	return event, err
}
