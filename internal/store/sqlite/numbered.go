package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// insertNumbered stores rows in one transaction, all or none, and gives each the number that query
// returns. args checks a row and returns its values. then is done in the same transaction; it may
// be nil.
func insertNumbered[T any](ctx context.Context, db *database, what, query string, all []T, args func(T) ([]any, error), number func(*T, int64), then func(*sql.Tx) error) error {
	rows := make([][]any, len(all))
	for i, v := range all {
		var err error
		if rows[i], err = args(v); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	seqs := make([]int64, len(rows))
	err := db.inTx(ctx, what, func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, query)
		if err != nil {
			return wrapError(ctx, err, "store %s", what)
		}
		defer insert.Close()
		for i, values := range rows {
			if err := insert.QueryRowContext(ctx, values...).Scan(&seqs[i]); err != nil {
				return wrapError(ctx, err, "store %s", what)
			}
		}
		if then == nil {
			return nil
		}
		return then(tx)
	})
	if err != nil {
		return err
	}
	for i, seq := range seqs {
		number(&all[i], seq)
	}
	return nil
}

// numbered reads a page of the rows of a table by seq, the largest first. The page ends at its
// limit, or with the row that exceeds store.MaxPageBytes.
func numbered[T any](ctx context.Context, db *database, what, table, columns string, w where, limit int, after store.Cursor, scan func(scanner) (T, error), mark func(T) (time.Time, int64)) (rows []T, next store.Cursor, err error) {
	if limit < 1 {
		return nil, next, api.Errorf(api.KindInvalid, "list %s: the limit %d is not positive", what, limit)
	}
	before := int64(math.MaxInt64)
	if !after.IsZero() {
		if before, err = strconv.ParseInt(after.ID, 10, 64); err != nil {
			return nil, next, api.Errorf(api.KindInvalid, "the cursor is not one of a list of %s", what).
				WithHint("omit it to start at the beginning of the list")
		}
	}
	w.conds = append(w.conds, "seq < ?")
	w.args = append(w.args, before)
	q, args := w.selectSQL(columns, table, "seq DESC", limit+1)
	size := 0
	err = each(ctx, db.read, what, q, args, func(s scanner) (bool, error) {
		if len(rows) == limit || size >= store.MaxPageBytes {
			at, seq := mark(rows[len(rows)-1])
			next = store.Cursor{At: at, ID: fmt.Sprintf("%0*d", api.IDLen, seq)}
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
