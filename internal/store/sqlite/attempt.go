package sqlite

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

// PutAttempt implements store.Store.
func (t taskTable) PutAttempt(ctx context.Context, task api.TaskID, a api.Attempt) error {
	if a.N < 1 {
		return api.Errorf(api.KindInvalid, "attempt %d of task %s: attempts count from 1", a.N, task)
	}
	doc, err := rowjson.Marshal(a)
	if err != nil {
		return api.Errorf(api.KindInvalid, "attempt %d of task %s: %w", a.N, task, err)
	}
	r, err := t.db.write.ExecContext(ctx, `INSERT INTO attempt
		(task, n, owner, host, lease_epoch, sandbox, started_at, ended_at, stdout_path, stderr_path, doc)
		SELECT id, ?2, owner, host, lease_epoch, ?3, ?4, ?5, ?6, ?7, ?8 FROM task WHERE id = ?1
		ON CONFLICT (task, n) DO UPDATE SET
			owner = excluded.owner, host = excluded.host, lease_epoch = excluded.lease_epoch,
			sandbox = excluded.sandbox, started_at = excluded.started_at, ended_at = excluded.ended_at,
			stdout_path = excluded.stdout_path, stderr_path = excluded.stderr_path, doc = excluded.doc`,
		string(task), a.N, nullable(a.Sandbox), toMicros(a.StartedAt), toMicros(a.EndedAt), a.StdoutPath, a.StderrPath, string(doc))
	if err != nil {
		return wrapError(ctx, err, "store attempt %d of task %s", a.N, task)
	}
	if !changed(r) {
		return notFound("task", string(task))
	}
	return nil
}

func attempts(ctx context.Context, r runner, task api.TaskID) ([]api.Attempt, error) {
	return list(ctx, r, "attempts of task "+string(task), scanAttempt, attemptsSQL, string(task))
}

const attemptsSQL = `SELECT doc, n, sandbox, started_at, ended_at, stdout_path, stderr_path FROM attempt WHERE task = ? ORDER BY n`

func scanAttempt(r scanner) (a api.Attempt, err error) {
	err = scanRow(r, "attempt", &a, &a.N, text(&a.Sandbox), instant{&a.StartedAt}, instant{&a.EndedAt}, &a.StdoutPath, &a.StderrPath)
	return a, err
}
