package database

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// pruneBatch is the number of rows that one transaction removes; other writers wait for
// it. pruneFindLimit is the number of rows that one query finds.
const (
	pruneBatch     = 200
	pruneFindLimit = 10_000
)

// Statements that find rows that exceed a retention: $1 rows, $2 bytes, $3 the oldest
// end, $4 the maximum number of results. Rows without an account are the operator's.
const (
	prunedSandboxesSQL = `
		SELECT id FROM (
			SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)) OVER w AS size
			FROM sandbox WHERE state IN ('ended', 'lost')
			WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC)) AS ended_rows
		WHERE n > $1 OR size > $2 OR ended < $3
		LIMIT $4`
	prunedSnapshotsSQL = `
		SELECT id FROM (
			SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)) OVER w AS size
			FROM snapshot WHERE state IN ('broken', 'removed')
			WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC)) AS ended_rows
		WHERE n > $1 OR size > $2 OR ended < $3
		LIMIT $4`
	prunedRepositoriesSQL = `
		SELECT id FROM (
			SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)) OVER w AS size
			FROM repository WHERE state = 'removed'
			WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC)) AS ended_rows
		WHERE n > $1 OR size > $2 OR ended < $3
		LIMIT $4`
	prunedExecsSQL = `
		SELECT id FROM (
			SELECT exec.id AS id, coalesce(exec.ended_at, exec.started_at) AS ended, row_number() OVER w AS n, sum(octet_length(exec.doc)) OVER w AS size
			FROM exec JOIN sandbox ON sandbox.id = exec.sandbox
			WHERE exec.state IN ('exited', 'unknown')
			WINDOW w AS (PARTITION BY sandbox.account ORDER BY coalesce(exec.ended_at, exec.started_at) DESC, exec.seq DESC)) AS ended_rows
		WHERE n > $1 OR size > $2 OR ended < $3
		LIMIT $4`
)

// Statements that remove the rows of a sandbox ($1) that has ended: another daemon may have
// changed its row since it was found.
const (
	removeExecsSQL = `
		DELETE FROM exec
		WHERE sandbox = $1 AND EXISTS (SELECT 1 FROM sandbox WHERE id = $1 AND state IN ('ended', 'lost'))`
	removeSandboxEventsSQL = `
		DELETE FROM event
		WHERE stream_kind = 'sandbox' AND stream_id = $1
			AND EXISTS (SELECT 1 FROM sandbox WHERE id = $1 AND state IN ('ended', 'lost'))`
	removeSandboxSQL = `
		DELETE FROM sandbox WHERE id = $1 AND state IN ('ended', 'lost')`
)

// Prune implements store.Store.
func (db *DB) Prune(ctx context.Context, keep store.Retention) (done store.Pruned, err error) {
	if keep.Rows < 1 || keep.Execs < 1 || keep.Decisions < 1 || keep.Bytes < 1 {
		return done, api.Errorf(api.KindInvalid, "retention of %d rows, %d commands, %d decisions and %d bytes: all must be positive", keep.Rows, keep.Execs, keep.Decisions, keep.Bytes)
	}
	if err := db.ahead.flushRead(ctx); err != nil {
		return done, err
	}
	for _, kind := range []struct {
		what, find string
		rows       int
		remove     []removal
	}{
		{"sandboxes", prunedSandboxesSQL, keep.Rows, []removal{
			{removeExecsSQL, &done.Execs}, {removeSandboxEventsSQL, &done.Events}, {removeSandboxSQL, &done.Sandboxes},
		}},
		{"execs", prunedExecsSQL, keep.Execs, []removal{{`DELETE FROM exec WHERE id = $1 AND state IN ('exited', 'unknown')`, &done.Execs}}},
		{"snapshots", prunedSnapshotsSQL, keep.Rows, []removal{{`DELETE FROM snapshot WHERE id = $1 AND state IN ('broken', 'removed')`, &done.Snapshots}}},
		{"repositories", prunedRepositoriesSQL, keep.Rows, []removal{{`DELETE FROM repository WHERE id = $1 AND state = 'removed'`, &done.Repositories}}},
	} {
		for {
			n, err := db.pruneOnce(ctx, kind.what, kind.find, kind.rows, keep, kind.remove)
			if err != nil {
				return done, err
			}
			if n < pruneFindLimit {
				break
			}
		}
	}
	if err := db.pruneJournal(ctx, journalOf("egress", "decisions"), keep, &done.Decisions); err != nil {
		return done, err
	}
	if err := db.pruneJournal(ctx, journalOf("secret_use", "uses of secrets"), keep, &done.Uses); err != nil {
		return done, err
	}
	return done, db.removeRows(ctx, "amounts that secrets used", &done.Spent, pruneSpentSQL, keep.Decisions, oldest(keep), dayKey(db.Now().AddDate(0, 0, -2)), journalBatch)
}

// removal is a statement that removes rows, and their counter.
type removal struct {
	query string
	count *int
}

