package database

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectTaskSQL = `
		SELECT doc, id, owner, state, created_at, ended_at FROM task`
	insertTaskSQL = `
		INSERT INTO task (id, owner, host, lease_epoch, state, created_at, ended_at, doc)
		VALUES ($1, $2, coalesce((SELECT host FROM owner WHERE id = $2), ''), 1, $3, $4, $5, $6)`
	updateTaskSQL = `
		UPDATE task
		SET owner = $2, host = coalesce((SELECT host FROM owner WHERE id = $2), ''),
			lease_epoch = lease_epoch + CASE WHEN owner IS DISTINCT FROM $2 THEN 1 ELSE 0 END,
			state = $3, created_at = $4, ended_at = $5, doc = $6
		WHERE id = $1 AND (state = $3 OR state <> 'done') AND ` + mayWrite
	adoptAttemptsSQL = `
		UPDATE attempt
		SET (owner, host, lease_epoch) = (SELECT owner, host, lease_epoch FROM task WHERE id = $1)
		WHERE task = $1 AND owner IS DISTINCT FROM $2`
	walkTasksSQL = `
		SELECT doc, id, owner, state, created_at, ended_at, seq FROM task`

	selectAttemptsSQL = `
		SELECT doc, n, sandbox, started_at, ended_at, stdout_path, stderr_path
		FROM attempt WHERE task = $1 ORDER BY n`
	putAttemptSQL = `
		INSERT INTO attempt
			(task, n, owner, host, lease_epoch, sandbox, started_at, ended_at, stdout_path, stderr_path, doc)
		SELECT id, $2, owner, host, lease_epoch, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), $6, $7, $8 FROM task WHERE id = $1 FOR SHARE
		ON CONFLICT (task, n) DO UPDATE
		SET owner = excluded.owner, host = excluded.host, lease_epoch = excluded.lease_epoch,
			sandbox = excluded.sandbox, started_at = excluded.started_at, ended_at = excluded.ended_at,
			stdout_path = excluded.stdout_path, stderr_path = excluded.stderr_path, doc = excluded.doc`

	// prunedTasksSQL has the parameters of the statements in prune.go. The size of a task
	// includes its attempts and events. A task with a workspace is kept.
	prunedTasksSQL = `
		SELECT id FROM (
			SELECT id, coalesce(ended_at, created_at) AS ended,
				row_number() OVER w AS n,
				sum(octet_length(doc)
					+ coalesce((SELECT sum(octet_length(doc)) FROM attempt WHERE attempt.task = task.id), 0)
					+ coalesce((SELECT sum(octet_length(data)) FROM event WHERE stream_kind = 'task' AND stream_id = task.id), 0)
				) OVER w AS size
			FROM task
			WHERE state = 'done'
				AND NOT EXISTS (SELECT 1 FROM workspace WHERE workspace.task = task.id AND workspace.state <> 'removed')
			WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC)) AS ended_rows
		WHERE n > $1 OR size > $2 OR ended < $3
		LIMIT $4`
)

// walkPage is the number of tasks that WalkTasks reads at once, and taskBatch that of those which
// one transaction removes: each may have megabytes.
const (
	walkPage  = 20
	taskBatch = 20
)

func taskTable(db *DB) table[api.Task, api.TaskID] {
	return table[api.Task, api.TaskID]{
		db: db, what: "task", plural: "tasks", name: "task", letter: "t", start: "created_at",
		selectSQL: selectTaskSQL, insertSQL: insertTaskSQL, updateSQL: updateTaskSQL, adoptSQL: adoptAttemptsSQL,
		scan: func(r scanner) (api.Task, error) {
			var row taskDoc
			err := scanRow(r, "task", &row, &row.ID, text(&row.Owner), &row.State, instant{&row.CreatedAt}, instant{&row.EndedAt})
			return db.sealer.openTask(row), err
		},
		mark:     func(t api.Task) (time.Time, api.TaskID) { return t.CreatedAt, t.ID },
		states:   names(api.TaskPending, api.TaskRunning, api.TaskDone),
		document: func(t api.Task) (any, error) { return db.sealer.task(t) },
		values: func(t api.Task) []any {
			return []any{string(t.ID), nullable(t.Owner), string(t.State), toMicros(t.CreatedAt), toMicros(t.EndedAt)}
		},
	}
}

