package sqlite

import (
	"context"
	"slices"

	"hortus.dev/internal/store"
)

// Statements that find decisions that exceed a retention, for one account (?1): beyond a
// number (?2), and beyond a number of bytes (?2). Each returns the largest seq to remove.
const (
	egressBeyondRowsSQL  = `SELECT seq FROM egress WHERE account = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2`
	egressBeyondBytesSQL = `SELECT seq FROM (SELECT seq, sum(size) OVER (ORDER BY seq DESC) AS total FROM egress WHERE account = ?1) AS sums
		WHERE total > ?2 ORDER BY seq DESC LIMIT 1`
	// The accounts, with one step in the index for each.
	egressAccountsSQL = `WITH RECURSIVE accounts (account) AS (
			SELECT min(account) FROM egress
			UNION ALL SELECT (SELECT min(account) FROM egress WHERE egress.account > accounts.account) FROM accounts WHERE account IS NOT NULL)
		SELECT account FROM accounts WHERE account IS NOT NULL`
	removeEgressSQL    = `DELETE FROM egress WHERE seq IN (SELECT seq FROM egress WHERE account = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3)`
	removeOldEgressSQL = `DELETE FROM egress WHERE seq IN (SELECT seq FROM egress WHERE at < ?1 ORDER BY at LIMIT ?2)`
)

// egressBatch is the number of decisions that one transaction removes; other writers wait for it.
const egressBatch = 1000

// pruneEgress removes the decisions that exceed a retention and adds their number to done. The
// age is that of each row: a clock that was wrong for a time removes only what it stamped.
func (db pruner) pruneEgress(ctx context.Context, keep store.Retention, done *int) error {
	if !keep.Before.IsZero() {
		if err := db.removeEgress(ctx, done, removeOldEgressSQL, toMicros(keep.Before), egressBatch); err != nil {
			return err
		}
	}
	accounts, err := list(ctx, db.read, "accounts of decisions", scanValue[string], egressAccountsSQL)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		beyondRows, err := list(ctx, db.read, "old decisions", scanValue[int64], egressBeyondRowsSQL, account, keep.Decisions)
		if err != nil {
			return err
		}
		beyondBytes, err := list(ctx, db.read, "old decisions", scanValue[int64], egressBeyondBytesSQL, account, keep.Bytes)
		if err != nil {
			return err
		}
		last := slices.Max(append(append(beyondRows, beyondBytes...), 0))
		if last == 0 {
			continue
		}
		if err := db.removeEgress(ctx, done, removeEgressSQL, account, last, egressBatch); err != nil {
			return err
		}
	}
	return nil
}

// removeEgress runs a statement that removes at most egressBatch rows until it removes fewer.
func (db pruner) removeEgress(ctx context.Context, done *int, query string, args ...any) error {
	for {
		r, err := db.write.ExecContext(ctx, query, args...)
		if err != nil {
			return wrapError(ctx, err, "remove old decisions")
		}
		n, err := r.RowsAffected()
		if err != nil {
			return wrapError(ctx, err, "remove old decisions")
		}
		*done += int(n)
		if n < egressBatch {
			return nil
		}
	}
}
