package database

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/api/session"
	"hortus.dev/internal/store"
)

const accountsSQL = `
	SELECT coalesce(account, '') FROM task UNION SELECT account FROM session
	UNION SELECT account FROM document
	UNION SELECT coalesce(account, '') FROM workspace UNION SELECT coalesce(account, '') FROM snapshot
	ORDER BY 1`

// Accounts implements store.Store.
func (db *DB) Accounts(ctx context.Context) ([]string, error) {
	return list(ctx, db.read, "accounts", scanValue[string], accountsSQL)
}

// StoredIDs implements store.Store.
func (db *DB) StoredIDs(ctx context.Context, kind store.Kind, account string) ([]string, error) {
	if !slices.Contains([]store.Kind{store.KindTask, store.KindSession, store.KindWorkspace, store.KindSnapshot}, kind) {
		return nil, api.Errorf(api.KindInvalid, "unknown kind of rows %.64q", kind)
	}
	w := ofAccount(account)
	switch kind {
	case store.KindSession:
		w = where{[]string{"account = ?"}, []any{account}}
	case store.KindWorkspace:
		w.and("state <> 'removed'")
	case store.KindSnapshot:
		w.and("state NOT IN ('removed', 'broken')")
	}
	query, args := w.query("SELECT id FROM "+string(kind), "seq", 0)
	return list(ctx, db.read, string(kind)+"s", scanValue[string], query, args...)
}

// EventBytes implements store.Store.
func (db *DB) EventBytes(ctx context.Context, account string) (sum int64, err error) {
	if err := db.ahead.flushRead(ctx); err != nil { // the rows of sandboxes say whose they are
		return 0, err
	}
	for _, kind := range []api.StreamKind{api.StreamTask, api.StreamSandbox, session.Stream, plan.Stream} {
		w := ofAccount(account)
		if kind == session.Stream || kind == plan.Stream {
			w = where{[]string{"account = ?"}, []any{account}}
		}
		of, args := w.query("SELECT id FROM "+string(kind), "seq", 0)
		var n int64
		query := "SELECT coalesce(sum(octet_length(data)), 0) FROM event WHERE stream_kind = '" + string(kind) + "' AND stream_id IN (" + of + ")"
		if err := db.read.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
			return 0, wrapError(ctx, err, "read the size of the events of account %.64q", account)
		}
		sum += n
	}
	return sum, nil
}