// InsertTask implements store.Store.
func (db *DB) InsertTask(ctx context.Context, t api.Task) error { return db.tasks.insert(ctx, t) }

// UpdateTask implements store.Store.
func (db *DB) UpdateTask(ctx context.Context, t api.Task) error { return db.tasks.update(ctx, t) }

// PutAttempt implements store.Store.
func (db *DB) PutAttempt(ctx context.Context, task api.TaskID, a api.Attempt) error {
	if a.N < 1 {
		return api.Errorf(api.KindInvalid, "attempt %d of task %s: attempts count from 1", a.N, task)
	}
	doc, err := rowjson.Marshal(a)
	if err != nil {
		return api.Errorf(api.KindInvalid, "attempt %d of task %s: %w", a.N, task, err)
	}
	if err := db.mayGrow("task " + string(task)); err != nil {
		return err
	}
	r, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, db.dialect.adapt(putAttemptSQL),
			string(task), a.N, nullable(a.Sandbox), toMicros(a.StartedAt), toMicros(a.EndedAt), a.StdoutPath, a.StderrPath, string(doc))
	})
	if err != nil {
		return wrapError(ctx, err, "store attempt %d of task %s", a.N, task)
	}
	if !changed(r) {
		return notFound("task", string(task))
	}
	return nil
}

func scanAttempt(r scanner) (a api.Attempt, err error) {
	err = scanRow(r, "attempt", &a, &a.N, text(&a.Sandbox), instant{&a.StartedAt}, instant{&a.EndedAt}, &a.StdoutPath, &a.StderrPath)
	return a, err
}

// readAttempts reads the attempts of a task and adds their bytes to size.
func readAttempts(ctx context.Context, r runner, t *api.Task, size *int) (err error) {
	scan := func(s scanner) (api.Attempt, error) { return scanAttempt(sizeCounter{s, size}) }
	t.Attempts, err = list(ctx, r, "attempts of task "+string(t.ID), scan, selectAttemptsSQL, string(t.ID))
	return err
}

// Task implements store.Store.
func (db *DB) Task(ctx context.Context, id api.TaskID) (t api.Task, err error) {
	err = db.inReadTx(ctx, func(r runner) error {
		if t, err = db.tasks.get(ctx, r, id); err != nil {
			return err
		}
		return readAttempts(ctx, r, &t, new(int))
	})
	return t, err
}

