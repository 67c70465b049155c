package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"hortus.dev/api"
)

// where collects the conditions of a list. Column names are constants of this
// package; values are always bound.
type where struct {
	conds []string
	args  []any
}

func (w *where) equals(column, value string) {
	if value != "" {
		w.conds = append(w.conds, column+" = ?")
		w.args = append(w.args, value)
	}
}

// notEquals excludes one value; NULL is included.
func (w *where) notEquals(column, value string) {
	if value != "" {
		w.conds = append(w.conds, column+" IS NOT ?")
		w.args = append(w.args, value)
	}
}

func in[S ~string](w *where, column string, values []S) {
	if len(values) == 0 {
		return
	}
	w.conds = append(w.conds, column+" IN (?"+strings.Repeat(", ?", len(values)-1)+")")
	for _, v := range values {
		w.args = append(w.args, string(v))
	}
}

// selectSQL returns the whole statement; limit 0 means all rows.
func (w *where) selectSQL(columns, table, order string, limit int) (string, []any) {
	q := "SELECT " + columns + " FROM " + table
	if len(w.conds) > 0 {
		q += " WHERE " + strings.Join(w.conds, " AND ")
	}
	q += " ORDER BY " + order
	if limit > 0 {
		return q + " LIMIT ?", append(w.args, limit)
	}
	return q, w.args
}

// scanner is a *sql.Row or a *sql.Rows.
type scanner interface{ Scan(...any) error }

// runner is a pool or a transaction.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// list reads all rows of a statement.
func list[T any](ctx context.Context, r runner, what string, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, wrapError(ctx, err, "list %s", what)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, wrapError(ctx, err, "list %s", what)
		}
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		return nil, wrapError(ctx, err, "list %s", what)
	}
	return all, nil
}

// get reads the row with an identifier.
func get[T any](ctx context.Context, r runner, what, id string, scan func(scanner) (T, error), query string) (T, error) {
	v, err := scan(r.QueryRowContext(ctx, query, id))
	if err == sql.ErrNoRows {
		return v, notFound(what, id)
	}
	if err != nil {
		return v, wrapError(ctx, err, "read %s %.64q", what, id)
	}
	return v, nil
}

// inTx runs f in a transaction that holds the write lock.
func (db *database) inTx(ctx context.Context, what string, f func(*sql.Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return wrapError(ctx, err, "store %s", what)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return wrapError(ctx, err, "store %s", what)
	}
	return nil
}

// changed reports whether a statement changed a row.
func changed(r sql.Result) bool {
	n, err := r.RowsAffected()
	return err == nil && n > 0
}

// updateConflict explains why an update changed nothing: the row does not exist, or its
// state is final.
func updateConflict(ctx context.Context, tx *sql.Tx, what, table, id, state string) error {
	var have string
	err := tx.QueryRowContext(ctx, "SELECT state FROM "+table+" WHERE id = ?", id).Scan(&have)
	if err == sql.ErrNoRows {
		return notFound(what, id)
	}
	if err != nil {
		return wrapError(ctx, err, "read %s %.64q", what, id)
	}
	return api.Errorf(api.KindConflict, "%s %s is %s, which is final; it cannot become %s", what, id, have, state)
}

// checkRow validates what every row needs: an id, a start time and a known state.
func checkRow(what, id string, timed bool, state string, known ...string) error {
	if id == "" {
		return api.Errorf(api.KindInvalid, "row of a %s: the id is missing", what)
	}
	if !timed {
		return api.Errorf(api.KindInvalid, "%s %s: the start time is missing", what, id)
	}
	for _, k := range known {
		if state == k {
			return nil
		}
	}
	return api.Errorf(api.KindInvalid, "%s %s: unknown state %.64q", what, id, state)
}

func checkLimit(what string, limit int) error {
	if limit < 0 {
		return api.Errorf(api.KindInvalid, "list %s: the limit %d is negative", what, limit)
	}
	return nil
}