// run removes the rows of one id, or those that ended before a time.
func (r removal) run(ctx context.Context, tx *sql.Tx, what any) error {
	res, err := tx.ExecContext(ctx, r.query, what)
	if err != nil {
		return wrapError(ctx, err, "remove old rows")
	}
	n, err := res.RowsAffected()
	*r.count += int(n)
	return err
}

// findExpired returns the ids of at most pruneFindLimit rows that exceed a retention.
func (db *DB) findExpired(ctx context.Context, what, find string, rows int, keep store.Retention) ([]string, error) {
	return list(ctx, db.read, "old "+what, scanValue[string], find, rows, keep.Bytes, oldest(keep), pruneFindLimit)
}

// oldest is the oldest end that a retention keeps; 0 if any.
func oldest(keep store.Retention) int64 {
	if keep.Before.IsZero() {
		return 0
	}
	return keep.Before.UnixMicro()
}

// pruneOnce removes at most pruneFindLimit rows and returns how many it found.
func (db *DB) pruneOnce(ctx context.Context, what, find string, rows int, keep store.Retention, removals []removal) (int, error) {
	ids, err := db.findExpired(ctx, what, find, rows, keep)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(ids, pruneBatch) {
		was := make([]int, len(removals))
		for i, r := range removals {
			was[i] = *r.count
		}
		err := db.inTx(ctx, "the retention of "+what, func(tx *sql.Tx) error {
			for i, r := range removals {
				*r.count = was[i] // it may run again
			}
			for _, id := range batch {
				for _, r := range removals {
					if err := r.run(ctx, tx, id); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// journal has the statements that remove rows of a table with the columns account, seq, size and
// at. Those that find rows are for one account ($1): beyond a number ($2), and beyond a number of
// bytes ($2). Each returns the largest seq to remove.
type journal struct{ what, beyondRows, beyondBytes, accounts, remove, removeOld string }

func journalOf(table, what string) journal {
	in := strings.NewReplacer("TABLE", table).Replace
	return journal{
		what: what,
		beyondRows: in(`
			SELECT seq FROM TABLE WHERE account = $1
			ORDER BY seq DESC LIMIT 1 OFFSET $2`),
		beyondBytes: in(`
			SELECT seq FROM (SELECT seq, sum(size) OVER (ORDER BY seq DESC) AS total FROM TABLE WHERE account = $1) AS sums
			WHERE total > $2
			ORDER BY seq DESC LIMIT 1`),
		// The accounts, with one step in the index for each.
		accounts: in(`
			WITH RECURSIVE accounts (account) AS (
				SELECT min(account) FROM TABLE
				UNION ALL
				SELECT (SELECT min(account) FROM TABLE WHERE TABLE.account > accounts.account) FROM accounts WHERE account IS NOT NULL)
			SELECT account FROM accounts WHERE account IS NOT NULL`),
		remove: in(`
			DELETE FROM TABLE
			WHERE seq IN (SELECT seq FROM TABLE WHERE account = $1 AND seq <= $2 ORDER BY seq LIMIT $3)`),
		removeOld: in(`
			DELETE FROM TABLE
			WHERE seq IN (SELECT seq FROM TABLE WHERE at < $1 ORDER BY at LIMIT $2)`),
	}
}

// journalBatch is the number of rows that one transaction removes; other writers wait for it.
const journalBatch = 1000

// pruneJournal removes the rows that exceed a retention and adds their number to done. The
// age is that of each row: a clock that was wrong for a time removes only what it stamped.
func (db *DB) pruneJournal(ctx context.Context, j journal, keep store.Retention, done *int) error {
	if !keep.Before.IsZero() {
		if err := db.removeRows(ctx, j.what, done, j.removeOld, toMicros(keep.Before), journalBatch); err != nil {
			return err
		}
	}
	accounts, err := list(ctx, db.read, "accounts of "+j.what, scanValue[string], j.accounts)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		beyondRows, err := list(ctx, db.read, "old "+j.what, scanValue[int64], j.beyondRows, account, keep.Decisions)
		if err != nil {
			return err
		}
		beyondBytes, err := list(ctx, db.read, "old "+j.what, scanValue[int64], j.beyondBytes, account, keep.Bytes)
		if err != nil {
			return err
		}
		last := slices.Max(append(append(beyondRows, beyondBytes...), 0))
		if last == 0 {
			continue
		}
		if err := db.removeRows(ctx, j.what, done, j.remove, account, last, journalBatch); err != nil {
			return err
		}
	}
	return nil
}

// removeRows runs a statement that removes at most journalBatch rows until it removes fewer.
func (db *DB) removeRows(ctx context.Context, what string, done *int, query string, args ...any) error {
	for {
		r, err := db.execRelieved(ctx, func() (sql.Result, error) { return db.write.ExecContext(ctx, query, args...) })
		if err != nil {
			return wrapError(ctx, err, "remove old %s", what)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return wrapError(ctx, err, "remove old %s", what)
		}
		*done += int(n)
		if n < journalBatch {
			return nil
		}
	}
}