// UnfinishedTasks implements store.Store.
func (db *DB) UnfinishedTasks(ctx context.Context, notOwner api.OwnerID) (all []api.Task, err error) {
	w := where{conds: []string{"state IN ('pending', 'running')"}}
	if notOwner != "" {
		w.and("owner IS DISTINCT FROM ?", string(notOwner))
	}
	err = db.inReadTx(ctx, func(r runner) error {
		if all, err = db.tasks.list(ctx, r, w, 0); err != nil {
			return err
		}
		for i := range all {
			if err := readAttempts(ctx, r, &all[i], new(int)); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// TaskPage implements store.Store.
func (db *DB) TaskPage(ctx context.Context, account string, programs bool, p api.PageRequest) (rows []api.Task, _ string, err error) {
	var w where
	w.equals("account", account)
	if programs {
		w.and("repo IS NULL")
	}
	var next store.Cursor
	err = db.inReadTx(ctx, func(r runner) error {
		if rows, next, err = db.tasks.pageIn(ctx, r, w, p); err != nil {
			return err
		}
		size := 0
		for i := range rows {
			if size >= store.MaxPageBytes {
				rows, next = rows[:i:i], db.tasks.cursor(rows[i-1])
				return nil
			}
			if err := readAttempts(ctx, r, &rows[i], &size); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return rows, next.Token(), nil
}

// WalkTasks implements store.Store.
func (db *DB) WalkTasks(ctx context.Context, account string, since time.Time, use func(api.Task) error) error {
	created, seq := int64(math.MaxInt64), int64(math.MaxInt64)
	for {
		var w where
		w.equals("account", account)
		w.since("created_at", since)
		w.and("(created_at, seq) < (?, ?)", created, seq)
		q, args := w.query(walkTasksSQL, "created_at DESC, seq DESC", walkPage)
		page, err := list(ctx, db.read, "tasks", func(r scanner) (api.Task, error) { return db.tasks.scan(extraColumn{r, &seq}) }, q, args...)
		if err != nil {
			return err
		}
		for _, t := range page {
			if err := readAttempts(ctx, db.read, &t, new(int)); err != nil {
				return err
			}
			if err := use(t); err != nil {
				return err
			}
			created = t.CreatedAt.UnixMicro()
		}
		if len(page) < walkPage {
			return nil
		}
	}
}

// extraColumn scans one more column than the caller asks for.
type extraColumn struct {
	scanner
	last any
}

// Scan implements scanner.
func (a extraColumn) Scan(to ...any) error { return a.scanner.Scan(append(to, a.last)...) }

// FindTaskOf implements store.Store.
func (db *DB) FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error) {
	return db.tasks.find(ctx, account, prefix)
}

// PruneTasks implements store.Store.
func (db *DB) PruneTasks(ctx context.Context, keep store.Retention, fold func(sums []byte, t api.Task) ([]byte, error)) (done store.Pruned, err error) {
	if keep.Rows < 1 || keep.Bytes < 1 {
		return done, api.Errorf(api.KindInvalid, "retention of %d tasks and %d bytes: both must be positive", keep.Rows, keep.Bytes)
	}
	for {
		ids, err := db.findExpired(ctx, "tasks", prunedTasksSQL, keep.Rows, keep)
		if err != nil {
			return done, err
		}
		for batch := range slices.Chunk(ids, taskBatch) {
			was := done
			err := db.inTx(ctx, "the retention of tasks", func(tx *sql.Tx) error {
				done = was // it may run again
				if err := db.lock(ctx, tx, "sums of tasks"); err != nil {
					return err
				}
				for _, id := range batch {
					if err := db.foldTask(ctx, tx, id, fold, &done); err != nil {
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
func (db *DB) foldTask(ctx context.Context, tx *sql.Tx, id string, fold func([]byte, api.Task) ([]byte, error), done *store.Pruned) error {
	task, err := get(ctx, tx, "task", id, db.tasks.scan, selectTaskSQL+` WHERE id = $1 AND state = 'done'`)
	if api.KindOf(err) == api.KindNotFound {
		return nil // removed since
	}
	if err != nil {
		return err
	}
	if err := readAttempts(ctx, tx, &task, new(int)); err != nil {
		return err
	}
	var sums []byte
	day := dayOf(task.CreatedAt)
	err = tx.QueryRowContext(ctx, `SELECT sums FROM task_tally WHERE account = $1 AND day = $2`, task.Account, day).Scan(&sums)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return wrapError(ctx, err, "read the sums of old tasks")
	}
	if sums, err = fold(sums, task); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO task_tally (account, day, sums) VALUES ($1, $2, $3)
		ON CONFLICT (account, day) DO UPDATE SET sums = $3`, task.Account, day, sums)
	if err != nil {
		return wrapError(ctx, err, "store the sums of old tasks")
	}
	var n int
	for _, r := range []removal{
		{`DELETE FROM attempt WHERE task = $1`, &n},
		{`DELETE FROM event WHERE stream_kind = 'task' AND stream_id = $1`, &done.Events},
		{`DELETE FROM run WHERE id = $1`, &n},
		{`DELETE FROM task WHERE id = $1`, &done.Tasks},
	} {
		if err := r.run(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}

// WalkTallies implements store.Store.
func (db *DB) WalkTallies(ctx context.Context, account string, since time.Time, use func(sums []byte) error) error {
	first := int64(math.MinInt64)
	if !since.IsZero() {
		first = dayOf(since)
	}
	all, err := list(ctx, db.read, "sums of old tasks", scanValue[[]byte], `
		SELECT sums FROM task_tally
		WHERE ($1 = '' OR account = $1) AND day >= $2
		ORDER BY day`, account, first)
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
