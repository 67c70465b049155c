package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// pruneBatch is the number of rows that one transaction removes; other writers wait for
// it. pruneFindLimit is the number of rows that one query finds.
const (
	pruneBatch     = 200
	pruneFindLimit = 10_000
)

// Statements that find rows that exceed a retention: ?1 rows, ?2 bytes, ?3 the oldest
// end, ?4 the maximum number of results. Rows without an account are the operator's.
const (
	prunedSandboxesSQL = `SELECT id FROM (SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)) OVER w AS size
		FROM sandbox WHERE state IN ('ended', 'lost')
		WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC))
		WHERE n > ?1 OR size > ?2 OR ended < ?3 LIMIT ?4`
	prunedSnapshotsSQL = `SELECT id FROM (SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)) OVER w AS size
		FROM snapshot WHERE state IN ('broken', 'removed')
		WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC))
		WHERE n > ?1 OR size > ?2 OR ended < ?3 LIMIT ?4`
	prunedRepositoriesSQL = `SELECT id FROM (SELECT id, coalesce(ended_at, created_at) AS ended, row_number() OVER w AS n, sum(octet_length(doc)) OVER w AS size
		FROM repository WHERE state = 'removed'
		WINDOW w AS (PARTITION BY account ORDER BY coalesce(ended_at, created_at) DESC, seq DESC))
		WHERE n > ?1 OR size > ?2 OR ended < ?3 LIMIT ?4`
	prunedExecsSQL = `SELECT id FROM (SELECT exec.id AS id, coalesce(exec.ended_at, exec.started_at) AS ended, row_number() OVER w AS n, sum(octet_length(exec.doc)) OVER w AS size
		FROM exec JOIN sandbox ON sandbox.id = exec.sandbox WHERE exec.state IN ('exited', 'unknown')
		WINDOW w AS (PARTITION BY sandbox.account ORDER BY coalesce(exec.ended_at, exec.started_at) DESC, exec.seq DESC))
		WHERE n > ?1 OR size > ?2 OR ended < ?3 LIMIT ?4`
)

// Prune implements store.Store.
func (db pruner) Prune(ctx context.Context, keep store.Retention) (done store.Pruned, err error) {
	if keep.Rows < 1 || keep.Execs < 1 || keep.Decisions < 1 || keep.Bytes < 1 {
		return done, api.Errorf(api.KindInvalid, "retention of %d rows, %d commands, %d decisions and %d bytes: all must be positive", keep.Rows, keep.Execs, keep.Decisions, keep.Bytes)
	}
	if err := db.ahead.flush(ctx); err != nil {
		return done, err
	}
	for _, kind := range []struct {
		what, find string
		rows       int
		remove     []removal
	}{
		{"sandboxes", prunedSandboxesSQL, keep.Rows, []removal{
			{`DELETE FROM exec WHERE sandbox = ?1 AND EXISTS (SELECT 1 FROM sandbox WHERE id = ?1 AND state IN ('ended', 'lost'))`, &done.Execs},
			{`DELETE FROM event WHERE stream_kind = 'sandbox' AND stream_id = ?1 AND EXISTS (SELECT 1 FROM sandbox WHERE id = ?1 AND state IN ('ended', 'lost'))`, &done.Events},
			{`DELETE FROM sandbox WHERE id = ?1 AND state IN ('ended', 'lost')`, &done.Sandboxes},
		}},
		{"execs", prunedExecsSQL, keep.Execs, []removal{{`DELETE FROM exec WHERE id = ?1 AND state IN ('exited', 'unknown')`, &done.Execs}}},
		{"snapshots", prunedSnapshotsSQL, keep.Rows, []removal{{`DELETE FROM snapshot WHERE id = ?1 AND state IN ('broken', 'removed')`, &done.Snapshots}}},
		{"repositories", prunedRepositoriesSQL, keep.Rows, []removal{{`DELETE FROM repository WHERE id = ?1 AND state = 'removed'`, &done.Repositories}}},
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
	return done, db.pruneSpent(ctx, keep, &done.Spent)
}

// removal is a statement that removes the rows of an id, and their counter.
type removal struct {
	query string
	count *int
}

// run removes the rows of one id.
func (r removal) run(ctx context.Context, tx *sql.Tx, id string) error {
	res, err := tx.ExecContext(ctx, r.query, id)
	if err != nil {
		return wrapError(ctx, err, "remove old rows")
	}
	n, err := res.RowsAffected()
	*r.count += int(n)
	return err
}

// findExpired returns the ids of at most pruneFindLimit rows that exceed a retention.
func (db *database) findExpired(ctx context.Context, what, find string, rows int, keep store.Retention) ([]string, error) {
	var oldest int64
	if !keep.Before.IsZero() {
		oldest = keep.Before.UnixMicro()
	}
	return list(ctx, db.read, "old "+what, scanValue[string], find, rows, keep.Bytes, oldest, pruneFindLimit)
}

// pruneOnce removes at most pruneFindLimit rows and returns how many it found.
func (db pruner) pruneOnce(ctx context.Context, what, find string, rows int, keep store.Retention, removals []removal) (int, error) {
	ids, err := db.findExpired(ctx, what, find, rows, keep)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(ids, pruneBatch) {
		err := db.inTx(ctx, "the retention of "+what, func(tx *sql.Tx) error {
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
