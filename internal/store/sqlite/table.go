package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

// table has the statements that are the same for each family of rows. T is what a row
// stores: an identifier, a start and a document, and columns of its own.
type table[T any, ID ~string] struct {
	db    *database
	ahead *ahead // nil if rows are stored in the database at once
	// what names a row in errors, plural several; name is the table's.
	what, plural, name string
	// letter begins an identifier, at is the column with the start of a row.
	letter, at string
	// columns are what scan reads.
	columns string
	scan    func(scanner) (T, error)
	// mark returns the start and the identifier of a row.
	mark func(T) (time.Time, ID)
	// states are the states of a row, final those that do not change.
	states, final []string
	// values returns what a row stores before its document: an identifier, any value, a
	// state and others.
	values func(T) []any
	// document returns what to store as the document; nil means the row itself.
	document func(T) (any, error)

	// If any value is an owner: the columns of the values after it, and the table with
	// children of these rows, which have the same owner, or "".
	stored []string
	child  string
}

// args validates a row and returns its values and its document.
func (t *table[T, ID]) args(v T) ([]any, error) {
	args := t.values(v)
	state, _ := args[2].(string)
	start, id := t.mark(v)
	if err := t.validate(id, start, state); err != nil {
		return nil, err
	}
	var doc any = v
	if t.document != nil {
		var err error
		if doc, err = t.document(v); err != nil {
			return nil, err
		}
	}
	b, err := rowjson.Marshal(doc)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s %s: %w", t.what, id, err)
	}
	return append(args, string(b)), nil
}

// validate checks what every row needs: an identifier, a start and a known state.
func (t *table[T, ID]) validate(id ID, start time.Time, state string) error {
	if id == "" {
		return api.Errorf(api.KindInvalid, "row of a %s: the id is missing", t.what)
	}
	if start.IsZero() {
		return api.Errorf(api.KindInvalid, "%s %s: the start time is missing", t.what, id)
	}
	if !slices.Contains(t.states, state) {
		return api.Errorf(api.KindInvalid, "%s %s: unknown state %.64q", t.what, id, state)
	}
	return nil
}

// insertSQL takes id, owner and the stored columns.
func (t *table[T, ID]) insertSQL() string {
	values := ""
	for i := range t.stored {
		values += fmt.Sprintf(", ?%d", i+3)
	}
	return "INSERT INTO " + t.name + " (id, owner, host, lease_epoch, " + strings.Join(t.stored, ", ") +
		") VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1" + values + ")"
}

// updateSQL takes what insertSQL takes.
func (t *table[T, ID]) updateSQL() string {
	set := ""
	for i, column := range t.stored {
		set += fmt.Sprintf(", %s = ?%d", column, i+3)
	}
	return "UPDATE " + t.name + ` SET owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
		lease_epoch = lease_epoch + (owner IS NOT ?2)` + set + `
		WHERE id = ?1 AND (state = ?3 OR state NOT IN ('` + strings.Join(t.final, "', '") + "'))"
}

// insert stores a new row.
func (t *table[T, ID]) insert(ctx context.Context, v T) error {
	args, err := t.args(v)
	if err != nil {
		return err
	}
	_, err = t.db.write.ExecContext(ctx, t.insertSQL(), args...)
	return t.insertError(ctx, err, args)
}

func (t *table[T, ID]) insertError(ctx context.Context, err error, args []any) error {
	if err != nil {
		return insertError(ctx, err, t.what, args[0].(string), ownerOf(args))
	}
	return nil
}

// ownerOf names the owner among the values of a row.
func ownerOf(args []any) string {
	owner, _ := args[1].(string)
	return "owner " + owner
}

// update replaces a row. A new owner increments the lease epoch and takes over the children
// of the row.
func (t *table[T, ID]) update(ctx context.Context, v T) error {
	args, err := t.args(v)
	if err != nil {
		return err
	}
	return t.updateArgs(ctx, args)
}

func (t *table[T, ID]) updateArgs(ctx context.Context, args []any) error {
	return t.db.inTx(ctx, t.what+" "+args[0].(string), func(tx *sql.Tx) error { return t.updateIn(ctx, tx, args) })
}

