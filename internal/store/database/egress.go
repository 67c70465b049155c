package database

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const (
	insertEgressSQL = `
		INSERT INTO egress (account, sandbox, task, at, result, host, size, doc)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		RETURNING seq`
	selectEgressSQL = `
		SELECT doc, seq, account, sandbox, task, at, result, host FROM egress`
)

// InsertEgress implements store.Store.
func (db *DB) InsertEgress(ctx context.Context, all []api.EgressDecision) error {
	return insertNumbered(ctx, db, "decisions", &db.insertEgress, all, egressArgs, func(d *api.EgressDecision, seq int64) { d.Seq = seq }, nil)
}

// egressArgs validates a decision and returns the values of its row.
func egressArgs(d api.EgressDecision) ([]any, error) {
	switch {
	case d.Sandbox == "":
		return nil, api.Errorf(api.KindInvalid, "row of a decision: the sandbox is missing")
	case d.Op == "":
		return nil, api.Errorf(api.KindInvalid, "row of a decision about sandbox %s: the op is missing", d.Sandbox)
	case d.At.IsZero():
		return nil, api.Errorf(api.KindInvalid, "row of a decision about sandbox %s: the time is missing", d.Sandbox)
	}
	switch d.Result {
	case api.EgressAllowed, api.EgressDenied, api.EgressFailed, api.EgressWaiting, api.EgressDropped, api.EgressAlarm:
	default:
		return nil, api.Errorf(api.KindInvalid, "row of a decision about sandbox %s: unknown result %.64q", d.Sandbox, d.Result)
	}
	d.Seq = 0 // the column has it
	doc, err := rowjson.Marshal(d)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "decision about sandbox %s: %w", d.Sandbox, err)
	}
	return []any{d.Account, string(d.Sandbox), nullable(d.Task), toMicros(d.At), string(d.Result), d.Host, len(doc), string(doc)}, nil
}

// EgressPage implements store.Store.
func (db *DB) EgressPage(ctx context.Context, account string, f api.EgressFilter, p api.PageRequest) ([]api.EgressDecision, string, error) {
	var w where
	w.equals("account", account)
	w.equals("sandbox", string(f.Sandbox))
	w.equals("result", string(f.Result))
	if below, ok := strings.CutPrefix(f.Host, "*"); ok && below != "" {
		w.and(`lower(host) LIKE lower(?) ESCAPE '\'`, "%"+strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(below))
	} else {
		w.equals("host", f.Host)
	}
	w.since("at", f.Since)
	return numberedPage(ctx, db, "decisions", selectEgressSQL, w, p, scanEgress,
		func(d api.EgressDecision) (time.Time, int64) { return d.At, d.Seq })
}

func scanEgress(r scanner) (d api.EgressDecision, err error) {
	err = scanRow(r, "decision", &d, &d.Seq, &d.Account, &d.Sandbox, text(&d.Task), instant{&d.At}, &d.Result, &d.Host)
	return d, err
}

// insertNumbered stores rows in one transaction, all or none, and gives each the number that insert
// returns. args checks a row and returns its values. then is done in the same transaction; it may
// be nil.
func insertNumbered[T any](ctx context.Context, db *DB, what string, insert *statement, all []T, args func(T) ([]any, error), number func(*T, int64), then func(*sql.Tx) error) error {
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
	err := db.growTx(ctx, what, func(tx *sql.Tx) error {
		for i, values := range rows {
			if err := insert.queryRow(ctx, tx, values...).Scan(&seqs[i]); err != nil {
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

// numberedPage reads a page of the rows of a table by seq, the largest first.
func numberedPage[T any](ctx context.Context, db *DB, what, selectSQL string, w where, p api.PageRequest, scan func(scanner) (T, error), mark func(T) (time.Time, int64)) ([]T, string, error) {
	limit, after, err := store.Page(p)
	if err != nil {
		return nil, "", err
	}
	if !after.IsZero() {
		before, err := strconv.ParseInt(after.ID, 10, 64)
		if err != nil {
			return nil, "", api.Errorf(api.KindInvalid, "the cursor is not one of a list of %s", what).
				WithHint("omit it to start at the beginning of the list")
		}
		w.and("seq < ?", before)
	}
	q, args := w.query(selectSQL, "seq DESC", limit+1)
	rows, next, err := page(ctx, db.read, what, limit, scan, func(v T) store.Cursor {
		at, seq := mark(v)
		return store.Cursor{At: at, ID: fmt.Sprintf("%0*d", api.IDLen, seq)}
	}, q, args)
	return rows, next.Token(), err
}
