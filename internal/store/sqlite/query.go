package sqlite

import (
	"context"
	"database/sql"
	"strings"
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

// each calls use with the rows of a statement until it returns false.
func each(ctx context.Context, r runner, what, query string, args []any, use func(scanner) (bool, error)) error {
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		return wrapError(ctx, err, "list %s", what)
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		if more, err = use(rows); err != nil {
			return wrapError(ctx, err, "list %s", what)
		}
	}
	if err := rows.Err(); err != nil {
		return wrapError(ctx, err, "list %s", what)
	}
	return nil
}

// list reads all rows of a statement.
func list[T any](ctx context.Context, r runner, what string, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	err = each(ctx, r, what, query, args, func(s scanner) (bool, error) {
		v, err := scan(s)
		all = append(all, v)
		return true, err
	})
	if err != nil {
		return nil, err
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

// inReadTx runs f in a transaction that reads the database as of one instant.
func (db *database) inReadTx(ctx context.Context, f func(runner) error) error {
	tx, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return wrapError(ctx, err, "read the database")
	}
	defer tx.Rollback()
	return f(tx)
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
