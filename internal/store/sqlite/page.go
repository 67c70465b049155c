package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// after selects the rows after a cursor. If the cursor's row was removed, the other rows
// of the same instant are listed again.
func (w *where) after(table, at string, c store.Cursor) {
	if c.IsZero() {
		return
	}
	w.conds = append(w.conds, "("+at+", seq) < (?, coalesce((SELECT seq FROM "+table+" WHERE id = ?), 9223372036854775807))")
	w.args = append(w.args, c.At.UnixMicro(), c.ID)
}

// listing is one page of a table.
type listing[T any] struct {
	what, columns, table, at string
	limit                    int
	cursor                   store.Cursor
	scan                     func(scanner) (T, error)
	mark                     func(T) (time.Time, string)
}

// read returns a page of rows and the cursor of the next page, the zero Cursor after the
// last one. A page ends at its limit, or with the row that exceeds store.MaxPageBytes.
func (l listing[T]) read(ctx context.Context, r runner, w where) (rows []T, next store.Cursor, err error) {
	if l.limit < 1 {
		return nil, next, api.Errorf(api.KindInvalid, "list %s: the limit %d is not positive", l.what, l.limit)
	}
	fail := func(err error) ([]T, store.Cursor, error) {
		return nil, store.Cursor{}, wrapError(ctx, err, "list %s", l.what)
	}
	w.after(l.table, l.at, l.cursor)
	q, args := w.selectSQL(l.columns, l.table, l.at+" DESC, seq DESC", l.limit+1)
	found, err := r.QueryContext(ctx, q, args...)
	if err != nil {
		return fail(err)
	}
	defer found.Close()
	size := 0
	for found.Next() {
		if len(rows) == l.limit || size >= store.MaxPageBytes {
			next.At, next.ID = l.mark(rows[len(rows)-1])
			break
		}
		v, err := l.scan(sizeCounter{found, &size})
		if err != nil {
			return fail(err)
		}
		rows = append(rows, v)
	}
	if err := found.Err(); err != nil {
		return fail(err)
	}
	return rows, next, nil
}

// sizeCounter adds up the bytes of the strings that it scans.
type sizeCounter struct {
	scanner
	size *int
}

// Scan implements scanner.
func (s sizeCounter) Scan(to ...any) error {
	err := s.scanner.Scan(to...)
	for _, v := range to {
		if p, ok := v.(*string); ok {
			*s.size += len(*p)
		}
	}
	return err
}

// SandboxPage implements store.Store.
func (db sandboxTable) SandboxPage(ctx context.Context, f store.SandboxFilter) ([]api.Sandbox, store.Cursor, error) {
	if err := db.ahead.flush(ctx); err != nil {
		return nil, store.Cursor{}, err
	}
	return listing[api.Sandbox]{"sandboxes", sandboxColumns, "sandbox", "created_at", f.Limit, f.After, db.sealer.scanSandbox,
		func(s api.Sandbox) (time.Time, string) { return s.CreatedAt, string(s.ID) }}.read(ctx, db.read, sandboxWhere(f))
}

// ExecPage implements store.Store.
func (db execTable) ExecPage(ctx context.Context, f store.ExecFilter) ([]api.Exec, store.Cursor, error) {
	if err := db.ahead.flush(ctx); err != nil {
		return nil, store.Cursor{}, err
	}
	return listing[api.Exec]{"execs", execColumns, "exec", "started_at", f.Limit, f.After, scanExec,
		func(e api.Exec) (time.Time, string) { return e.StartedAt, string(e.ID) }}.read(ctx, db.read, execWhere(f))
}

// SnapshotPage implements store.Store.
func (db snapshotTable) SnapshotPage(ctx context.Context, f store.SnapshotFilter) ([]api.Snapshot, store.Cursor, error) {
	return listing[api.Snapshot]{"snapshots", snapshotColumns, "snapshot", "created_at", f.Limit, f.After, scanSnapshot,
		func(s api.Snapshot) (time.Time, string) { return s.CreatedAt, string(s.ID) }}.read(ctx, db.read, snapshotWhere(f))
}

// KeyPage implements store.Store.
func (db keyTable) KeyPage(ctx context.Context, f store.KeyFilter) ([]api.Key, store.Cursor, error) {
	return listing[api.Key]{"keys", keyColumns, "api_key", "created_at", f.Limit, f.After, scanKey,
		func(k api.Key) (time.Time, string) { return k.CreatedAt, string(k.ID) }}.read(ctx, db.read, keyWhere(f))
}

// TaskPage implements store.Store.
func (db taskTable) TaskPage(ctx context.Context, f store.TaskFilter) ([]api.Task, store.Cursor, error) {
	tx, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return nil, store.Cursor{}, wrapError(ctx, err, "list tasks")
	}
	defer tx.Rollback()
	mark := func(t api.Task) (time.Time, string) { return t.CreatedAt, string(t.ID) }
	rows, next, err := listing[api.Task]{"tasks", taskColumns, "task", "created_at", f.Limit, f.After, db.sealer.scanTask, mark}.read(ctx, tx, taskWhere(f))
	if err != nil || !f.WithAttempts {
		return rows, next, err
	}
	size := 0
	for i := range rows {
		if size >= store.MaxPageBytes {
			at, id := mark(rows[i-1])
			return rows[:i:i], store.Cursor{At: at, ID: id}, nil
		}
		scan := func(r scanner) (api.Attempt, error) { return scanAttempt(sizeCounter{r, &size}) }
		if rows[i].Attempts, err = list(ctx, tx, "attempts of task "+string(rows[i].ID), scan, attemptsSQL, string(rows[i].ID)); err != nil {
			return nil, store.Cursor{}, err
		}
	}
	return rows, next, nil
}