// updateIn is update in a transaction.
func (t *table[T, ID]) updateIn(ctx context.Context, tx *sql.Tx, args []any) error {
	id := args[0].(string)
	r, err := tx.ExecContext(ctx, t.updateSQL(), args...)
	if err != nil {
		return updateError(ctx, err, t.what, id, ownerOf(args))
	}
	if !changed(r) {
		return t.conflict(ctx, tx, id, args[2])
	}
	if t.child == "" {
		return nil
	}
	_, err = tx.ExecContext(ctx, "UPDATE "+t.child+` SET (owner, host, lease_epoch) =
		(SELECT owner, host, lease_epoch FROM `+t.name+` WHERE id = ?1) WHERE `+t.name+` = ?1 AND owner IS NOT ?2`, args[:2]...)
	if err != nil {
		return wrapError(ctx, err, "store the owner of %s %s", t.what, id)
	}
	return nil
}

// conflict explains why an update changed nothing: the row does not exist, or its state is
// final.
func (t *table[T, ID]) conflict(ctx context.Context, tx *sql.Tx, id string, state any) error {
	have, err := get(ctx, tx, t.what, id, scanValue[string], "SELECT state FROM "+t.name+" WHERE id = ?")
	if err != nil {
		return err
	}
	return api.Errorf(api.KindConflict, "%s %s is %s, which is final; it cannot become %s", t.what, id, have, state)
}

// get reads the row with an identifier.
func (t *table[T, ID]) get(ctx context.Context, r runner, id ID) (v T, err error) {
	if err := t.ahead.flush(ctx); err != nil {
		return v, err
	}
	return get(ctx, r, t.what, string(id), t.scan, `SELECT `+t.columns+` FROM `+t.name+` WHERE id = ?`)
}

// list reads at most limit rows, newest first; limit 0 means all.
func (t *table[T, ID]) list(ctx context.Context, r runner, w where, limit int) ([]T, error) {
	if limit < 0 {
		return nil, t.badLimit(limit)
	}
	if err := t.ahead.flush(ctx); err != nil {
		return nil, err
	}
	q, args := w.selectSQL(t.columns, t.name, t.at+" DESC, seq DESC", limit)
	return list(ctx, r, t.plural, t.scan, q, args...)
}

func (t *table[T, ID]) badLimit(limit int) error {
	return api.Errorf(api.KindInvalid, "list %s: the limit %d is negative", t.plural, limit)
}

// cursor returns the position after a row.
func (t *table[T, ID]) cursor(v T) store.Cursor {
	at, id := t.mark(v)
	return store.Cursor{At: at, ID: string(id)}
}

// page reads the rows after a cursor and returns the cursor of the next page, the zero
// Cursor after the last one. A page ends at its limit, or with the row that exceeds
// store.MaxPageBytes. If the cursor's row was removed, the other rows of the same instant
// are listed again.
func (t *table[T, ID]) page(ctx context.Context, r runner, w where, limit int, after store.Cursor) (rows []T, next store.Cursor, err error) {
	if limit < 1 {
		return nil, next, api.Errorf(api.KindInvalid, "list %s: the limit %d is not positive", t.plural, limit)
	}
	if err := t.ahead.flush(ctx); err != nil {
		return nil, next, err
	}
	if !after.IsZero() {
		w.conds = append(w.conds, "("+t.at+", seq) < (?, coalesce((SELECT seq FROM "+t.name+" WHERE id = ?), 9223372036854775807))")
		w.args = append(w.args, after.At.UnixMicro(), after.ID)
	}
	q, args := w.selectSQL(t.columns, t.name, t.at+" DESC, seq DESC", limit+1)
	size := 0
	err = each(ctx, r, t.plural, q, args, func(s scanner) (bool, error) {
		if len(rows) == limit || size >= store.MaxPageBytes {
			next = t.cursor(rows[len(rows)-1])
			return false, nil
		}
		v, err := t.scan(sizeCounter{s, &size})
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
