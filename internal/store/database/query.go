package database

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

// where collects the conditions of a list. Column names are constants of this
// package; values are always bound: a condition has ? in the place of each.
type where struct {
	conds []string
	args  []any
}

// and adds a condition.
func (w *where) and(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

// equals selects one value of a column, or all for "".
func (w *where) equals(column, value string) {
	if value != "" {
		w.and(column+" = ?", value)
	}
}

// ofAccount selects what belongs to one account; "" is the operator.
func ofAccount(account string) (w where) {
	if account == "" {
		w.and("account IS NULL")
	} else {
		w.and("account = ?", account)
	}
	return w
}

// since selects instants that are not before one.
func (w *where) since(column string, at time.Time) {
	if !at.IsZero() {
		w.and(column+" >= ?", toMicros(at))
	}
}

// query completes a statement that ends with its table, and numbers its values; limit 0 means all rows.
func (w *where) query(selectSQL, order string, limit int) (string, []any) {
	q, args := "", w.args
	if len(w.conds) > 0 {
		q += " WHERE " + strings.Join(w.conds, " AND ")
	}
	q += " ORDER BY " + order
	if limit > 0 {
		q, args = q+" LIMIT ?", append(args, limit)
	}
	parts := strings.Split(q, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return selectSQL + strings.Join(parts, ""), args
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

// page reads rows until limit, or the row that exceeds store.MaxPageBytes. mark returns the
// position of the last row, where the next page begins: the zero Cursor if there is none.
func page[T any](ctx context.Context, r runner, what string, limit int, scan func(scanner) (T, error), mark func(T) store.Cursor, query string, args []any) (rows []T, next store.Cursor, err error) {
	size := 0
	err = each(ctx, r, what, query, args, func(s scanner) (bool, error) {
		if len(rows) == limit || size >= store.MaxPageBytes {
			next = mark(rows[len(rows)-1])
			return false, nil
		}
		v, err := scan(sizeCounter{s, &size})
		rows = append(rows, v)
		return true, err
	})
	if err != nil {
		return nil, store.Cursor{}, err
	}
	return rows, next, nil
}

// sizeCounter adds up the bytes of the documents that it scans.
type sizeCounter struct {
	scanner
	size *int
}

// Scan implements scanner.
func (s sizeCounter) Scan(to ...any) error {
	err := s.scanner.Scan(to...)
	for _, v := range to {
		if d, ok := v.(*document); ok {
			*s.size += len(d.text)
		}
	}
	return err
}

// inReadTx runs f in a transaction that reads the database as of one instant. It may call f more than once.
func (db *DB) inReadTx(ctx context.Context, f func(runner) error) error {
	return db.read.outage.patiently(ctx, always, func() error {
		tx, err := db.read.BeginTx(ctx, db.dialect.snapshot)
		if err != nil {
			return wrapError(ctx, err, "read the database")
		}
		defer tx.Rollback()
		return f(tx)
	})
}

// inTx runs f in a transaction that writes. It runs f again after a collision with another transaction, on a full disk
// after it released the reserve, and if the server cannot be reached. Nobody knows whether a transaction was committed if the server did not
// answer: that is KindUnavailable.
func (db *DB) inTx(ctx context.Context, what string, f func(*sql.Tx) error) error {
	return db.patientTx(ctx, undone, func() error {
		return db.relieved(func() error { return db.tryTx(ctx, what, f) })
	})
}

// sameTx is inTx for an f that changes nothing the second time: it runs f again, too, if nobody knows whether it was committed. Then doubt
// is true.
func (db *DB) sameTx(ctx context.Context, what string, f func(tx *sql.Tx, doubt bool) error) error {
	doubt := false
	return db.patientTx(ctx, always, func() error {
		err := db.relieved(func() error { return db.tryTx(ctx, what, func(tx *sql.Tx) error { return f(tx, doubt) }) })
		doubt = doubt || errors.As(err, new(commitError)) && inDoubt(err)
		return err
	})
}

// growTx is inTx for rows that are added: it does not use the reserve.
func (db *DB) growTx(ctx context.Context, what string, f func(*sql.Tx) error) error {
	if err := db.mayGrow(what); err != nil {
		return err
	}
	return db.patientTx(ctx, undone, func() error {
		return repeated(func() error { return db.tryTx(ctx, what, f) })
	})
}

// commitError is an error of a commit. After any other error of a transaction it is not committed.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// patientTx calls try again if the server cannot be reached and the transaction was not committed, or commits allows it.
func (db *DB) patientTx(ctx context.Context, commits func(error) bool, try func() error) error {
	return db.write.outage.patiently(ctx, func(err error) bool { return !errors.As(err, new(commitError)) || commits(err) }, try)
}

// maxTries is the maximum number of attempts of a transaction that collides with others.
const maxTries = 10

// repeated runs a write again that collided with another one. Each collision has a winner, so it is rare that the same write
// loses often.
func repeated(write func() error) (err error) {
	for range maxTries {
		if err = write(); failureOf(err) != collided {
			break
		}
	}
	return err
}

// lock has the transactions that lock the same name run one after another from here to their ends. It is what a
// transaction needs that reads rows and then adds or changes others because of what it read, unless the rows that it read
// are locked. SQLite has one transaction at a time that writes.
func (db *DB) lock(ctx context.Context, tx *sql.Tx, name ...string) error {
	if db.dialect.lock == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, db.dialect.lock, strings.Join(name, " ")); err != nil {
		return wrapError(ctx, err, "lock the %s", name[0])
	}
	return nil
}

// Exclusive implements store.Store. The rows of SQLite have one process.
func (db *DB) Exclusive(ctx context.Context, name string, do func() error) error {
	if db.dialect.lock == "" {
		return do()
	}
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return wrapError(ctx, err, "lock %s", name)
	}
	defer tx.Rollback()
	if err := db.lock(ctx, tx, name); err != nil {
		return err
	}
	return do()
}

func (db *DB) tryTx(ctx context.Context, what string, f func(*sql.Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return wrapError(ctx, err, "store %s", what)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return wrapError(ctx, commitError{err}, "store %s", what)
	}
	return nil
}

// changed reports whether a statement changed a row.
func changed(r sql.Result) bool {
	n, err := r.RowsAffected()
	return err == nil && n > 0
}

// scanRow reads a row whose columns are doc, id and others: first the document into v, then
// the other columns, which may replace fields of v.
func scanRow[ID any](r scanner, what string, v any, id *ID, others ...any) error {
	doc := &document{into: v}
	if err := r.Scan(append([]any{doc, id}, others...)...); err != nil {
		return err
	}
	if doc.err != nil {
		return api.Errorf(api.KindInternal, "the row of %s %v is damaged: %w", what, *id, doc.err)
	}
	return nil
}

// document decodes a column.
type document struct {
	into any
	text string
	err  error
}

// Scan implements sql.Scanner. It keeps an error of the document, so that the other columns
// are scanned too.
func (d *document) Scan(value any) error {
	d.text, _ = value.(string)
	d.err = rowjson.Unmarshal([]byte(d.text), d.into)
	return nil
}

// scanValue reads a row with one column.
func scanValue[T any](r scanner) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

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

// optional scans text, "" for NULL.
type optional[S ~string] struct{ to *S }

// Scan implements sql.Scanner.
func (o optional[S]) Scan(value any) error {
	text, _ := value.(string)
	*o.to = S(text)
	return nil
}

// text returns a destination of optional text.
func text[S ~string](to *S) optional[S] { return optional[S]{to} }
