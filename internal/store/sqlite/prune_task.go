package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// taskBatch is the number of tasks that one transaction removes: each may have megabytes.
const taskBatch = 20

// prunedTasksSQL has the parameters of the statements in prune.go. The size of a task
// includes its attempts and events. A task with a workspace is kept.
const prunedTasksSQL = `SELECT id FROM (SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)
			+ coalesce((SELECT sum(octet_length(doc)) FROM attempt WHERE attempt.task = task.id), 0)
			+ coalesce((SELECT sum(octet_length(data)) FROM event WHERE stream_kind = 'task' AND stream_id = task.id), 0)) OVER w AS size
		FROM task WHERE state = 'done' AND NOT EXISTS (SELECT 1 FROM workspace WHERE workspace.task = task.id AND workspace.state <> 'removed')
		WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC))
		WHERE n > ?1 OR size > ?2 OR ended < ?3 LIMIT ?4`

// PruneTasks implements store.Store.
func (t taskTable) PruneTasks(ctx context.Context, keep store.Retention, fold func(sums []byte, t api.Task) ([]byte, error)) (done store.Pruned, err error) {
	if keep.Rows < 1 || keep.Bytes < 1 {
		return done, api.Errorf(api.KindInvalid, "retention of %d tasks and %d bytes: both must be positive", keep.Rows, keep.Bytes)
	}
	for {
		ids, err := t.db.findExpired(ctx, "tasks", prunedTasksSQL, keep.Rows, keep)
		if err != nil {
			return done, err
		}
		for batch := range slices.Chunk(ids, taskBatch) {
			err := t.db.inTx(ctx, "the retention of tasks", func(tx *sql.Tx) error {
				for _, id := range batch {
					if err := t.foldTask(ctx, tx, id, fold, &done); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return done, err
			}
		}
		if len(ids) < pruneFindLimit {
			return done, nil
		}
	}
}

// foldTask removes one task and adds it to its account's sums.
func (t taskTable) foldTask(ctx context.Context, tx *sql.Tx, id string, fold func([]byte, api.Task) ([]byte, error), done *store.Pruned) error {
	task, err := get(ctx, tx, "task", id, t.scan, `SELECT `+taskColumns+` FROM task WHERE id = ? AND state = 'done'`)
	if api.KindOf(err) == api.KindNotFound {
		return nil // removed since
	}
	if err != nil {
		return err
	}
	if task.Attempts, err = attempts(ctx, tx, task.ID); err != nil {
		return err
	}
	var sums []byte
	day := dayOf(task.CreatedAt)
	err = tx.QueryRowContext(ctx, `SELECT sums FROM task_tally WHERE account = ? AND day = ?`, task.Account, day).Scan(&sums)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return wrapError(ctx, err, "read the sums of old tasks")
	}
	if sums, err = fold(sums, task); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO task_tally (account, day, sums) VALUES (?1, ?2, ?3) ON CONFLICT (account, day) DO UPDATE SET sums = ?3`, task.Account, day, sums)
	if err != nil {
		return wrapError(ctx, err, "store the sums of old tasks")
	}
	var n int
	for _, r := range []removal{
		{`DELETE FROM attempt WHERE task = ?`, &n},
		{`DELETE FROM event WHERE stream_kind = 'task' AND stream_id = ?`, &done.Events},
		{`DELETE FROM run WHERE id = ?`, &n},
		{`DELETE FROM task WHERE id = ?`, &done.Tasks},
	} {
		if err := r.run(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}

// WalkTallies implements store.Store.
func (t taskTable) WalkTallies(ctx context.Context, account string, since time.Time, use func(sums []byte) error) error {
	first := int64(math.MinInt64)
	if !since.IsZero() {
		first = dayOf(since)
	}
	all, err := list(ctx, t.db.read, "sums of old tasks", scanValue[[]byte],
		`SELECT sums FROM task_tally WHERE (?1 = '' OR account = ?1) AND day >= ?2 ORDER BY day`, account, first)
	if err != nil {
		return err
	}
	for _, sums := range all {
		if err := use(sums); err != nil {
			return err
		}
	}
	return nil
}

// dayOf is the day of an instant, in days since 1970 in UTC.
func dayOf(t time.Time) int64 {
	const day = 24 * 60 * 60
	s := t.Unix()
	return (s - ((s%day)+day)%day) / day
}
